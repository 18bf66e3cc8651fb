"""Build the documentation site into build/site/VERSION, and check it: `make docs`.

Checked are: links and anchors (MkDocs, strict), headings, spelling, and that no page loads anything from another host.
build/site/versions.js lists the versions that are there and their pages, newest first; index.html leads to the newest
one. All of it also works when it is opened from a folder, where browsers run no workers and answer no requests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
WORDS = ROOT / "docs" / "words.txt"
_BIN = Path(sys.executable).parent


class _Page(HTMLParser):
    """The headings of a page, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if re.fullmatch(r"h[1-6]", tag):
            self.levels.append(int(tag[1]))
        place = values.get("src") or (values.get("href") if tag == "link" else None)
        if place and re.match(r"(https?:)?//", place) and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(place)


def version() -> str:
    (found,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "tfaot_pkg/_version.py").read_text(), re.MULTILINE)
    return str(found)


def faults_of(page: Path) -> list[str]:
    """What is wrong with a page of the site."""
    parser = _Page()
    text = page.read_text()
    parser.feed(text)
    found = [f"loads {place}" for place in parser.loaded]
    found += [f"loads {place}" for place in re.findall(r"@import[^;]*//|url\(\s*[\"']?(?:https?:)?//[^)]*", text)]
    if page.name != "404.html" and parser.levels.count(1) != 1:
        found.append(f"{parser.levels.count(1)} headings of the first level")
    skipped = [f"h{b} after h{a}" for a, b in zip(parser.levels, parser.levels[1:], strict=False) if b > a + 1]
    return [f"{page.relative_to(SITE)}: {each}" for each in [*found, *dict.fromkeys(skipped)]]


def spelling() -> list[str]:
    """Words that are misspelled in pages and messages."""
    pages = [str(path) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests/wording.snapshot"]]
    argv = [str(_BIN / "codespell"), "--ignore-words", str(WORDS), *pages]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()


def write_versions(site: Path) -> None:
    """versions.js and index.html, of the versions that are in a folder."""
    names = [each.name for each in site.iterdir() if (each / "index.html").is_file() and each.name[0].isdigit()]
    names.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    listed = [
        {"version": name, "pages": sorted(str(page.relative_to(site / name)) for page in (site / name).rglob("*.html"))}
        for name in names
    ]
    (site / "versions.js").write_text(f"globalThis.tfaotVersions = {json.dumps(listed)};\n")
    (site / "index.html").write_text(
        '<!doctype html><html lang="en"><title>tfaot-pkg</title>'
        f'<meta http-equiv="refresh" content="0; url={names[0]}/index.html">'
        f'<a href="{names[0]}/index.html">tfaot-pkg {names[0]}</a></html>\n'
    )


def main() -> None:
    built = SITE / version()
    shutil.rmtree(built, ignore_errors=True)
    argv = [str(_BIN / "mkdocs"), "build", "--strict", "--quiet", "--site-dir", str(built)]
    environment = {**os.environ, "TFAOT_VERSION": version(), "NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(argv, cwd=ROOT, env=environment, check=False).returncode:
        sys.exit("the site was not built: see above")
    write_versions(SITE)
    faults = [fault for page in sorted(built.rglob("*.html")) for fault in faults_of(page)]
    faults += [f"{each.relative_to(SITE)}: loads another host's files" for each in built.rglob("*.css")
               if re.search(r"url\(\s*[\"']?(https?:)?//", each.read_text())]  # fmt: skip
    faults += spelling()
    if faults:
        sys.exit("\n".join(faults))
    print(f"{built.relative_to(ROOT)}: {len(list(built.rglob('*.html')))} pages, without faults")


if __name__ == "__main__":
    main()
