"""A package's model card, licence and badges, as its page shows them. Publishers wrote the texts."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from tfaot_pkg.catalogue.reading import listed, mapped
from tfaot_pkg.ground import reduced, reproducible
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.spec.rules import LONGEST_CARD, homepage_fault

_LINE = 300
_HIGHEST = 3  # the card's own heading is an h2


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """What is proven of a version: `why` says how."""

    text: str
    why: str
    is_good: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """`html` is the card as safe HTML, "" without one; links are web addresses, or "" without one."""

    html: str
    author: str
    homepage: str
    training_data: str
    limits: str
    license_link: str


def card_of(entry: RegistryEntry, info: Mapping[str, Any]) -> Card:
    """The card of `entry`, whose info.json is `info` (empty for versions without one)."""

    def text(name: str, length: int = _LINE) -> str:
        value = info.get(name)
        # Cut here too: the rules of a spec hold for this tool only, and other programs can write info.json.
        return value[:length] if isinstance(value, str) else ""

    homepage = text("homepage")
    return Card(
        html=html_of(text("card", LONGEST_CARD)),
        author=text("author"),
        homepage="" if homepage_fault(homepage) else homepage,
        training_data=text("training_data", 2000),
        limits=text("limits", 2000),
        license_link=_license_link(entry.license),
    )


def _license_link(license_: str) -> str:
    """The text of a licence of SPDX's list; "" for others and for expressions of several."""
    try:
        name = canonicalize_license_expression(license_)
    except InvalidLicenseExpression:
        return ""
    return "" if " " in name or name.startswith("LicenseRef") else f"https://spdx.org/licenses/{name}.html"


def badges_of(entry: RegistryEntry, info: Mapping[str, Any], *, is_signed: bool) -> tuple[Badge, ...]:
    """What is proven of `entry`: only what its documents say, and what every publication was checked for."""
    found = []
    if entry.rows_independent:
        found.append(Badge(text="rows independent", why="Each row of answers depends on its own row of inputs only."))
    elif entry.rows_independent is False:
        found.append(Badge(text="rows depend on one another", why="Only compiled batch sizes run.", is_good=False))
    if bits := _bits(info):
        found.append(bits)
    if precision := reduced.told_by({"precision": reduced.name_of(mapped(info.get("precision")))}):
        why = f"{precision.partition(': ')[2].capitalize()}. The errors are under Validation."
        found.append(Badge(text=f"reduced precision: {precision.partition(':')[0]}", why=why, is_good=False))
    if names := [name for name in listed(info.get("custom_operations")) if isinstance(name, str)]:
        why = f"C++ of the author computes {', '.join(names)[:200]}: its text is checked, and its answers are compared "
        found.append(
            Badge(text="contains its author's operations", why=f"{why}with a Python reference.", is_good=False)
        )
    if entry.glibc:
        inert = "It needs listed functions only, and does nothing when it is loaded"
        why = f"{inert}. It contains its author's operations: code that was not generated." if names else f"{inert}."
        found.append(Badge(text="inert except its author's operations" if names else "inert binary", why=why))
        found.append(Badge(text=f"glibc {entry.glibc[:20]}+", why="The oldest C library that its symbols need."))
    if is_signed:
        found.append(Badge(text="signed", why="The registry's index is signed (TUF), and clients verify it."))
    else:
        found.append(Badge(text="not signed", why="The registry has no signatures.", is_good=False))
    return tuple(found)


def _bits(info: Mapping[str, Any]) -> Badge | None:
    """In the words of `tfaot-pkg build`. None if the package does not say it."""
    if not (text := reproducible.told_by(info)):
        return None
    if info["reproducible"] == "no":
        return Badge(text=text, why="The last digits of answers may depend on the CPU.", is_good=False)
    why = f"Hashes of answers are equal on all {'other ' if text != reproducible.told() else ''}targets."
    return Badge(text=text, why=why)


def html_of(markdown: str) -> str:
    """Safe HTML of CommonMark with tables: HTML in it becomes text, links are http and https, images become links.

    Headings begin below that of the card, and leave out no level.
    """
    return str(_renderer().render(markdown)) if markdown.strip() else ""


@functools.cache
def _renderer() -> MarkdownIt:
    # A publisher wrote the card: no HTML, no addresses such as javascript: or data:, and no images, which would tell
    # their server who reads the page.
    made = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    made.validateLink = lambda url: url.startswith(("https://", "http://"))  # type: ignore[method-assign]
    made.core.ruler.push("page", _fit_into_page)
    return made


def _fit_into_page(state: Any) -> None:
    levels = [int(token.tag[1]) for token in state.tokens if token.type == "heading_open"]
    shift, last = _HIGHEST - min(levels, default=1), _HIGHEST - 1
    for token in state.tokens:
        if token.type == "heading_open":
            last = min(6, last + 1, int(token.tag[1]) + shift)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{last}"
        for each in token.children or ():
            _without_referrer(each)


def _without_referrer(token: Token) -> None:
    if token.type == "link_open":
        token.attrSet("rel", "nofollow noopener noreferrer")
