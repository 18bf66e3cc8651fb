"""Pages are true: the reference is current, links lead somewhere, commands exist. tests/test_pages.py runs them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from tfaot_pkg.cli.app import app
from tools.make_reference import outdated

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*/*.md"), *ROOT.glob("examples/*/*.md")]
)
COMMANDS = get_command(app)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def shell_blocks(page: Path) -> list[str]:
    return re.findall(r"^```(?:sh|console)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> Iterator[list[str]]:
    """Every call of tfaot-pkg on the page, in blocks and in text, as words."""
    text = page.read_text()
    lines = [line.strip() for block in shell_blocks(page) for line in block.splitlines()]
    lines += re.findall(r"`(tfaot-pkg [^`]+)`", text) + re.findall(r"^    (tfaot-pkg .+)$", text, re.MULTILINE)
    for line in lines:
        for part in re.split(r"&&|;|\$\(|\)", line):
            if part.strip().startswith("tfaot-pkg ") and "..." not in part:
                yield shlex.split(part, comments=True)[1:]


def test_the_reference_pages_are_what_the_code_says() -> None:
    assert outdated() == [], "python tools/make_reference.py"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for target, _, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]*))?\)", page.read_text()):
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}, anchor


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_a_page_names_exist_with_these_options(page: Path) -> None:
    for words in commands(page):
        if words[0].startswith("-"):
            continue
        command, path, rest = COMMANDS, "", words
        while hasattr(command, "commands"):
            assert rest and rest[0] in command.commands, words
            command, path, rest = command.commands[rest[0]], f"{path} {rest[0]}", rest[1:]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.partition("=")[0] for word in rest if word.startswith("-")} <= known | {"--help"}, words


def test_the_glossary_is_short_and_its_words_are_used() -> None:
    glossary = ROOT / "docs" / "reference" / "glossary.md"
    words = re.findall(r"^\| ([^|-]+?) \| ", glossary.read_text(), re.MULTILINE)[1:]
    assert words == sorted(set(words), key=str.lower) and 0 < len(words) <= 40
    files = [*PAGES, *ROOT.glob("tfaot_pkg/**/*.py")]
    text = "\n".join(file.read_text() for file in files if file != glossary).lower()
    assert [word for word in words if word.lower() not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_of_the_repository_that_a_page_names_exist(page: Path) -> None:
    """In code spans: paths below a folder of the repository, and modules and folders of tfaot_pkg by short names."""
    tops = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in ("build", "dist")}
    inside = {path.name for path in (ROOT / "tfaot_pkg").iterdir()}
    missing = []
    text = re.sub(r"New file `[^`]+`", "", page.read_text())  # one that the reader makes
    for span in re.findall(r"`([\w./-]+)`", text):
        first, slash, rest = span.partition("/")
        if "NAME" in span:  # a path of a package, not of this repository
            continue
        if first in tops and slash:
            places = [ROOT / span]
        elif first in inside and (slash or first.endswith(".py")) and (not rest or rest.endswith((".py", ".txt", "/"))):
            places = [ROOT / "tfaot_pkg" / span]
        else:
            continue
        if not any(place.exists() for place in (*places, page.parent / span)):
            missing.append(span)
    assert missing == []


def _rooms() -> Iterator[tuple[list[Path], str]]:
    """What the architecture page says of each module and folder of tfaot_pkg: its places, and the text."""
    page, package = (ROOT / "docs" / "architecture.md").read_text(), ROOT / "tfaot_pkg"
    for section in page.partition("\n## Layers")[0].split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        wing = package / title.strip("`/") if title.startswith("`") else package
        if wing != package:
            yield [wing], text.partition("\n|")[0]
        for names, content in re.findall(r"^\| (`.*?`) \| (.*) \|$", text, re.MULTILINE):
            yield [wing / name for name in re.findall(r"`([\w/]+)`", names)], content


def test_the_architecture_page_lists_the_wings_and_rooms_that_exist() -> None:
    listed = {place for places, _ in _rooms() for place in places}
    assert [place for place in listed if not place.is_dir() and not place.with_suffix(".py").is_file()] == []
    package = ROOT / "tfaot_pkg"
    wings = {path for path in package.iterdir() if path.is_dir() and not path.name.startswith("_")}
    modules = {path.with_suffix("") for path in package.glob("*.py") if not path.stem.startswith("_")}
    assert wings | modules <= listed


def test_the_modules_that_the_architecture_page_names_exist_in_their_folder() -> None:
    rooms = [*_rooms()]
    assert len(rooms) > 40
    for places, text in rooms:
        folders = [place if place.is_dir() else place.parent for place in places]
        named = {name for name in re.findall(r"`([a-z_]+)/?`", text) if "tfaot" not in name}  # functions of CMake
        missing = {
            name
            for name in named
            if not any((each / f"{name}.py").exists() or (each / name).is_dir() for each in folders)
        }
        assert missing == set(), places


def test_the_architecture_page_has_no_tables_of_sizes() -> None:
    """They are those of the day on which they were written: `make lint` prints today's."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert not re.findall(r"^\|.*\b\d{1,3},\d{3}\b.*\|$", page, re.MULTILINE)


def test_the_architecture_page_shows_the_layers_that_are_checked() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    shown = [
        sorted(line.split())
        for line in re.findall(r"^```\n(live\n.*?)^```", page, re.MULTILINE | re.DOTALL)[0].splitlines()
    ]
    listed = re.findall(r"^layers = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)[0]
    hidden = {"__main__", "_version"}
    layers = [sorted({*line.split(" | ")} - hidden) for line in re.findall(r'"(.+)"', listed)]
    assert shown == [layer for layer in layers if layer]
