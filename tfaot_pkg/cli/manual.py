"""`tfaot-pkg help`: the help of a command, or a page of the documentation, which a wheel brings along."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tfaot_pkg.ground import resources

if TYPE_CHECKING:
    from typer._click import Command, Context


def help_for(root: Context, words: Sequence[str]) -> str:
    """What `help WORDS` prints; `root` is the context of the program. Raises BadParameter for what does not exist."""
    pages = resources.pages()
    if not words:
        names = textwrap.fill(
            ", ".join(_short(pages)), 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
        return f"{root.get_help()}\n\nPages (tfaot-pkg help PAGE):\n{names}"
    if context := _context_of(root, words):
        page = pages.get(f"how-to/{words[-1]}") if len(words) == 1 else None
        more = "" if page is None else f"\n\nThe page about it: tfaot-pkg help how-to/{words[-1]}"
        return context.get_help() + more
    page = _page_of(pages, words)
    if page is None:
        raise typer.BadParameter(_unknown(root, pages, words), param_hint="COMMAND|PAGE")
    return page.read_text(encoding="utf-8")


def _short(pages: Mapping[str, Path]) -> list[str]:
    """Names of pages without their folders, which `help` understands too."""
    return sorted({path.rpartition("/")[2] for path in pages})


def _context_of(root: Context, words: Sequence[str]) -> Context | None:
    """The context of a command by its path, such as `registry keys new`."""
    context: Context = root
    for word in words:
        found: Command | None = getattr(context.command, "get_command", lambda *_: None)(context, word)
        if found is None:
            return None
        context = type(context)(found, parent=context, info_name=word)
    return context


def _page_of(pages: Mapping[str, Path], words: Sequence[str]) -> Path | None:
    """A page by its name, with or without its folder and `.md`."""
    name = re.sub(r"^docs/|\.md$", "", "-".join(words).lower())
    return pages.get(name) or next((file for path, file in pages.items() if path.rpartition("/")[2] == name), None)


def _unknown(root: Context, pages: Mapping[str, Path], words: Sequence[str]) -> str:
    asked = " ".join(words)
    names = [*root.command.list_commands(root), *_short(pages)]  # type: ignore[attr-defined]
    near = list(dict.fromkeys(difflib.get_close_matches(asked, names, n=3)))
    meant = f"; did you mean {' or '.join(near)}?" if near else "; `tfaot-pkg help` lists all of them"
    return f"there is no command and no page {asked!r}{meant}"
