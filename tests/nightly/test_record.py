"""What a night was made with, and its packages built again: a real night of a model that needs no TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.aten_lowering.aten_files import ARTIFACTS
from tests.commands import run_command
from tests.homes import home_with_frontend
from tests.nightly.reports import FIRST, add_night, outcome, summary, task
from tfaot_pkg.nightly.record import machine
from tfaot_pkg.nightly.report.report import find_night, read_report
from tfaot_pkg.nightly.report.write import write_report
from tfaot_pkg.nightly.state import Record, State, Summary

SPEC = """
model: {name: lines, version: 1.0.0, author: A, license: MIT, aten: model.aten}
compilation: {batch_sizes: [1], targets: [x86-64-v3]}
"""


def test_a_report_says_what_the_night_was_made_with(tmp_path: Path) -> None:
    state = State(root=tmp_path / "state")
    night = add_night(state, FIRST, [outcome(task("a"))], tasks=[task("a")])
    record = Record(commit="0" * 40, modified=True, tool="tfaot-pkg 1 (code 12)", machine={"name": "<b>host"})
    ended = summary(night)
    told = Summary(
        night=ended.night, ended=ended.ended, counts={}, withheld="", exit_code=0, builders={"me": 2}, made_with=record
    )
    (night.folder / "night.json").unlink()
    night.end(told)
    write_report(read_report(state, find_night(state)), tmp_path / "report")
    page = (tmp_path / "report/index.html").read_text()
    assert "0" * 40 in page and "changes that are not in it" in page and "me: 2 builds" in page
    assert "&lt;b&gt;host" in page and "<b>host" not in page
    document = json.loads((tmp_path / "report/report.json").read_text())
    assert (document["made_with"]["tool"], document["builders"]) == (record.tool, {"me": 2})


def test_the_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_JOB_IMAGE", "python:3.11")
    found = machine()
    assert found["image"] == "python:3.11" and int(found["cpus"]) == os.cpu_count() and found["processor"]
    monkeypatch.delenv("CI_JOB_IMAGE")
    assert "python:3.11" not in machine().values()


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_packages_of_a_night_are_built_again_from_its_record(shared_home_folder: Path, tmp_path: Path) -> None:
    env = {**os.environ, "TFAOT_HOME": str(home_with_frontend("aten", shared_home_folder, tmp_path / "home"))}
    checkout = tmp_path / "specs"
    model = checkout / "lines" / "model.aten"
    model.parent.mkdir(parents=True)
    model.write_bytes((ARTIFACTS / "answered" / "fourier_layer.aten").read_bytes())
    (model.parent / "spec.yaml").write_text(SPEC)
    definition = checkout / "registry.yaml"
    definition.write_text("registry: ../registry\nmodels: [{spec: '*/spec.yaml'}]\n")

    def git(*words: str) -> str:
        argv = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words]
        return subprocess.run(argv, cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()

    def tool(*words: str, code: int = 0) -> Any:
        options = ["--state", str(tmp_path / "state"), "--json"]
        done = run_command(["nightly", *words, *options], cwd=checkout, env=env)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    tool("run", "registry.yaml", "--no-dask")
    (ended,) = (tmp_path / "state").glob("nights/*/night.json")
    record = json.loads(ended.read_text())
    assert (record["made_with"]["commit"], record["made_with"]["modified"]) == (git("rev-parse", "HEAD"), False)
    assert list(record["builders"].values()) == [1]
    (line,) = (ended.parent / "outcomes.jsonl").read_text().splitlines()
    figures = json.loads(line)["figures"]
    assert set(figures["answers"]) == {"fused"} and len(figures["answers"]["fused"]) == 64
    night = ended.parent.name
    (again,) = tool("reproduce", night, "registry.yaml")["packages"]
    assert (again["verdict"], again["release"]) == ("reproducible", "lines@1.0.0+tfaot.b1")
    assert not tool("reproduce", night, "registry.yaml", "--model", "other*")["packages"]
    # Another model in the place of the night's: its digest is told, and nothing is built.
    model.write_bytes((ARTIFACTS / "answered" / "buckets.aten").read_bytes())
    (other,) = tool("reproduce", night, "registry.yaml", code=23)["packages"]
    assert other["verdict"] in ("cannot", "failed") and other["reasons"]
    definition.write_text(definition.read_text() + "policy: {retries: 1}\n")
    (model.parent / "spec.yaml").write_text(SPEC.replace("1.0.0", "1.1.0"))
    tool("run", "registry.yaml", "--no-dask")
    last = max((tmp_path / "state").glob("nights/*/night.json"), key=lambda each: each.stat().st_mtime)
    assert json.loads(last.read_text())["made_with"]["modified"] is True
