"""The suite itself: what sweeps leave for the night, and what is made once for all workers."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kept import kept
from tests.order import MINUTES
from tests.sweeps import UNKNOWN
from tests.wording import Snapshot, entries_without_a_test, read, reported
from tfaot_pkg.ground.process import CommandFailed, run

Compare = Callable[..., tuple[int, str]]
HERE = Path(__file__).resolve().parent
# Plugins take longer to load than these tests to run.
ALONE = ["-p", "no:cacheprovider", "-p", "xdist"]
VARIABLES = {"PYTHONPATH": str(HERE.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

_SWEEP = """
import pytest

@pytest.mark.sweep("a-1", "b-*", night=["c-2"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("letter", ["a", "b", "c"])
def test_swept(letter, number): ...

def test_plain(): ...
"""
_MODULE = """
import pytest

pytestmark = pytest.mark.sweep("test_one", "test_two[x]", night=1)

def test_one(): ...

@pytest.mark.parametrize("case", ["x", "y"])
def test_two(case): ...

def test_three(): ...

@pytest.mark.release
def test_four(): ...

@pytest.mark.sweep(night=2)
@pytest.mark.parametrize("case", range(100))
def test_drawn(case): ...

@pytest.mark.sweep()
@pytest.mark.parametrize("case", range(100))
def test_usual(case): ...
"""
_PLAIN = """
import pytest

@pytest.mark.nightly
@pytest.mark.parametrize("case", range(100))
def test_plain(case): ...
"""


def collect(folder: Path, files: dict[str, str], *arguments: str) -> set[str]:
    """The names of the tests that pytest takes of `files` with our hooks and `arguments`."""
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "conftest.py").write_text(
        "from tests.sweeps import pytest_collection_modifyitems, pytest_itemcollected\n"
    )
    (folder / "pytest.ini").write_text(
        "[pytest]\ntestpaths = .\nmarkers =\n    nightly: n\n    release: r\n    sweep: s\n"
    )
    argv = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "--collect-only", *ALONE]
    variables = {**os.environ, **VARIABLES}
    printed = run([*argv, *arguments], cwd=folder, env=variables, timeout=60).stdout
    return set(re.findall(r"^test_.*::(.*)$", printed, re.MULTILINE))


@pytest.mark.slow
def test_of_a_sweep_only_the_named_cases_are_left_by_day(tmp_path: Path) -> None:
    files = {"test_function.py": _SWEEP, "test_module.py": _MODULE, "test_nightly.py": _PLAIN}
    by_day = {"test_swept[a-1]", "test_swept[b-1]", "test_swept[b-2]", "test_plain", "test_one", "test_two[x]"}
    left_out = {"test_swept[a-2]", "test_swept[c-1]", "test_four"}
    at_night = {"test_swept[c-2]", "test_two[y]", "test_three"}
    names = ("drawn", "usual", "plain")
    drawn, usual, plain = ({f"test_{name}[{number}]" for number in range(100)} for name in names)
    assert collect(tmp_path, files, "-m", "not nightly") == by_day
    assert collect(tmp_path, files, "-m", "nightly") == at_night | left_out | drawn | usual | plain
    chosen = collect(tmp_path, files, "-m", "nightly and not release") - at_night
    assert chosen <= drawn | usual | plain and 5 < len(chosen & usual) < 20
    assert 30 < len(chosen & drawn) < 70 and 15 < len(chosen & plain) < 40
    assert collect(tmp_path, files, "-m", "release") == left_out | ((drawn | usual | plain) - chosen)


_LENGTHS = """
import pytest

@pytest.mark.slow
@pytest.mark.timeout(900)
def test_longest(): ...

@pytest.mark.slow
@pytest.mark.parametrize("case", range(3))
def test_long(case): ...

@pytest.mark.parametrize("case", range(4))
def test_quick(case): ...
"""


@pytest.mark.slow
def test_each_worker_begins_with_long_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.order import pytest_collection_modifyitems\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: s\n    timeout: t\n")
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(_LENGTHS)
    argv = [sys.executable, "-m", "pytest", "-q", "--collect-only", *ALONE, "-p", "pytest_randomly"]
    variables = {name: value for name, value in os.environ.items() if name != MINUTES} | VARIABLES
    variables["PYTEST_XDIST_WORKER_COUNT"] = "2"
    printed = run(argv, cwd=tmp_path, env=variables, timeout=60).stdout
    found = re.findall(r"^test_(\w).py::test_(\w+)", printed, re.MULTILINE)
    for part in (found[:8], found[8:]):
        assert len({file for file, _ in part}) == 1
        assert [kind for _, kind in part] == ["longest", *["long"] * 3, *["quick"] * 4]


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "ended"), [(None, "16 passed"), ("60", "16 passed"), ("0", "8 passed, 8 skipped")])
def test_no_slow_test_begins_after_the_minutes_of_a_run(tmp_path: Path, minutes: str | None, ended: str) -> None:
    (tmp_path / "conftest.py").write_text("from tests.order import pytest_runtest_setup\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: s\n    timeout: t\n")
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(_LENGTHS)
    variables = {name: value for name, value in os.environ.items() if name != MINUTES} | VARIABLES
    variables |= {MINUTES: minutes} if minutes else {}
    printed = run([sys.executable, "-m", "pytest", "-q", "-rs", *ALONE], cwd=tmp_path, env=variables, timeout=60).stdout
    assert ended in printed
    assert (f"the {minutes} minutes of this run are over" in printed) == ("skipped" in ended)


@pytest.mark.slow
def test_a_sweep_that_names_a_case_that_is_not_there_stops_a_run_of_all_tests(tmp_path: Path) -> None:
    files = {"test_function.py": _SWEEP.replace('"a-1"', '"a-3"')}
    with reported(CommandFailed):
        collect(tmp_path, files)
    assert "test_plain" in collect(tmp_path, files, "test_function.py")  # whoever runs a few tests names what they like


def test_each_name_of_a_sweep_is_that_of_a_case(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.stash[UNKNOWN] == []


def test_each_entry_of_the_snapshot_of_words_has_a_test(pytestconfig: pytest.Config) -> None:
    assert not entries_without_a_test(pytestconfig), "`make wording` drops them"


def test_the_snapshot_of_words_has_those_of_errors_alone() -> None:
    """What a command prints if nothing is wrong is no error: its test names the facts."""
    asks = re.compile(r"\bworded\(.*stdout")
    files = [path for path in Path(__file__).parent.rglob("test_*.py") if path != Path(__file__)]
    lines = [line for path in files for line in path.read_text().splitlines() if "worded(" in line]
    assert lines and not [line for line in lines if asks.search(line)]


def test_what_runs_only_at_night_is_on_the_page_about_the_suite() -> None:
    named = re.findall(r"^\| `([^`]+\.py)` \|", (HERE / "README.md").read_text(), re.MULTILINE)
    marked = [
        path.relative_to(HERE).as_posix()
        for path in HERE.rglob("*.py")
        if path.name not in ("test_suite.py", "sweeps.py")
        and re.search(r"pytest\.mark\.(sweep\(|nightly\b|release\b)", path.read_text())
    ]
    assert named == sorted(marked)


def nothing(folder: Path) -> None: ...


def test_all_who_ask_at_once_get_what_one_of_them_makes(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        time.sleep(0.2)
        (folder / "content").write_text("whole")

    with ThreadPoolExecutor(4) as threads:
        folders = set(threads.map(lambda _: kept(tmp_path, "things", {"a": 1}, make), range(8)))
    assert [*folders] == made
    assert (made[0] / "content").read_text() == "whole"


def test_what_depends_on_something_else_is_made_anew(tmp_path: Path) -> None:
    first, second = (kept(tmp_path, "things", {"a": value}, nothing) for value in (1, 2))
    assert first != second


def test_what_was_not_finished_is_begun_anew(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise ValueError("stopped")

    with reported(ValueError):
        kept(tmp_path, "things", {}, fail)
    assert [path.name for path in kept(tmp_path, "things", {}, nothing).iterdir()] == [".complete"]


def test_what_no_run_has_asked_for_in_a_week_goes(tmp_path: Path) -> None:
    old, young = (kept(tmp_path, "things", value, nothing) for value in ("old", "young"))
    for folder, days in ((old, 8), (young, 6)):
        moment = time.time() - days * 24 * 3600
        os.utime(folder / ".complete", (moment, moment))
    new = kept(tmp_path, "things", "new", nothing)
    assert {path for path in new.parent.iterdir() if path.is_dir()} == {young, new}


_WORDED = """
import pytest

from tests.wording import reported, worded
from tfaot_pkg.errors import SourceError

@pytest.mark.parametrize("name", ["a", "b"])
def test_error(name, tmp_path):
    with reported(SourceError):
        raise SourceError(f"{tmp_path}/model: WORDS than 64 links: '{name}'", hint="remove it")

def test_text():
    worded("one")
    SECOND
"""


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Runs `_WORDED` with a snapshot of its own: the exit code, and what pytest printed."""
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\nimport tests.wording\nfrom tests.wording import *\nfrom tests.wording import _KEY\n"
        "tests.wording.SNAPSHOT = Path(__file__).with_name('words')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = .\n")

    def run_with(*arguments: str, **changed: str) -> tuple[int, str]:
        text = _WORDED
        for part, default in {"WORDS": "more", "SECOND": "worded('two')"}.items():
            text = text.replace(part, changed.get(part.lower(), default))
        (tmp_path / "test_words.py").write_text(text)
        argv = [sys.executable, "-m", "pytest", "-q", *ALONE, *arguments]
        try:
            return 0, run(argv, cwd=tmp_path, env={**os.environ, **VARIABLES}, timeout=300).stdout
        except CommandFailed as failed:
            return 1, failed.output

    return run_with


@pytest.mark.slow
def test_a_run_within_a_test_removes_nothing_of_other_runs(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_place.py").write_text("def test_place(tmp_path):\n    print(tmp_path)\n")
    argv = [sys.executable, "-m", "pytest", "-q", "--capture=no", *ALONE, "test_place.py"]
    said = run(argv, cwd=tmp_path, env={**os.environ, **VARIABLES}, timeout=300).stdout
    assert Path(said.splitlines()[0]).is_relative_to(tmp_path_factory.getbasetemp())


@pytest.mark.slow
def test_new_words_fail_until_they_are_accepted(compare: Compare) -> None:
    code, said = compare()
    assert code and "has no words for test_words.py::test_error[a] #1 yet" in said
    assert compare("--accept-wording", "--numprocesses", "2")[0] == 0
    code, said = compare(words="further")
    assert code and "only words changed" in said and "2 failed" in said
    assert compare("--accept-wording", words="further")[0] == 0
    assert compare(words="further")[0] == 0


@pytest.mark.parametrize(
    "changed",
    [
        "TrustError: a/b is longer than 64 'x'\nhint: use --all",
        "SpecError: a/c is longer than 64 'x'\nhint: use --all",
        "SpecError: a/b is longer than 65 'x'\nhint: use --all",
        "SpecError: a/b is longer than 64 'y'\nhint: use --all",
        "SpecError: a/b is longer than 64 'x'\nhint: use --force",
        "SpecError: a/b is longer than 64 'x'",
    ],
)
def test_facts_are_not_accepted_as_words(tmp_path: Path, changed: str) -> None:
    key, was = ("test", 1), "SpecError: a/b is longer than 64 'x'\nhint: use --all"
    snapshot = Snapshot(path=tmp_path / "words", accepts=True, entries={key: was})
    assert "facts changed" in snapshot.difference(key, changed) and not snapshot.changed
    assert not snapshot.difference(key, was.replace("is longer than", "exceeds"))
    assert list(snapshot.changed) == [key]
    snapshot.accepts_facts = True
    assert not snapshot.difference(key, changed)
    assert snapshot.changed == {key: changed}


@pytest.mark.slow
def test_an_entry_that_a_test_compares_no_longer_fails_it_until_it_is_dropped(compare: Compare, tmp_path: Path) -> None:
    assert compare("--accept-wording")[0] == 0
    code, said = compare(second="")
    assert code and "no longer asks for: test_words.py::test_text #2" in said
    assert compare("--accept-wording", second="")[0] == 0
    assert (tmp_path / "words").read_text() == (
        "test_words.py::test_error[a] #1\n    SourceError: <tmp>/model: more than 64 links: 'a'\n    hint: remove it\n"
        "test_words.py::test_error[b] #1\n    SourceError: <tmp>/model: more than 64 links: 'b'\n    hint: remove it\n"
        "test_words.py::test_text #1\n    one\n"
    )


def test_neighbours_with_the_same_words_share_them_in_the_file(tmp_path: Path) -> None:
    words = {("a", 1): "same\n\nend", ("a", 2): "same\n\nend", ("b", 1): "other"}
    snapshot = Snapshot(path=tmp_path / "words", changed={**words})
    snapshot.save()
    assert snapshot.path.read_text() == "a #1\na #2\n    same\n\n    end\nb #1\n    other\n"
    assert read(snapshot.path) == words


@pytest.mark.slow
def test_an_entry_whose_test_is_gone_is_found_by_a_run_of_all_tests(compare: Compare, tmp_path: Path) -> None:
    assert compare("--accept-wording")[0] == 0
    with (tmp_path / "words").open("a") as file:
        file.write("test_words.py::test_was #1\n    gone\n")
    (tmp_path / "test_entries.py").write_text(
        "from tests.wording import entries_without_a_test\n"
        "def test_entries(pytestconfig): assert not entries_without_a_test(pytestconfig)\n"
    )
    code, said = compare()
    assert code and "test_words.py::test_was #1" in said and "1 failed" in said
    assert compare("test_entries.py")[0] == 0
    assert compare("--accept-wording")[0] == 0
    assert "gone" not in (tmp_path / "words").read_text()
