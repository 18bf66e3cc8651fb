"""Which component makes the difference between two builds: the search, and real builds with planted culprits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.commands import completed
from tests.homes import home_with_frontend
from tests.nightly.nights import REPOSITORY
from tests.nightly.reports import FIRST, add_night, comparison, decision, outcome, task
from tests.wording import reported
from tfaot_pkg.errors import RebuildError, StorageError
from tfaot_pkg.nightly.bisect.ends import End, end_of, parts_between
from tfaot_pkg.nightly.bisect.search import Guilt, Undone, search
from tfaot_pkg.nightly.bisect.tools import mix, this_tool, tool_at
from tfaot_pkg.nightly.report.report import find_night, read_report
from tfaot_pkg.nightly.report.write import markdown
from tfaot_pkg.nightly.state import Record, State

PARTS = ("source", "compiler", "templates", "precision")


def shares(of: Mapping[str, float], unknown: str = "") -> Callable[[Undone], float | None]:
    """Parts that make these shares of a difference, one beside the other."""
    return lambda undone: None if undone == {unknown} else sum(of.get(part, 0.0) for part in undone)


def test_one_part_is_named_and_the_others_are_not() -> None:
    found = search(PARTS, shares({"compiler": 1.0}))
    assert found.guilty == (Guilt(parts=("compiler",), share=1.0, alone=1.0),) and not found.some


def test_parts_that_make_a_share_each_are_named_together_and_no_others() -> None:
    found = search(PARTS, shares({"source": 0.6, "precision": 0.4}))
    assert found.guilty == (Guilt(parts=("source", "precision"), share=1.0, alone=1.0),)
    assert dict(found.some) == {"source": 0.6, "precision": 0.4}


def test_parts_that_each_suffice_are_found_by_taking_away_both() -> None:
    # Either of the two makes it: without one, the other still does.
    found = search(PARTS, lambda undone: float({"source", "templates"} <= undone))
    assert [set(each.parts) for each in found.guilty] == [{"source", "templates"}] and not found.some


def test_what_cannot_be_built_is_not_acquitted() -> None:
    found = search(PARTS, shares({"templates": 1.0}, unknown="templates"))
    assert found.unknown == ("templates",)
    assert [each.parts for each in found.guilty] == [("source", "templates")], "with another one it can be built"


def test_what_no_part_makes_is_not_blamed_on_any() -> None:
    assert search(PARTS, lambda _: 0.1).guilty == ()


INPUTS = {
    "spec.model.version": '"1.0.0+tf2.17.1.b1"', "spec.compilation.tensorflow": '"2.17.1"', "toolchain": "1",
    "spec.compilation.batch_sizes": "[1]", "spec.source.path": '"."', "source/a.pb": "1", "compiler": "g++ 12; ld; c; m",
    "compiler flags": "-O2", "kernel library": "1", "code/link": "1", "code/freeze": "1", "validation inputs": "{}",
}  # fmt: skip


def end(inputs: Mapping[str, str]) -> End:
    return End(night="2026-11-21.1", decision=decision(task("a")), inputs=inputs, record=Record())


def test_components_that_belong_together_are_one_part() -> None:
    changed = {name: f"{text}0" for name, text in INPUTS.items()} | {"spec.compilation.batch_sizes": "[1, 4]"}
    changed |= {"spec.compilation.tensorflow": '"2.21.0"', "spec.model.version": '"1.1.0"', "spec.source.path": '"b"'}
    found = {part.name: part for part in parts_between(end(INPUTS), end(changed))}
    assert set(found) == {
        "toolchain", "compilation.batch_sizes", "source", "compiler", "kernel library", "the tool's code",
    }  # fmt: skip
    assert found["compiler"].components == ("compiler", "compiler flags")
    assert "[1] -> [1, 4]" in str(found["compilation.batch_sizes"])
    moved = parts_between(end(INPUTS), end({**INPUTS, "spec.source.path": '"elsewhere"', "spec.model.version": '"2"'}))
    assert moved == (), "the same files in another folder make no difference"


def test_builds_are_named_by_night_or_release(tmp_path: Path) -> None:
    state, one = State(root=tmp_path), task("a")
    built = replace(decision(one), inputs=INPUTS)
    add_night(state, FIRST, [outcome(one)], decisions=[built])
    up_to_date = replace(built, action="up to date", inputs={})
    later = add_night(state, FIRST.replace(day=21), [outcome(one, "up to date")], decisions=[up_to_date])
    for which in (later.name, built.release):
        found = end_of(state, "a", which)
        assert (found.inputs, found.night) == (INPUTS, "2026-10-20.1"), "the night that built it"
    with reported(StorageError):
        end_of(state, "b", later.name)
    with reported(StorageError):
        end_of(state, "a", "1.0.0+tf2.17.1.b9")


def test_reports_give_the_command_that_names_a_culprit(tmp_path: Path) -> None:
    state, slow, same = State(root=tmp_path), task("slow"), task("same")
    beside = [comparison(slow, ratio=1.4, base="1.0.0+tf2.17.1.b0"), comparison(same)]
    add_night(state, FIRST, [outcome(slow), outcome(same)], tasks=[slow, same], comparisons=beside)
    made = read_report(state, find_night(state))
    command = "tfaot-pkg nightly bisect slow@1.0.0+tf2.17.1 1.0.0+tf2.17.1.b0 1.0.0+tf2.17.1.b1"
    assert {one.outcome.model: one.bisection for one in made.tasks} == {"slow": command, "same": ""}
    assert f"To name what made it:\n\n    {command}\n" in markdown(made)


def test_a_folder_without_the_tool_is_rejected(tmp_path: Path) -> None:
    with reported(RebuildError):
        tool_at(tmp_path)


SPEC = """
model: {{name: signal, version: 1.0.0, license: MIT, trees: model.json, description: {description}}}
trees: {{missing: .nan}}
compilation: {{batch_sizes: {sizes}, targets: [x86-64-v3]}}
"""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_planted_culprits_of_a_real_model_are_named(shared_home_folder: Path, tmp_path: Path) -> None:
    """Two nights with two versions of the tool. By construction a leaf makes the answers, a template the size."""
    home = home_with_frontend("trees", shared_home_folder, tmp_path / "home")
    here, old = this_tool(), tmp_path / "old"
    mix(here, here, (), old)
    program, headers = old / "templates/native/program.cc.j2", old / "recipes/tfaot/all/include/tfaot/model.h"
    function = "const Team* team) {\n"
    text, comment = program.read_text(), headers.read_text() + "\n// Another comment.\n"
    for each in (program, headers):
        each.unlink()  # a link to this checkout's
    program.write_text(text.replace(function, f'{function}  asm volatile(".skip 16384, 0x90");\n', 1))
    headers.write_text(comment)
    specs = tmp_path / "specs"
    model = specs / "signal" / "model.json"
    model.parent.mkdir(parents=True)
    shutil.copyfile(REPOSITORY / "examples/from-xgboost/model.json", model)
    (specs / "registry.yaml").write_text(
        "registry: ../registry\nmodels: [{spec: '*/spec.yaml'}]\npolicy: {changed_source: build}\n"
    )

    def tool(root: Path, *words: str) -> Any:
        env = {**os.environ, "TFAOT_HOME": str(home), "PYTHONPATH": str(root)}
        done = completed(
            [sys.executable, "-m", "tfaot_pkg", "nightly", *words, "--json"], cwd=specs, env=env, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def night(root: Path, description: str, sizes: list[int]) -> str:
        (model.parent / "spec.yaml").write_text(SPEC.format(description=description, sizes=sizes))
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
            argv = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words]
            subprocess.run(argv, cwd=specs, check=True, capture_output=True)
        return str(tool(root, "run", "registry.yaml", "--no-dask")["night"])

    first = night(old, "Trees", [1])
    document = json.loads(model.read_text())
    tree = document["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_conditions"][15] -= 0.01
    tree["base_weights"][15] = tree["split_conditions"][15]
    model.write_text(json.dumps(document))
    second = night(here.root, "Boosted trees", [1])
    metrics = ["--of", "answers", "--of", "size"]
    found = tool(
        here.root, "bisect", "signal", first, second, "registry.yaml", "-o", str(tmp_path / "out"), "--tool", str(old),
        *metrics,
    )  # fmt: skip
    assert {part["name"] for part in found["parts"]} >= {"source", "templates", "headers", "model.description"}
    assert not found["left"]
    named = {cause["metric"]: [each["parts"] for each in cause["culprits"]] for cause in found["causes"]}
    assert named == {"answers": [["source"]], "size": [["templates"]]}
    for cause in found["causes"]:
        (culprit,) = cause["culprits"]
        assert culprit["alone"] == pytest.approx(1.0, abs=0.1)
        assert f"{tmp_path}/out/without-{cause['culprits'][0]['parts'][0]}/spec.yaml" in culprit["without"]
