"""Hooks of MkDocs: pages that the navigation does not list, tabs, and links to files that are not pages.

Links that leave docs/ lead to the repository if its address is known (TFAOT_REPOSITORY), otherwise they become text:
the site names no host by itself.
"""

from __future__ import annotations

import importlib
import os
import re
import textwrap
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
_TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- end of tabs -->$", re.MULTILINE | re.DOTALL)
_TAB = re.compile(r"^\*\*([^*\n]+)\*\*$", re.MULTILINE)
_FOLDERS = {"how-to": "How-to guides", "decisions": "Explanation"}


def on_config(config: Any) -> Any:
    docs = Path(config["docs_dir"])
    listed = set(_listed(config["nav"]))
    for folder, section in _FOLDERS.items():
        (entries,) = (each[section] for each in config["nav"] if section in each)
        more = [f"{folder}/{page.name}" for page in sorted((docs / folder).glob("*.md"))]
        missing = [page for page in more if page not in listed]
        place = next((each["Decisions"] for each in entries if isinstance(each, dict) and "Decisions" in each), entries)
        place += missing
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages of the repository's top folder that the navigation lists."""
    file = importlib.import_module("mkdocs.structure.files").File  # only a build of the site has it
    docs = Path(config["docs_dir"])
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (docs.parent / name).read_text(encoding="utf-8")
        content = _LINK.sub(lambda found: f"[{found[1]}]({_from_docs(found[2])}{found[3] or ''})", text)
        files.append(file.generated(config, name.lower(), content=content))
    return files


def _from_docs(path: str) -> str:
    """A path relative to the repository's top folder, as one that is relative to docs/."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"


def _listed(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for each in (nav.values() if isinstance(nav, dict) else nav) for page in _listed(each)]


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    docs = Path(config["docs_dir"])
    repository = os.environ.get("TFAOT_REPOSITORY", "").rstrip("/")
    version = os.environ.get("TFAOT_VERSION", "")

    def target(found: re.Match[str]) -> str:
        text, path, _ = found.groups()
        place = (docs / page.file.src_uri).parent / path
        if place.resolve().is_relative_to(docs.resolve()) and place.is_file() and place.suffix == ".md":
            return found[0]
        if not repository:
            return text
        return f"[{text}]({repository}/blob/v{version}/{place.resolve().relative_to(docs.parent.resolve())})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    linked = "".join(part if part.startswith("```") else _LINK.sub(target, part) for part in parts)
    return _TABS.sub(lambda found: _as_tabs(found[1]), linked)


def _as_tabs(text: str) -> str:
    """A part of a page in which lines such as `**Keras**` are titles, as tabs with these titles."""
    _, *titled = _TAB.split(text)
    return "\n".join(
        f'=== "{title}"\n\n{textwrap.indent(content.strip(), "    ")}\n'
        for title, content in zip(titled[::2], titled[1::2], strict=True)
    )
