"""The suite itself: what sweeps leave for the night, and what is made once for all workers."""

from __future__ import annotations

import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.kept import kept
from tests.wording import reported
from tfaot_pkg.process import CommandFailed, run

HERE = Path(__file__).resolve().parent

_SWEEP = """
import pytest

@pytest.mark.sweep("a-1", "b-*")
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("letter", ["a", "b", "c"])
def test_swept(letter, number): ...

def test_plain(): ...
"""
_MODULE = """
import pytest

pytestmark = pytest.mark.sweep("test_one", "test_two[x]")

def test_one(): ...

@pytest.mark.parametrize("case", ["x", "y"])
def test_two(case): ...

def test_three(): ...
"""


def collect(folder: Path, files: dict[str, str], *arguments: str) -> set[str]:
    """The names of the tests that pytest takes of `files` with our hooks and `arguments`."""
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "conftest.py").write_text(
        "from tests.sweeps import pytest_collection_modifyitems, pytest_itemcollected\n"
    )
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = .\nmarkers =\n    nightly: n\n    sweep: s\n")
    argv = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "--collect-only", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    printed = run([*argv, *arguments], cwd=folder, env=variables, timeout=60).stdout
    return set(re.findall(r"^test_.*::(.*)$", printed, re.MULTILINE))


def test_of_a_sweep_only_the_named_cases_are_left_by_day(tmp_path: Path) -> None:
    files = {"test_function.py": _SWEEP, "test_module.py": _MODULE}
    by_day = {"test_swept[a-1]", "test_swept[b-1]", "test_swept[b-2]", "test_plain", "test_one", "test_two[x]"}
    at_night = {"test_swept[a-2]", "test_swept[c-1]", "test_swept[c-2]", "test_two[y]", "test_three"}
    assert collect(tmp_path, files, "-m", "not nightly") == by_day
    assert collect(tmp_path, files, "-m", "nightly") == at_night


def test_a_sweep_that_names_a_case_that_is_not_there_stops_a_run_of_all_tests(tmp_path: Path) -> None:
    files = {"test_function.py": _SWEEP.replace('"a-1"', '"a-3"')}
    with reported(CommandFailed):
        collect(tmp_path, files)
    assert "test_plain" in collect(tmp_path, files, "test_function.py")  # whoever runs a few tests names what they like


def test_what_runs_only_at_night_is_on_the_page_about_the_suite() -> None:
    named = re.findall(r"^\| `([^`]+\.py)` \|", (HERE / "README.md").read_text(), re.MULTILINE)
    marked = [
        path.relative_to(HERE).as_posix()
        for path in HERE.rglob("*.py")
        if path.name not in ("test_suite.py", "sweeps.py")
        and re.search(r"pytest\.mark\.(sweep\(|nightly\b)", path.read_text())
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
