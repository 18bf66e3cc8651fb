"""Which code runs on which CPU: an emulator stands for the machines that are not here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.native.conftest import HEAP, ON_HEAP, Answers, Variant, check_answers, compile_c
from tests.samples import NAMES, Published, Sample
from tests.wording import reported
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.targets import TARGETS, runs_here

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

Program = Callable[[str], Path]
RequireProgram = Callable[[str], str]

# Below the second level in different ways: no SSSE3; SSSE3 but no SSE4.
LOWEST = ["qemu64", "core2duo", "Conroe", "Penryn,-sse4.1"]
BELOW_V3 = ["Nehalem", "Westmere", "max,-avx2", "max,-bmi2", "max,-fma", "max,-xsave"]


@pytest.mark.parametrize("cpu", LOWEST)
@pytest.mark.parametrize("name", NAMES)
def test_a_cpu_below_the_lowest_target_is_refused_with_a_message(
    name: str, cpu: str, published: Published, program: Program, require_program: RequireProgram, tmp_path: Path
) -> None:
    emulator = require_program("qemu-x86_64")
    library = published.library(name, "so")
    with pytest.raises(CommandFailed) as failure:
        run([emulator, "-cpu", cpu, program("answers"), library, "-", tmp_path, tmp_path])
    assert failure.value.reason == "exit code 1"
    assert (
        f"create: model {name}: this CPU is below x86-64-v2, the lowest target of the library" in failure.value.output
    )


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_a_target_that_the_cpu_cannot_run_is_refused_by_name(
    target: str, published: Published, program: Program, require_program: RequireProgram, tmp_path: Path
) -> None:
    emulator = require_program("qemu-x86_64")
    with pytest.raises(CommandFailed) as failure:
        run(
            [
                emulator,
                "-cpu",
                "core2duo",
                program("answers"),
                published.library("wine", "so"),
                target,
                tmp_path,
                tmp_path,
            ]
        )
    assert f"model wine: this CPU cannot run code for {target}" in failure.value.output


@pytest.mark.parametrize("cpu", BELOW_V3)
def test_a_cpu_of_the_second_level_runs_code_for_that_level(
    cpu: str, answers: Answers, require_program: RequireProgram, tmp_path: Path
) -> None:
    emulator = [require_program("qemu-x86_64"), "-cpu", cpu]
    for name in NAMES:
        assert answers.check(name, tmp_path / name, under=emulator).stdout == "x86-64-v2\n"


def test_a_cpu_of_the_third_level_runs_code_for_that_level(
    answers: Answers, require_program: RequireProgram, tmp_path: Path
) -> None:
    emulator = [require_program("qemu-x86_64"), "-cpu", "max"]
    assert answers.check("digits", tmp_path, under=emulator, on_heap=True).stdout == "x86-64-v3\n"


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("name", NAMES)
def test_each_target_that_is_asked_for_gives_tensorflows_answers(
    name: str, target: str, answers: Answers, tmp_path: Path
) -> None:
    if not runs_here(TARGETS[target]):
        pytest.skip(f"this machine does not run {target}")
    assert answers.check(name, tmp_path, target=target).stdout == f"{target}\n"


def test_the_static_library_chooses_as_the_shared_one(
    published: Published,
    samples: Mapping[str, Sample],
    inputs: Mapping[str, Path],
    require_program: RequireProgram,
    tmp_path: Path,
) -> None:
    emulator = require_program("qemu-x86_64")
    sample = samples["digits"]
    static = compile_c(
        "answers", tmp_path / "program", f"-DENTRY={sample.symbol}", published.library("digits", "a"), "-lm"
    )
    for cpu, target in (("Nehalem", "x86-64-v2"), ("max", "x86-64-v3")):
        outputs = tmp_path / cpu
        outputs.mkdir()
        assert run([emulator, "-cpu", cpu, static, "-", "-", inputs["digits"], outputs, HEAP]).stdout == f"{target}\n"
        check_answers(outputs, sample, ON_HEAP)
    with reported(CommandFailed, varies=r"\S*qemu-\S+"):
        run([emulator, "-cpu", "qemu64", static, "-", "-", inputs["digits"], tmp_path])


@pytest.mark.nightly
def test_a_library_for_the_fourth_level_only_is_built_and_refused_elsewhere(
    variant: Variant,
    samples: Mapping[str, Sample],
    inputs: Mapping[str, Path],
    program: Program,
    require_program: RequireProgram,
    tmp_path: Path,
) -> None:
    emulator = require_program("qemu-x86_64")  # no version of it has AVX-512
    library = variant("wine", targets=["x86-64-v4"]) / "lib" / "libtfaot-model-wine.so"
    with pytest.raises(CommandFailed) as failure:
        run([emulator, "-cpu", "max", program("answers"), library, "-", tmp_path, tmp_path])
    assert "model wine: this CPU is below x86-64-v4, the lowest target of the library" in failure.value.output
    if runs_here(TARGETS["x86-64-v4"]):
        assert run([program("answers"), library, "-", inputs["wine"], tmp_path]).stdout == "x86-64-v4\n"
        check_answers(tmp_path, samples["wine"])
