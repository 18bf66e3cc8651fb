"""What a night has to do: everything that was built and has not changed is up to date, and each change is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nightly.plans import DEFINITION, SPEC, Lab, said
from tfaot_pkg._version import __version__
from tfaot_pkg.cli.app import run
from tfaot_pkg.errors import SpecError
from tfaot_pkg.frontends.toolchain.definition import toolchain
from tfaot_pkg.frontends.toolchain.environment import requirements_file
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.native.cxx import compiler as compiler_module
from tfaot_pkg.nightly.models import spec_for
from tfaot_pkg.nightly.outcome import Attempt, AttemptKind, command_for
from tfaot_pkg.pipeline import package_key, pipeline
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.spec.source.tree import source_tree

ROOT = Path(__file__).resolve().parents[2]
TASK = "a@1.0.0+tf2.17.1"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Two models, of which nothing is built."""
    made = Lab(tmp_path)
    made.define()
    made.model("a")
    made.model("b")
    return made


@pytest.fixture
def built(lab: Lab) -> Lab:
    """Two models that a night has built."""
    lab.night(lab.plan())
    assert [one.action for one in lab.plan()] == ["up to date"] * 2
    return lab


# --- each reason ----------------------------------------------------------------------------------------------------


def edit(old: str, new: str) -> Callable[[Lab, pytest.MonkeyPatch], None]:
    def change(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        spec = lab.root / "models" / "a" / "spec.yaml"
        assert old in spec.read_text()
        spec.write_text(spec.read_text().replace(old, new))

    return change


def write(path: str, content: str) -> Callable[[Lab, pytest.MonkeyPatch], None]:
    def change(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        (lab.root / "models" / "a" / path).write_text(content)

    return change


def two_files(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.model("a", files={"saved_model.pb": "other", "variables/variables.index": "other"})


def one_less(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    (lab.root / "models" / "a" / "saved_model" / "saved_model.pb").unlink()


TUNING = '{"format": 1, "model": "a", "batch_costs": {"x86-64-v3": {"1": 812.0}}}'
OF_ONE_MODEL = {
    "batch sizes": (edit("[1, 4]", "[1, 8]"), "spec: compilation.batch_sizes (spec.yaml:5): [1, 4] -> [1, 8]"),
    "a default": (
        edit("compilation:\n", "validation: {seed: 7}\ncompilation:\n"),
        "spec: validation.seed (spec.yaml:4): 0 -> 7",
    ),
    "source": (two_files, "source: 2 files changed: saved_model.pb, variables/variables.index"),
    "a new file": (write("saved_model/assets.txt", "x"), "source: 1 file added: assets.txt"),
    "a lost file": (one_less, "source: 1 file removed: saved_model.pb"),
    "tuning file": (write("spec.tune.json", TUNING), "tuning file: added"),
}


@pytest.mark.parametrize("name", OF_ONE_MODEL)
def test_a_change_of_one_model_is_the_one_reason_to_build_it_and_no_other(
    name: str, built: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, reason = OF_ONE_MODEL[name]
    change(built, monkeypatch)
    assert said(built.plan()) == [(TASK, "build", [reason]), ("b@1.0.0+tf2.17.1", "up to date", [])]


def test_a_yanked_build_is_not_built_again_from_the_same_inputs(built: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = FolderRegistry.open(built.root / "registry")
    registry.yank("tfaot-model-a", "1.0.0+tf2.17.1.b1", "wrong weights")
    (a, b) = built.plan()
    assert said([a, b]) == [
        (
            TASK,
            "refuse",
            [
                "source: 1.0.0+tf2.17.1.b1 was yanked: wrong weights; its inputs are the same as now, and not built again"
            ],
        ),
        ("b@1.0.0+tf2.17.1", "up to date", []),
    ]
    edit("[1, 4]", "[1, 8]")(built, monkeypatch)
    (a, _) = built.plan()
    assert (a.action, a.release) == ("build", "1.0.0+tf2.17.1.b2")


def test_inputs_that_come_back_do_not_bring_a_yanked_build_back(built: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = FolderRegistry.open(built.root / "registry")
    registry.yank("tfaot-model-a", "1.0.0+tf2.17.1.b1", "wrong weights")
    edit("[1, 4]", "[1, 8]")(built, monkeypatch)
    built.night(built.plan())
    edit("[1, 8]", "[1, 4]")(built, monkeypatch)
    (a, _) = built.plan()
    assert (a.action, [reason.detail for reason in a.reasons]) == (
        "refuse",
        ["1.0.0+tf2.17.1.b1 was yanked: wrong weights; its inputs are the same as now, and not built again"],
    )


def test_a_night_for_another_architecture_adds_to_the_builds_that_are_there(built: Lab) -> None:
    built.define(DEFINITION + "targets: [aarch64]\n")
    plans = built.plan(model="a")
    assert [(one.action, one.release) for one in plans] == [("build", "1.0.0+tf2.17.1.b1")]
    built.night(plans)
    assert [one.action for one in built.plan(model="a")] == ["up to date"]
    built.define()
    assert [one.action for one in built.plan(model="a")] == ["up to date"]
    (entry,) = FolderRegistry.open(built.root / "registry").entries("a")
    assert [one.architecture for one in entry.trees] == ["x86_64", "aarch64"]


def test_the_first_architecture_goes_on_after_the_second_one(built: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    edit("[1, 4]", "[1, 8]")(built, monkeypatch)
    built.define(DEFINITION + "targets: [aarch64]\n")
    # The build that is there is of other inputs, and its number is free for this architecture.
    built.night(built.plan(model="a"))
    built.define()
    assert [(one.action, one.release) for one in built.plan(model="a")] == [("build", "1.0.0+tf2.17.1.b2")]


@pytest.fixture
def recorded(lab: Lab) -> Lab:
    """Two published models whose provenance says from which files they were built."""
    for decision in lab.plan():
        folder = decision.task.spec.parent
        lab.publish(decision, source=source_tree(folder, Path("saved_model")).digest)
    assert [one.action for one in lab.plan()] == ["up to date"] * 2
    return lab


def test_changed_weights_under_an_unchanged_version_are_refused(recorded: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    two_files(recorded, monkeypatch)
    (a, b) = recorded.plan()
    assert (a.action, b.action) == ("refuse", "up to date")
    (reason,) = a.reasons
    assert "1.0.0+tf2.17.1.b1 was built from, but model.version is still 1.0.0: raise model.version" in reason.detail
    edit("1.0.0", "1.0.1")(recorded, monkeypatch)
    (a, _) = recorded.plan()
    assert (a.action, a.release) == ("build", "1.0.1+tf2.17.1.b1")


BOTH = DEFINITION.replace("[2.17.1]", "[2.17.1, 2.21.0]")


def test_changed_weights_are_refused_for_another_toolchain_of_the_version_too(
    recorded: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else 1.0.0 would be one model with the one toolchain and another one with the other."""
    recorded.define(BOTH)
    two_files(recorded, monkeypatch)
    decisions = recorded.plan(model="a")
    assert [one.action for one in decisions] == ["refuse", "refuse"]
    assert "differ from those that 1.0.0+tf2.17.1.b1 was built from" in decisions[1].reasons[0].detail
    recorded.define(BOTH + "policy: {changed_source: build}\n")
    assert [one.release for one in recorded.plan(model="a")] == ["1.0.0+tf2.17.1.b2", "1.0.0+tf2.21.0.b1"]


def test_another_toolchain_of_a_version_whose_model_is_the_same_is_built(recorded: Lab) -> None:
    recorded.define(BOTH)
    assert [one.action for one in recorded.plan(model="a")] == ["up to date", "build"]


def test_a_version_that_is_yanked_altogether_holds_no_other_toolchain_back(
    recorded: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.define(BOTH)
    two_files(recorded, monkeypatch)
    FolderRegistry.open(recorded.root / "registry").yank("tfaot-model-a", "1.0.0+tf2.17.1.b1", "wrong weights")
    assert [one.action for one in recorded.plan(model="a")] == ["refuse", "build"]


def test_changed_weights_become_the_next_build_if_the_policy_says_so(
    recorded: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.define(DEFINITION + "policy: {changed_source: build}\n")
    two_files(recorded, monkeypatch)
    (a, _) = recorded.plan()
    assert (a.action, a.release) == ("build", "1.0.0+tf2.17.1.b2")


def test_other_changes_than_of_the_model_are_built_under_the_same_version(
    recorded: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit("[1, 4]", "[1, 8]")(recorded, monkeypatch)
    (a, _) = recorded.plan()
    assert (a.action, a.release) == ("build", "1.0.0+tf2.17.1.b2")


DEFINED = DEFINITION.replace("spec.yaml", "spec.yaml\n    defines: {who: %s}")


def test_values_of_a_spec_come_from_the_definition_and_are_reasons(lab: Lab) -> None:
    lab.model("a", SPEC.replace("compilation:", "  author: by {{{{ env.who }}}}\ncompilation:"))
    (unread, _) = lab.plan()
    assert unread.action == "fail" and "registry.yaml: defines" in unread.reasons[0].detail
    lab.define(DEFINED % "Anna")
    lab.night(lab.plan())
    assert [one.action for one in lab.plan()] == ["up to date"] * 2
    lab.define(DEFINED % "Berta Ö")
    (changed, other) = lab.plan()
    assert [str(one) for one in changed.reasons] == [
        'spec: model.author (spec.yaml:4): "by Anna" -> "by Berta Ö"', "spec: env.who: Anna -> Berta Ö",
    ]  # fmt: skip
    assert other.action == "up to date", "it does not use the value"
    assert command_for(changed.task).endswith(" -D 'who=Berta Ö' -o a-prefix")
    built = spec_for(changed.task, changed.release)
    assert (
        built.model.author == "by Berta Ö"
        and Pipeline(
            folders=Folders(cache=lab.root / "home" / "cache", data=lab.root / "home" / "data"), progress=Silent()
        )
        .plan(built)
        .key
        == changed.key
    )


def test_where_a_models_folder_is_another_one_its_line_is_that_of_the_model(built: Lab) -> None:
    (built.root / "models" / "a" / "saved_model").rename(built.root / "models" / "moved")
    spec = built.root / "models" / "a" / "spec.yaml"
    spec.write_text(spec.read_text().replace("compilation:", "  saved_model: ../moved\ncompilation:"))
    (changed, _) = built.plan()
    assert "spec: source.path (spec.yaml:4): " in "; ".join(map(str, changed.reasons))


def copy_with(folder: Path, to: Path, file: str) -> Path:
    shutil.copytree(folder, to)
    (to / file).write_text((to / file).read_text() + "\n")
    return to


def lock_file(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = lab.root / "lock.txt"
    lock.write_text(requirements_file(toolchain("2.17.1")).read_text() + "# other\n")
    monkeypatch.setattr(pipeline, "requirements_file", lambda _: lock)


def templates(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = copy_with(resources.templates(), lab.root / "templates", "native/runtime/intrinsics.cc")
    monkeypatch.setattr(resources, "templates", lambda: made)


def headers(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = copy_with(resources.headers(), lab.root / "headers", "tfaot/span.h")
    monkeypatch.setattr(resources, "headers", lambda: made)


def tool(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_key, "__version__", "9.9.9")


def worker(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_key, "worker_program_digest", lambda: "other")


def stage(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    later = ("tfaot_pkg.native.build", "tfaot_pkg.pipeline.pipeline")
    monkeypatch.setattr(package_key, "code_digest", lambda name: "other" if name in later else code_digest(name))


OF_ALL = {
    "toolchain": (lock_file, "toolchain: tensorflow 2.17.1's lock file"),
    "templates": (templates, "templates: native"),
    "headers": (headers, "headers: changed"),
    "tool": (tool, f"tool: {__version__} -> 9.9.9"),
    "worker program": (worker, "worker program: changed"),
    "code of a stage": (stage, "tool: its own code changed, from the stage 'link' on"),
}


@pytest.mark.parametrize("name", OF_ALL)
def test_a_change_of_the_tool_or_its_toolchain_is_the_one_reason_to_build_all(
    name: str, built: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, reason = OF_ALL[name]
    change(built, monkeypatch)
    assert [(action, why) for _, action, why in said(built.plan())] == [("build", [reason])] * 2


def test_templates_of_pages_do_not_matter(built: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = copy_with(resources.templates(), built.root / "templates", "catalogue/site.css")
    monkeypatch.setattr(resources, "templates", lambda: made)
    assert [one.action for one in built.plan()] == ["up to date"] * 2


def test_another_compiler_is_named_with_the_one_before(built: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("g++")
    assert compiler
    first = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    other = built.root / "g++"
    other.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "g++ 99.1" || exec {compiler} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    assert said(built.plan())[0][2] == [f"compiler: {first} -> g++ 99.1"]


def test_flags_of_the_compiler_are_told_as_far_as_they_differ(built: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_module, "_FLAGS", ("-std=c++20", *compiler_module._FLAGS[1:]))
    assert said(built.plan())[0][2] == ["compiler: flags -std=c++17 -> -std=c++20"]


def test_other_targets_are_told_with_the_line_of_the_definition(built: Lab) -> None:
    built.define(DEFINITION + "targets: [x86-64-v2]\n")
    reason = 'spec: compilation.targets (registry.yaml:5): ["x86-64-v2", "x86-64-v3"] -> ["x86-64-v2"]'
    assert said(built.plan())[0][2] == [reason]


def test_other_validation_inputs_are_a_reason(lab: Lab) -> None:
    spec = lab.model("a", SPEC + "validation: {{inputs: held-out.npz}}\n")
    (spec.parent / "held-out.npz").write_bytes(b"1")
    lab.night(lab.plan())
    (spec.parent / "held-out.npz").write_bytes(b"2")
    assert said(lab.plan())[0] == (TASK, "build", ["validation inputs: held-out.npz changed"])


def test_several_changes_are_all_told(built: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("batch sizes", "a new file", "tuning file"):
        OF_ONE_MODEL[name][0](built, monkeypatch)
    assert [reason.partition(":")[0] for reason in said(built.plan())[0][2]] == ["spec", "source", "tuning file"]


def test_what_no_night_has_recorded_was_built_from_other_inputs(lab: Lab) -> None:
    lab.night(lab.plan(), recorded=False)
    assert [one.action for one in lab.plan()] == ["up to date"] * 2
    lab.model("a", SPEC.replace("[1, 4]", "[1]"))
    assert said(lab.plan())[0] == (TASK, "build", ["built from other inputs: no record of them"])


# --- states of a task -----------------------------------------------------------------------------------------------


def test_a_new_model_and_a_new_version_were_never_built(built: Lab) -> None:
    built.model("a", SPEC.replace("1.0.0", "1.1.0"))
    built.model("c")
    assert said(built.plan()) == [
        ("a@1.1.0+tf2.17.1", "build", ["never built"]),
        ("b@1.0.0+tf2.17.1", "up to date", []),
        ("c@1.0.0+tf2.17.1", "build", ["never built"]),
    ]


def test_a_failed_build_is_tried_again_and_says_what_failed(lab: Lab) -> None:
    lab.night(lab.plan(), "build failed", error_class="unsupported operation StringJoin")
    assert said(lab.plan())[0] == (TASK, "build", ["last build failed: unsupported operation StringJoin"])
    lab.night(lab.plan(), "timed out")
    assert said(lab.plan())[0][2] == ["last build failed: timed out"]
    lab.night(lab.plan())
    assert said(lab.plan())[0] == (TASK, "up to date", [])


def failed(kind: AttemptKind, **given: float) -> Attempt:
    return Attempt(kind=kind, night="2026-11-20.1", error="it differs", error_class="answers differ", **given)  # type: ignore[arg-type]


def test_what_failed_is_built_again_when_something_of_it_changes_or_if_it_is_asked_for(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a, _) = lab.plan()
    lab.state.results.put(a.key, failed("validation failed"))
    again = "validation failed: answers differ (2026-11-20.1); the inputs are the same: --retry builds them"
    assert said(lab.plan())[0] == (TASK, "failed before", [again])
    assert [one.action for one in lab.plan(retry=True)] == ["build", "build"]
    edit("[1, 4]", "[1, 8]")(lab, monkeypatch)
    assert [one.action for one in lab.plan()] == ["build", "build"]


@pytest.mark.parametrize(
    ("attempt", "action"),
    [
        (failed("timed out", seconds=1800.5), "failed before"),
        (failed("timed out", seconds=600.5), "build"),  # policy.timeout is 1800 s now
        (failed("out of memory", memory=4 << 30), "failed before"),
        (failed("out of memory", memory=2 << 30), "build"),
        (failed("infrastructure failed"), "build"),
    ],
)
def test_failures_at_limits_are_remembered_for_these_limits(attempt: Attempt, action: str, lab: Lab) -> None:
    (a, _) = lab.plan()
    lab.state.results.put(a.key, attempt)
    assert lab.plan()[0].action == action


def test_a_failed_rebuild_also_says_what_changed_since_the_last_good_one(built: Lab) -> None:
    built.model("a", SPEC.replace("[1, 4]", "[1]"))
    built.night(built.plan(), "validation failed", error_class="1 of 64 answers is wrong")
    assert said(built.plan())[0][2] == [
        "last build failed: validation failed: 1 of 64 answers is wrong",
        "spec: compilation.batch_sizes (spec.yaml:5): [1, 4] -> [1]",
    ]


def test_what_was_withheld_is_to_be_published(lab: Lab) -> None:
    lab.night(lab.plan(), "withheld")
    assert said(lab.plan())[0][2] == ["withheld: verified, but too much else had failed"]


def test_targets_that_ran_nowhere_but_run_here_are_built_again(lab: Lab) -> None:
    lab.night(lab.plan(), not_run=["x86-64-v2"])
    reason = "previously unverified: x86-64-v2 did not run where it was built"
    assert [(one.action, one.release, list(map(str, one.reasons))) for one in lab.plan()] == [
        ("build", "1.0.0+tf2.17.1.b2", [reason])
    ] * 2


def test_targets_that_cannot_run_here_either_are_left_as_they_are(lab: Lab, without_emulator: None) -> None:
    lab.night(lab.plan(), not_run=["aarch64"])
    assert [one.action for one in lab.plan()] == ["up to date"] * 2


def test_a_validation_that_is_lost_counts_as_none(built: Lab) -> None:
    shutil.rmtree(built.root / "registry" / "blobs")
    built.plan_cache.unlink()
    assert said(built.plan())[0][2] == ["previously unverified: no record of a validation"]


@pytest.mark.parametrize("files", [None, {"other.txt": "no model here"}])
def test_what_is_known_to_be_broken_is_skipped(lab: Lab, files: dict[str, str] | None) -> None:
    broken = "{2.17.1: {since: 2026-11-01, issue: https://example.org/issues/7}}"
    lab.define(DEFINITION.replace("*", "b") + "")
    lab.define(
        DEFINITION.replace("toolchains", f"  - spec: models/a/spec.yaml\n    known_broken: {broken}\ntoolchains")
    )
    assert said(lab.plan()) == [
        ("b@1.0.0+tf2.17.1", "build", ["never built"]),
        (TASK, "skip", ["known broken: since 2026-11-01 (https://example.org/issues/7)"]),
    ]


def test_builds_are_numbered_as_numbers(lab: Lab) -> None:
    for number in range(1, 12):
        lab.model("a", SPEC.replace("[1, 4]", f"[{number}]"))
        decision = lab.plan(model="a")[0]
        assert decision.release == f"1.0.0+tf2.17.1.b{number}"
        lab.night([decision])


def test_the_key_is_that_of_the_pipeline_at_this_version(built: Lab) -> None:
    built.model("c")
    pipe = Pipeline(folders=Folders(cache=built.root / "c", data=built.root / "d"), progress=Silent())
    for one in built.plan():
        assert pipe.plan(spec_for(one.task, one.release)).key == one.key


def test_a_plan_has_the_components_of_what_is_built_and_of_nothing_else(built: Lab) -> None:
    built.model("c")
    assert [bool(one.inputs) for one in built.plan()] == [False, False, True]


# --- nothing has changed --------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 64), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    weights=st.sampled_from(["shared", "embedded"]),
    tags=st.lists(st.sampled_from(["serve", "cpu", "ä"]), min_size=1, unique=True),
    content=st.binary(max_size=8),
    tools=st.booleans(),
)
def test_whatever_was_built_and_has_not_changed_is_up_to_date(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    seed: int,
    weights: str,
    tags: list[str],
    content: bytes,
    tools: bool,
) -> None:
    lab = Lab(tmp_path_factory.mktemp("lab"))
    lab.define(DEFINITION.replace("[2.17.1]", "[2.17.1, 2.21.0]"))
    text = SPEC.replace("1.0.0\n", f"1.0.0\n  tags: {tags}\n").replace("[1, 4]", f"{sizes}\n  weights: {weights}")
    text += f"validation: {{{{seed: {seed}}}}}\npackage: {{{{tools: {str(tools).lower()}}}}}\n"
    spec = lab.model("a", text)
    (spec.parent / "saved_model" / "saved_model.pb").write_bytes(content)
    lab.night(lab.plan())
    for path in lab.root.rglob("*"):  # times say nothing
        os.utime(path)
    assert [one.action for one in lab.plan()] == ["up to date"] * 2
    assert [one.action for one in lab.plan()] == ["up to date"] * 2


def test_another_place_of_the_checkout_changes_nothing(built: Lab) -> None:
    moved = built.root.with_name("moved")
    built.root.rename(moved)
    assert [one.action for one in Lab(moved).plan()] == ["up to date"] * 2


@pytest.mark.slow
def test_planning_imports_no_tensorflow(built: Lab) -> None:
    blocked = built.root / "blocked" / "tensorflow"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise SystemExit('TensorFlow was imported')\n")
    built.model("c")
    done = subprocess.run(
        [sys.executable, "-m", "tfaot_pkg", "nightly", "plan", str(built.definition)],
        env={**os.environ, "PYTHONPATH": f"{blocked.parent}:{ROOT}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "c@1.0.0+tf2.17.1  build       never built\n1 to build, 2 up to date\n"


# --- one model does not harm the others -----------------------------------------------------------------------------


def test_a_faulty_spec_is_a_decision_about_it_alone(built: Lab) -> None:
    spec = built.model("a", SPEC.replace("[1, 4]", "[0]"))
    first, second = built.plan()
    assert (first.action, first.task.id, first.task.spec, first.key) == ("fail", TASK, spec, "")
    assert str(first.reasons[0]).startswith(f"spec: {spec}:5: compilation.batch_sizes[0]: must be at least 1")
    assert second.action == "up to date"


def test_a_spec_that_does_not_even_name_its_model_is_named_by_its_place(built: Lab) -> None:
    built.model("a", "nonsense\n")
    first, second = built.plan()
    assert (first.action, first.task.model) == ("fail", "models_a_spec_yaml")
    assert second.action == "up to date"
    assert [one.action for one in built.plan(model="b")] == ["up to date"]


def test_a_repository_that_cannot_be_had_is_a_decision_about_its_model_alone(built: Lab) -> None:
    place = f"{{git: 'file://{built.root}/nowhere.git', revision: '{'0' * 40}', path: c/spec.yaml}}"
    built.define(DEFINITION.replace("toolchains", f"  - spec: {place}\ntoolchains"))
    first, *others = built.plan()
    assert (first.action, first.task.model, first.reasons[0].what) == ("fail", "nowhere_git_c_spec_yaml", "source")
    assert [one.action for one in others] == ["up to date"] * 2


def test_a_model_without_files_is_a_decision_about_it_alone(built: Lab) -> None:
    shutil.rmtree(built.root / "models" / "a" / "saved_model")
    first, second = built.plan()
    assert (first.action, first.task.id, first.reasons[0].what) == ("fail", TASK, "source")
    assert second.action == "up to date"


def test_a_version_that_cannot_get_a_build_number_is_a_decision_about_it_alone(built: Lab) -> None:
    built.model("a", SPEC.replace("1.0.0", "1.0.0+mine"))
    first, _ = built.plan()
    assert first.action == "fail" and "cannot get a build number" in first.reasons[0].detail


# --- models together ------------------------------------------------------------------------------------------------


def test_a_model_comes_after_those_that_it_depends_on(lab: Lab) -> None:
    lab.model("c")
    lab.define(DEFINITION.replace("models:\n", "models:\n  - spec: models/a/spec.yaml\n    depends: [c]\n"))
    assert [(one.task.model, one.task.depends) for one in lab.plan()] == [("c", ()), ("b", ()), ("a", ("c",))]


def faults(lab: Lab) -> str:
    with pytest.raises(SpecError) as error:
        lab.plan()
    return str(error.value).replace(f"{lab.root}/", "")


def test_models_that_wait_for_each_other_are_refused(lab: Lab) -> None:
    entries = "".join(f"  - spec: models/{one}/spec.yaml\n    depends: [{other}]\n" for one, other in ("ab", "ba"))
    lab.define(DEFINITION.replace("toolchains", f"{entries}toolchains"))
    assert "models depend on each other: " in faults(lab)
    assert "registry.yaml:" in faults(lab) and "].depends: " in faults(lab)


def test_unknown_dependencies_and_names_that_are_given_twice_are_refused_together(lab: Lab) -> None:
    lab.model("c", SPEC.replace("{name}", "a"))
    lab.define(DEFINITION.replace("toolchains", "  - spec: models/b/spec.yaml\n    depends: [x]\ntoolchains"))
    twice = "the model a of models/c/spec.yaml is that of models/a/spec.yaml too: one needs another name"
    assert faults(lab).splitlines() == [
        f"registry.yaml:3: models[0].spec: {twice}",
        "registry.yaml:5: models[1].depends[0]: there is no model 'x' in this file",
    ]


def test_a_dependency_whose_spec_cannot_be_read_is_not_unknown(lab: Lab) -> None:
    lab.define(DEFINITION.replace("toolchains", "  - spec: models/b/spec.yaml\n    depends: [a]\ntoolchains"))
    lab.model("a", "nonsense\n")
    assert [one.action for one in lab.plan()] == ["fail", "build"]


# --- the command ----------------------------------------------------------------------------------------------------


def test_a_part_can_be_asked_for(lab: Lab) -> None:
    lab.define(DEFINITION.replace("[2.17.1]", "[2.17.1, 2.21.0]"))
    assert [one.task.id for one in lab.plan(model="a*", toolchains=("2.21.0",))] == ["a@1.0.0+tf2.21.0"]


def test_markdown_is_a_table_in_which_texts_of_users_do_no_harm(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.night(lab.plan(), "build failed", error_class="a|b <script>")
    assert run(["nightly", "plan", str(lab.definition), "--markdown", "--model", "a"]) == 0
    assert capsys.readouterr().out == (
        "**Nightly plan**: 1 to build\n\n| task | what | why |\n| --- | --- | --- |\n"
        "| a@1.0.0+tf2.17.1 | build | last build failed: a\\|b \\<script\\> |\n"
    )
