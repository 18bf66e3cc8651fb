"""`tfaot-pkg tune`: what it measures reaches the library, the key, the package and its provenance."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bad_input.conftest import CommandLine, write_spec
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.measure.tuning.choosing import CANDIDATES
from tfaot_pkg.runtime.loader import load

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

SIZES = (1, 2, 8)
TARGETS = ("x86-64-v2", "x86-64-v3")


@pytest.fixture
def spec_of(models: Mapping[str, Path], tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: Any) -> Path:
        compilation = {"batch_sizes": list(SIZES), "targets": list(TARGETS), **changes}
        return write_spec(tmp_path / "spec.yaml", models["dense"], compilation=compilation)

    return write


@pytest.mark.release
def test_measured_costs_reach_the_library_the_key_and_the_provenance(
    tfaot: CommandLine, spec_of: Callable[..., Path], models: Mapping[str, Path], tmp_path: Path
) -> None:
    spec, file, prefix = spec_of(), tmp_path / "spec.tune.json", tmp_path / "prefix"
    before = tfaot.works("build", spec, "-o", tmp_path / "before")
    estimates = load(tmp_path / "before").batch_costs
    answer = tfaot.works("tune", spec, "--batch-costs")

    written = json.loads(file.read_text())
    assert answer["file"] == str(file) and answer["tuning"] == written
    assert (written["format"], written["model"], set(written["machine"])) == (1, "dense", {"cpu"})
    assert answer["measured"] == list(TARGETS) and answer["not_run"] == []
    costs = {target: {int(n): cost for n, cost in row.items()} for target, row in written["batch_costs"].items()}
    assert {target: tuple(row) for target, row in costs.items()} == dict.fromkeys(TARGETS, SIZES)
    assert all(0 < cost < math.inf for row in costs.values() for cost in row.values())
    assert set(answer["compositions"][TARGETS[0]]) == {"7", "9"}

    registry = tmp_path / "registry"
    published = tfaot.works("publish", spec, "--registry", registry, "--no-conan")
    assert published["entry"]["key"] != before["key"]
    assert tfaot.works("publish", spec, "--registry", registry, "--no-conan")["status"] == "already published"
    tfaot.works("install", "dense", "--registry", registry, "--prefix", prefix)
    assert load(prefix).batch_costs == costs != estimates
    share = prefix / "share" / "tfaot-model-dense"
    assert (share / "spec.tune.json").read_bytes() == file.read_bytes()
    statement = json.loads((share / "provenance.json").read_text())
    materials = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    (tuning,) = [each for each in materials if "spec.tune.json" in each["name"]]
    assert tuning["digest"] == {"sha256": sha256_file(file)}
    rebuilt = tfaot.works("rebuild-check", "dense", "--registry", registry, "--source", models["dense"].parent)
    assert rebuilt["verdict"] == "reproducible"


@pytest.mark.nightly
def test_one_target_is_measured_anew_and_the_others_stay_where_the_machine_is_the_same(
    tfaot: CommandLine, spec_of: Callable[..., Path], tmp_path: Path
) -> None:
    spec, file = spec_of(), tmp_path / "spec.tune.json"
    output = tmp_path / "other" / "tuning.json"
    first = tfaot.works("tune", spec, "--batch-costs", "--target", TARGETS[0], "--output", output)
    assert not file.exists() and list(first["tuning"]["batch_costs"]) == [TARGETS[0]]

    def again(machine: object) -> dict[str, Any]:
        costs = {TARGETS[0]: {"1": 1.0}, TARGETS[1]: {"1": 2.0}}
        document = {"format": 1, "model": "dense", "machine": machine, "batch_costs": costs}
        file.write_text(json.dumps(document))
        return tfaot.works("tune", spec, "--batch-costs", "--target", TARGETS[0])

    same = again(first["tuning"]["machine"])
    assert same["tuning"]["batch_costs"][TARGETS[1]] == {"1": 2.0} and same["kept"] == [TARGETS[1]]
    assert same["tuning"]["batch_costs"][TARGETS[0]]["1"] != 1.0
    other = again({"cpu": "another CPU"})
    assert list(other["tuning"]["batch_costs"]) == [TARGETS[0]] and other["dropped"] == [TARGETS[1]]


@pytest.mark.release
def test_without_options_all_is_tuned_and_the_next_build_takes_it(
    tfaot: CommandLine, spec_of: Callable[..., Path], tmp_path: Path
) -> None:
    spec, file = spec_of(batch_sizes=[1, 8], targets=TARGETS[1:], engine="xla"), tmp_path / "spec.tune.json"
    answer = tfaot.works("tune", spec)
    written = json.loads(file.read_text())
    assert answer["tuning"] == written
    assert answer["kernels"] == []
    assert answer["xla_flags"]["chosen"] or answer["xla_flags"]["skipped"]

    first = tfaot.works("build", spec, "-o", tmp_path / "first")
    costs = written["batch_costs"][TARGETS[1]]
    assert load(tmp_path / "first").batch_costs == {TARGETS[1]: {1: costs["1"], 8: costs["8"]}}
    code = {"xla_flags": {TARGETS[1]: {"8": list(CANDIDATES[0])}}}
    file.write_text(json.dumps({**written, "toolchains": {"2.17.1": code}}))
    second = tfaot.works("build", spec, "-o", tmp_path / "second")
    assert first["key"] != second["key"] or written["toolchains"] == {"2.17.1": code}


@pytest.mark.nightly
def test_what_this_machine_cannot_run_is_not_measured_and_said(
    tfaot: CommandLine, spec_of: Callable[..., Path], tmp_path: Path
) -> None:
    assert platform.machine() == "x86_64"
    spec = spec_of(targets=["aarch64"])
    says = ["cannot run code for aarch64"]
    tfaot.fails("tune", spec, "--batch-costs", code=21, says=says, hints="a machine that can")
    tfaot.fails("tune", spec, "--batch-costs", "--target", "aarch64", code=21, says=says)
    assert not (tmp_path / "spec.tune.json").exists()


def test_wrong_usage_is_told_before_anything_is_built(tfaot: CommandLine, spec_of: Callable[..., Path]) -> None:
    done = tfaot.run("tune", spec_of(), "--target", "x86-64")
    says = "x86-64 is not among the spec's targets"
    assert done.code == 2 and says in " ".join(done.stderr.replace("│", " ").split()), done


def test_a_bad_tuning_file_stops_every_command(
    tfaot: CommandLine, spec_of: Callable[..., Path], tmp_path: Path
) -> None:
    spec = spec_of()
    (tmp_path / "spec.tune.json").write_text('{"format": 1,\n "model": "wine"}')
    for command in (("check", spec), ("build", spec, "-o", tmp_path / "prefix"), ("tune", spec, "--batch-costs")):
        tfaot.fails(*command, code=10, says=["spec.tune.json:2: model: must be 'dense'"], hints="tfaot-pkg tune")
