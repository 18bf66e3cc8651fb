"""Libraries for AArch64, made on x86-64 by the cross compiler and run under an emulator."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.native.binaries import exports, unversioned_imports
from tests.native.conftest import AARCH64_OPTIONS, Variant, check_answers, compile_c
from tests.samples import NAMES, Sample, recipe
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.emulator import emulator_of
from tfaot_pkg.pipeline.conan.package import ConanHome, create
from tfaot_pkg.spec.rules import package_name

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.needs_tensorflow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(platform.machine() == "aarch64", reason="here these are the native libraries"),
]

RequireProgram = Callable[[str], str]


@pytest.fixture
def cross(require_program: RequireProgram) -> str:
    require_program("aarch64-linux-gnu-g++")
    return require_program("aarch64-linux-gnu-gcc")


def test_the_callers_arithmetic_changes_no_answer_and_is_kept(
    variant: Variant, cross: str, inputs: Mapping[str, Path], require_program: RequireProgram, tmp_path: Path
) -> None:
    library = variant("wine", targets=["aarch64"]) / "lib" / f"lib{package_name('wine')}.so"
    program = compile_c("float_control", tmp_path / "float_control", "-lm", compiler=cross)
    argv: list[str | Path] = [
        require_program("qemu-aarch64"),
        *AARCH64_OPTIONS,
        program,
        library,
        "-",
        inputs["wine"],
        tmp_path,
        "8",
    ]
    assert run(argv).stdout == "kept\n"


@pytest.mark.parametrize("name", NAMES)
def test_shared_and_static_library_give_tensorflows_answers(
    name: str,
    variant: Variant,
    cross: str,
    samples: Mapping[str, Sample],
    inputs: Mapping[str, Path],
    require_program: RequireProgram,
    tmp_path: Path,
) -> None:
    emulator = require_program("qemu-aarch64")
    library = variant(name, targets=["aarch64"]) / "lib" / f"lib{package_name(name)}"
    sample = samples[name]
    (symbol,) = exports(Path(f"{library}.so")).keys() - {"tfaot_model_entry"}
    static = [f"-DENTRY={symbol}", f"{library}.a", "-lm"]
    programs = {
        "shared": compile_c("answers", tmp_path / "shared", compiler=cross),
        "static": compile_c("answers", tmp_path / "static", *static, compiler=cross),
        "without-loader": compile_c("answers", tmp_path / "alone", *static, "-static", compiler=cross),
    }
    for kind, program in programs.items():
        outputs = tmp_path / f"{kind}-outputs"
        outputs.mkdir()
        argv: list[str | Path] = [emulator, *AARCH64_OPTIONS, program, f"{library}.so", "-", inputs[name], outputs]
        assert run(argv).stdout == "aarch64\n"
        check_answers(outputs, sample)


def test_the_shared_library_is_for_that_machine_and_needs_the_c_library_only(variant: Variant, cross: str) -> None:
    library = variant("digits", targets=["aarch64"]) / "lib" / "libtfaot-model-digits.so"
    with library.open("rb") as file:
        assert ELFFile(file)["e_machine"] == "EM_AARCH64"
    assert len(exports(library)) == 2
    assert unversioned_imports(library) == set()


def test_the_report_says_how_the_target_was_run(variant: Variant, cross: str) -> None:
    share = variant("digits", targets=["aarch64"]) / "share" / "tfaot-model-digits"
    report = json.loads((share / "validation.json").read_text())
    emulator = emulator_of(TARGETS["aarch64"])
    assert report["targets"] == {"aarch64": str(emulator) if emulator is not None else "not run"}
    assert bool(report["comparisons"]) == (emulator is not None)


def test_its_conan_package_is_for_armv8(variant: Variant, cross: str, tmp_path: Path) -> None:
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "log")
    prefix = variant("digits", targets=["aarch64"])
    package = create(recipe("digits"), "1.0.0", home=home, prefix=prefix, architecture="aarch64", progress=Silent())
    with home.opened() as opened:
        listed = opened.conan_json("list", f"{package.reference}:*")
    text = json.dumps(listed)
    assert text.count('"arch": "armv8"') == len(package.binaries) == 2
    assert '"arch": "x86_64"' not in text
