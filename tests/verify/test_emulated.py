"""Targets of another architecture are validated under an emulator, and are not verified where there is none."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bad_input.conftest import CommandLine, warm_up, write_spec
from tests.coverage import verified
from tests.nightly.nights import coordinator, task_of, to_build
from tests.sandbox.conftest import without_namespaces
from tests.toolchains import VERSIONS
from tests.wording import DIFFERENCES, reported
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.emulator import emulator_of
from tfaot_pkg.nightly.types import Policy
from tfaot_pkg.pipeline.pipeline import Build, Pipeline, Plan
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.verify.oracle import Tried
from tfaot_pkg.verify.runs import ENDLESS, EmulatedRuns, LibraryRuns, Part, not_run_targets, require_verified

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]

RequireProgram = Callable[[str], str]


@pytest.fixture(scope="session")
def foreign(require_program: RequireProgram) -> str:
    """A target of another architecture, for which there are a compiler and an emulator."""
    target = "aarch64" if os.uname().machine == "x86_64" else "x86-64-v2"
    architecture = TARGETS[target].architecture
    require_program(f"{architecture.replace('_', '-')}-linux-gnu-g++")
    require_program(f"qemu-{architecture}")
    return target


@pytest.fixture
def pipeline(shared_home_folder: Path) -> Pipeline:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    return Pipeline(folders=folders, progress=Silent())


def planned(
    pipeline: Pipeline, path: Path, model: Path, target: str, tensorflow: str, **changes: Mapping[str, Any]
) -> Plan:
    compilation = {"targets": [target], "tensorflow": tensorflow, "batch_sizes": [1, 3]}
    return pipeline.plan(load_spec(write_spec(path, model, **{"compilation": compilation, **changes})))


@pytest.mark.coverage
@pytest.mark.sweep("dense-2.17.1", night=["two_inputs-2.21.0"])
@pytest.mark.parametrize("tensorflow", VERSIONS)
@pytest.mark.parametrize("name", ["dense", "two_inputs"])
def test_a_foreign_target_is_compared_under_the_emulator_and_gives_the_same_bits(
    name: str, tensorflow: str, foreign: str, pipeline: Pipeline, models: Mapping[str, Path], tmp_path: Path
) -> None:
    plan = planned(pipeline, tmp_path / "spec.yaml", models[name], foreign, tensorflow)
    with verified(f"other machines: {name} on {foreign}", version=tensorflow, engine="program"):
        made: Build = pipeline.build(plan)
    emulator = emulator_of(TARGETS[foreign])
    assert made.report.targets == {foreign: str(emulator)} and str(emulator).startswith("qemu-")
    assert made.report.verdict == "passed" and made.report.not_run == ()
    assert {(one.target, one.batch_size) for one in made.report.comparisons} == {(foreign, 1), (foreign, 3)}
    assert all(one.elements for one in made.report.comparisons)
    assert {each.name for each in made.report.classes if each.elements} > {"main", "scaled", "nonfinite"}
    (document,) = made.tree.root.glob("share/*/validation.json")
    assert json.loads(document.read_text())["targets"] == {foreign: str(emulator)}
    # Both fuse multiplications and additions.
    own = "x86-64-v3" if foreign == "aarch64" else "aarch64"
    plan = planned(pipeline, tmp_path / "spec.yaml", models[name], own, tensorflow)
    hashes = [each.report.hashes for each in (made, pipeline.build(plan))]
    (first,), (second,) = (found.groups for found in hashes if found is not None)
    assert (first.run, second.run) == ((foreign,), (own,)) and first.batches == second.batches


@pytest.mark.nightly
def test_a_foreign_library_with_other_weights_is_refused(
    foreign: str, pipeline: Pipeline, models: Mapping[str, Path], tmp_path: Path
) -> None:
    plan = planned(pipeline, tmp_path / "spec.yaml", models["dense"], foreign, "2.17.1")
    made = pipeline.build(plan)
    shutil.copytree(made.tree.root / "lib", tmp_path / "lib")
    library = next((tmp_path / "lib").glob("*.so"))
    random = np.random.default_rng(1)  # as make_models.Dense
    random.normal(size=(4, 64))
    data = library.read_bytes()
    for weight in random.normal(size=(64, 3)).astype(np.float32).flat:
        data = data.replace(weight.tobytes(), (-weight).tobytes())
    assert data != library.read_bytes()
    library.write_bytes(data)
    environment = pipeline.environment_of(plan)
    with (
        WorkerPool(environment, scratch_root=tmp_path / "scratch", logs=tmp_path / "logs") as pool,
        reported(ValidationError, varies=DIFFERENCES) as caught,
    ):
        pipeline.validate(plan, tmp_path / "lib", pool)
    assert f"inputs of class main, {foreign}, output 'y'" in caught.value.message


@pytest.mark.release
def test_a_foreign_loop_that_does_not_end_is_stopped_and_told(
    foreign: str, pipeline: Pipeline, corners: Path, tmp_path: Path
) -> None:
    plan = planned(pipeline, tmp_path / "spec.yaml", corners / "halving_loop", foreign, "2.17.1")
    made = pipeline.build(plan)
    (tensor,) = made.frozen.signature.inputs
    files = {name: tmp_path / f"{name}.npz" for name in ("endless", "usual")}
    for file, value in zip(files.values(), (np.inf, 1.0), strict=True):
        arrays: dict[str, Any] = {tensor.name: np.full(tensor.shape_at(3), value, np.float32)}
        np.savez(file, **arrays)
    environment = pipeline.environment_of(plan)
    with WorkerPool(environment, scratch_root=tmp_path / "scratch", logs=tmp_path / "logs") as pool:
        runs = LibraryRuns(
            signature=made.frozen.signature, library=made.library, compiler=plan.compiler, pool=pool,
            step=Silent().step("validate").__enter__(),
        )  # fmt: skip
        sizes = plan.spec.compilation.batch_sizes
        tried = [
            Tried(name="endless", inputs=files["endless"], rows=3, sizes=sizes, seconds=0.1),
            Tried(name="usual", inputs=files["usual"], rows=3, sizes=sizes, seconds=60.0),
        ]
        found = runs.run(foreign, tried)
    assert found["endless"] == ENDLESS
    usual_answers = found["usual"]
    assert not isinstance(usual_answers, str) and all(array.size for array in usual_answers.values())


@pytest.mark.usefixtures("without_emulator")
def test_without_an_emulator_the_target_is_not_run_and_must_be_named(
    foreign: str, pipeline: Pipeline, models: Mapping[str, Path], tmp_path: Path
) -> None:
    plan = planned(pipeline, tmp_path / "spec.yaml", models["dense"], foreign, "2.17.1")
    assert not_run_targets(plan.spec) == (foreign,)
    with reported(ValidationError):
        require_verified(not_run_targets(plan.spec), [])
    report = pipeline.build(plan).report
    assert report.targets == {foreign: "not run"} and report.verdict == "not run" and report.comparisons == ()


@pytest.mark.skipif(os.uname().machine == "aarch64", reason="levels of x86-64")
def test_only_levels_that_the_emulator_supports_are_emulated(require_program: RequireProgram) -> None:
    require_program("qemu-x86_64")
    assert emulator_of(TARGETS["x86-64-v2"]) is not None
    assert emulator_of(TARGETS["x86-64-v4"]) is None


def test_publish_takes_a_target_that_was_not_run_only_if_it_is_named(
    foreign: str, tfaot: CommandLine, models: Mapping[str, Path], tmp_path: Path, without_emulator: None
) -> None:
    compilation = {"targets": [foreign], "batch_sizes": [1, 3]}
    spec = write_spec(tmp_path / "spec.yaml", models["dense"], compilation=compilation)
    publish = ("publish", spec, "--no-conan", "--registry", tmp_path / "registry")
    says = (f"no validation for {foreign}",)
    tfaot.fails(*publish, code=15, says=says, hints=f"--unverified-target {foreign}")
    tfaot.fails(*publish, "--unverified-target", "x86-64-v4", code=15, says=says)
    assert not (tmp_path / "registry").exists()
    done = tfaot.works(*publish, "--unverified-target", foreign)
    assert done["status"] == "published" and done["validated"] == {foreign: "not run"}
    shown = tfaot.works("show", "dense", "--registry", tmp_path / "registry")
    assert shown["validated"] == {foreign: "not run"}
    text = tfaot.run("show", "dense", "--registry", tmp_path / "registry").stdout
    assert f"not verified: {foreign}" in text and "\nverified:" not in text


def test_publish_of_an_emulated_target_needs_no_option_and_shows_the_emulator(
    foreign: str, tfaot: CommandLine, models: Mapping[str, Path], tmp_path: Path
) -> None:
    compilation = {"targets": [foreign], "batch_sizes": [1, 3]}
    spec = write_spec(tmp_path / "spec.yaml", models["dense"], compilation=compilation)
    emulator = str(emulator_of(TARGETS[foreign]))
    done = tfaot.works("publish", spec, "--no-conan", "--registry", tmp_path / "registry")
    assert done["validated"] == {foreign: emulator}
    shown = tfaot.run("show", "dense", "--registry", tmp_path / "registry")
    assert f"verified:    {foreign} ({emulator})" in shown.stdout
    provenance = tfaot.works("show", "dense", "--registry", tmp_path / "registry", "--provenance")
    byproducts = provenance["predicate"]["runDetails"]["byproducts"]
    assert {"name": "validation", "annotations": {"targets": {foreign: emulator}}} in byproducts
    (page,) = (tmp_path / "registry").rglob("packages/tfaot-model-dense/index.html")
    assert f"verified under {emulator}" in page.read_text()


@pytest.mark.release
def test_the_nightly_takes_a_target_that_was_not_run_only_if_the_policy_names_it(
    foreign: str, pipeline: Pipeline, models: Mapping[str, Path], tmp_path: Path, without_emulator: None
) -> None:
    compilation = {"targets": [foreign], "batch_sizes": [1, 3]}
    spec = write_spec(tmp_path / "spec.yaml", models["dense"], compilation=compilation)
    folders = Folders(cache=pipeline.folders.cache, data=pipeline.folders.data)
    task = replace(task_of(spec, "dense"), targets=(foreign,))
    kinds = {}
    decisions = [to_build(task, folders)]
    policies: dict[str, tuple[str, ...]] = {"refused": (), "named": (foreign,)}
    for name, unverified in policies.items():
        policy = Policy(timeout=300, memory=3 * 2**30, max_failures=1.0, unverified_targets=unverified)
        night = coordinator(tmp_path / name, folders, policy=policy).run(lambda: decisions)
        (outcome,) = night.outcomes
        kinds[name] = outcome.kind
    assert kinds["named"] == "published" and kinds["refused"] != "published"


@pytest.mark.release
def test_the_emulator_runs_confined_without_namespaces(
    foreign: str, tfaot: CommandLine, models: Mapping[str, Path], tmp_path: Path
) -> None:
    warm_up(tmp_path / "home", tfaot.home)
    landlocked = replace(tfaot, home=tmp_path / "home", wrapper=without_namespaces())
    compilation = {"targets": [foreign], "batch_sizes": [1]}
    spec = write_spec(tmp_path / "spec.yaml", models["dense"], compilation=compilation)
    report = landlocked.works("build", spec, "-o", tmp_path / "prefix")["validation"]
    assert report["confinement"] == "landlock"
    assert report["targets"] == {foreign: str(emulator_of(TARGETS[foreign]))} and report["passed"] is True


@pytest.mark.sweep(night=["*-True"])
@pytest.mark.skipif(os.uname().machine == "aarch64", reason="levels of x86-64")
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_a_level_of_this_architecture_gives_the_same_answers_under_the_emulator(
    level: str,
    flush: bool,
    pipeline: Pipeline,
    models: Mapping[str, Path],
    tmp_path: Path,
    require_program: RequireProgram,
) -> None:
    require_program("qemu-x86_64")
    emulator = emulator_of(TARGETS[level])
    if emulator is None:
        pytest.skip(f"this version of QEMU does not run {level}")
    plan = planned(pipeline, tmp_path / "spec.yaml", models["dense"], level, "2.17.1")
    made = pipeline.build(plan)
    inputs, writable, folder = tmp_path / "usual.npz", tmp_path / "answers", tmp_path / "jobs"
    rows: dict[str, Any] = {"x": np.random.default_rng(3).normal(size=(7, 4)).astype(np.float32)}
    rows["x"][5] = 1e-40
    np.savez(inputs, **rows)
    for each in (writable, folder):
        each.mkdir()
    part = Part(tried=Tried(name="main", inputs=inputs, rows=7, sizes=(1, 3)), answers=writable / "main")
    runs = EmulatedRuns(
        emulator=emulator, compiler=plan.compiler, library=made.library, signature=made.frozen.signature,
        folder=folder,
    )  # fmt: skip
    runs.command(TARGETS[level], [part], writable=writable, flush=flush).run()
    found = runs.answers(part)
    model = load(made.library.shared, target=level)
    assert {name: len(array) for name, array in found.items()} == {"1/y": 7, "3/y": 6}
    np.testing.assert_allclose(found["1/y"], model(rows["x"])["y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["3/y"], found["1/y"][:6], rtol=1e-5, atol=1e-6)
    assert np.all(found["1/y"][5] == 0) == flush
    part.answers.write_bytes(part.answers.read_bytes()[:-1])
    with reported(ValueError):
        runs.answers(part)
