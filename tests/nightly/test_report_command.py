"""`nightly report` on the command line, and the link from the catalogue."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.catalogue.registries import entry_of, publish
from tests.commands import invoked
from tests.nightly.reports import FIRST, HOSTILE, add_night, comparison, figures, outcome, task, two_nights
from tests.wording import reported
from tfaot_pkg.catalogue.render import FOLDER, NIGHTLY, render
from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.state import State
from tfaot_pkg.registry.folder import FolderRegistry


@pytest.fixture
def definition(tmp_path: Path) -> Path:
    """A definition whose registry is not there yet, and whose state lies beside it."""
    (tmp_path / "spec.yaml").write_text("")
    path = tmp_path / "registry.yaml"
    path.write_text("registry: registry\nmodels:\n  - spec: spec.yaml\n")
    return path


def report(definition: Path, *options: str) -> tuple[int, str]:
    done = invoked(["nightly", "report", str(definition), *options])
    return done.exit_code, done.stdout


def test_the_last_night_is_told_in_short_and_written_beside_its_plan(definition: Path, tmp_path: Path) -> None:
    two_nights(tmp_path / "nightly-state")
    code, text = report(definition)
    assert code == 26
    lines = text.splitlines()
    assert lines[0].startswith("2026-11-04.1: 14 tasks: 1 infrastructure failed, 2 build failed")
    assert "  other_broken@1.0.0+tf2.17.1: build failed, still failing since 2026-11-03 (was: build failed)" in lines
    assert "unsupported operation StringJoin: 2 models" in lines
    folder = tmp_path / "nightly-state/nights/2026-11-04.1/report"
    assert lines[-1] == f"{folder}/index.html"
    assert {path.name for path in folder.iterdir() if path.name[0] != "."} == {
        "index.html", "all", "tasks", "assets", "report.json", "junit.xml", "summary.md", "metrics.prom",
    }  # fmt: skip
    assert "\x1b" not in text and "\u202e" not in text, "a terminal obeys what a build said"


def test_json_and_other_places_and_nights(definition: Path, tmp_path: Path) -> None:
    two_nights(tmp_path / "elsewhere")
    options = (
        "--state",
        str(tmp_path / "elsewhere"),
        "--night",
        "2026-11-03.1",
        "-o",
        str(tmp_path / "site"),
        "--json",
    )
    code, text = report(definition, *options)
    assert code == 24
    document = json.loads(text)
    assert document["night"] == "2026-11-03.1"
    assert {**document, "folder": ""} == {**json.loads((tmp_path / "site/report.json").read_text()), "folder": ""}


def test_two_nights_are_compared_task_by_task(definition: Path, tmp_path: Path) -> None:
    state = State(root=tmp_path / "nightly-state")
    nine, ten, gone, slow = task("model_9"), task("model_10"), task("old"), task("slow")
    before = [outcome(nine), outcome(ten), outcome(gone), outcome(slow)]
    after = [outcome(nine, "build failed"), outcome(ten, figures=figures(latency=5100))]
    after.append(outcome(slow, figures=figures(size=150_000, latency=7000)))
    add_night(state, FIRST, before, tasks=[nine, ten, gone, slow])
    beside = [comparison(slow, ratio=1.4)]
    add_night(state, FIRST + timedelta(days=1), after, tasks=[nine, ten, slow], comparisons=beside)
    names = [night.name for night in state.nights()]
    done = invoked(["nightly", "diff", *names, str(definition)])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.partition("@")[0] for line in lines] == ["model_9", "old", "slow"]
    assert "-> build failed" in lines[0] and lines[1].endswith("-> not planned")
    told = "size: 100 kB -> 150 kB; beside 1.0.0+tf2.17.1.b1: slower: x86-64-v3, batch size 1: 5 µs -> 7 µs, in turns"
    assert told in lines[2]
    same = invoked(["nightly", "diff", names[0], names[0], str(definition)])
    assert "the same outcomes" in same.stdout


def test_the_catalogue_links_the_report_that_is_put_into_it(definition: Path, tmp_path: Path) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    catalogue = tmp_path / "registry" / FOLDER
    state, one = State(root=tmp_path / "nightly-state"), task("digits")
    add_night(state, FIRST, [outcome(one)], tasks=[one])
    code, _ = report(definition, "--catalogue")
    assert code == 0
    assert not catalogue.exists(), "a registry without a catalogue has no use for it"

    publish(registry, entry_of("digits"))
    render(registry, catalogue)
    link = f'href="{NIGHTLY}/index.html"'
    assert link not in (catalogue / "index.html").read_text()
    assert report(definition, "--catalogue")[0] == 0
    assert link in (catalogue / "index.html").read_text()
    assert 'href="../index.html"' in (catalogue / NIGHTLY / "index.html").read_text()

    render(registry, catalogue)
    assert link in (catalogue / "index.html").read_text(), "the next rendering forgot it"
    assert (catalogue / NIGHTLY / "report.json").exists()


def test_without_a_night_there_is_nothing_to_report(definition: Path) -> None:
    with reported(StorageError):
        report(definition)


def test_a_hostile_task_has_a_page_of_its_own(definition: Path, tmp_path: Path) -> None:
    state, one = State(root=tmp_path / "nightly-state"), task(HOSTILE)
    add_night(state, FIRST, [outcome(one, "build failed", error=HOSTILE)], tasks=[one])
    assert report(definition)[0] == 24
    (page,) = (tmp_path / "nightly-state/nights/2026-10-20.1/report/tasks").iterdir()
    assert "<script>window" not in page.read_text()
