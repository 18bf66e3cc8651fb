"""The source form of a package is built by CMake and a compiler alone, and gives the bits of the package."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compilers import EVERY
from tests.kept import saved_models
from tests.native.conftest import AARCH64_OPTIONS, compile_c
from tests.native.test_any_size import MAKER, SPEC, Mixture, read_mixture
from tests.samples import tfaot
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import run
from tfaot_pkg.registry.source_export import export_installed

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

TOOLS = Path(sys.executable).parent
SIZES = (1, 3, 65)
TARGET = "x86-64-v3"
RequireProgram = Callable[[str], str]

CONSUMER = """
cmake_minimum_required(VERSION 3.15...4.0)
project(consumer LANGUAGES C)
find_package(tfaot-model-mixture 1.0 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE tfaot-model-mixture::static)
"""
CONSUMER_C = """
#include <stdio.h>
#include <tfaot-model-mixture/entry.h>

int main(void) {
  const tfaot_info* info = tfaot_model_mixture()->info;
  for (size_t i = 0; i < info->num_targets; ++i) printf("%s\\n", info->targets[i]);
  return 0;
}
"""


def cmake(*words: str | Path) -> str:
    tools = {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", "CMAKE_GENERATOR": "Ninja"}
    return run([TOOLS / "cmake", *words], env=tools, timeout=300).stdout


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The exported sources of a package, and what the package answers."""

    folder: Path
    mixture: Mixture
    answers: dict[str, Array]

    def installed(self, place: Path, *options: str) -> Path:
        """The prefix of what is built from them."""
        cmake("-S", self.folder, "-B", place / "build", *options)
        cmake("--build", place / "build")
        cmake("--install", place / "build", "--prefix", place / "prefix")
        return place / "prefix"

    def check_bits(self, prefix: Path, place: Path, *, target: str, compiler: str, under: Sequence[str]) -> None:
        """What the shared library in `prefix` computes on `target` is what the package's answers."""
        program = compile_c("any_size", place / "any_size", compiler=compiler)
        inputs, outputs = self.mixture.write_inputs(place / "inputs"), place / "outputs"
        outputs.mkdir()
        library = prefix / "lib" / "libtfaot-model-mixture.so"
        done = run([*under, program, library, target, inputs, outputs, *map(str, SIZES)], timeout=300)
        assert done.stdout == f"{target}\n"
        for size in SIZES:
            for name, values in self.answers.items():
                expected = values if name == "twice" else values[:size]
                assert (outputs / f"aligned.{size}.{name}.bin").read_bytes() == expected.tobytes(), (size, name)
        # However the caller rounds: what changes and restores that is assembly that compilers must not move.
        program = compile_c("float_control", place / "float_control", "-lm", compiler=compiler)
        assert run([*under, program, library, target, inputs, outputs, "65"], timeout=300).stdout == "kept\n"
        for name, values in self.answers.items():
            expected = values if name == "twice" else values[:65]
            assert (outputs / f"nearest.65.{name}.bin").read_bytes() == expected.tobytes(), name


@pytest.fixture(scope="module")
def sources(shared_home_folder: Path, toolchain_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Sources:
    models = saved_models(shared_home_folder, MAKER, toolchain_python)
    folder = tmp_path_factory.mktemp("package")
    (folder / "spec.yaml").write_text(SPEC.format(models=models))
    # In the cache, if test_any_size.py ran before.
    tfaot(shared_home_folder, "build", folder / "spec.yaml", "-o", folder / "prefix")
    mixture = read_mixture(folder / "prefix", models)
    # A space, because paths reach compilers through CMake and the preprocessor.
    place = tmp_path_factory.mktemp("export") / "the sources"
    export_installed(folder / "prefix", "mixture", place)
    return Sources(folder=place, mixture=mixture, answers=mixture.load(TARGET)(**mixture.inputs))


def test_they_build_alone_and_give_the_bits_of_the_package(sources: Sources, tmp_path: Path) -> None:
    prefix = sources.installed(tmp_path, f"-DTFAOT_TARGETS={TARGET}", "-DCMAKE_CXX_FLAGS=-ffast-math")
    sources.check_bits(prefix, tmp_path, target=TARGET, compiler="gcc", under=())
    # Another target's function, or another model's, in the place of ours could have instructions that the CPU lacks.
    archive = prefix / "lib" / "libtfaot-model-mixture.a"
    assert others_symbols(archive, f"tfaot_model_mixture_{sources.mixture.load().uid}") == []
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER)
    (tmp_path / "consumer.c").write_text(CONSUMER_C)
    cmake("-S", tmp_path, "-B", tmp_path / "consumer", f"-DCMAKE_PREFIX_PATH={prefix}")
    cmake("--build", tmp_path / "consumer")
    assert run([tmp_path / "consumer" / "consumer"]).stdout == f"{TARGET}\n"


def others_symbols(archive: Path, own: str) -> list[str]:
    """The symbols without `own` of which linkers take one of several."""
    lines = [line.split() for line in run(["nm", archive]).stdout.splitlines()]
    weak = [line[-1] for line in lines if len(line) == 3 and line[1] in "uVW"]
    return [name for name in weak if own not in name and not name.startswith("DW.ref.")]  # DW.ref: a pointer


@pytest.mark.sweep(night=["g++-11", "clang++-19", "aarch64-linux-gnu-g++"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="cross compilers of x86-64")
@pytest.mark.parametrize("compiler", [*EVERY, "aarch64-linux-gnu-g++"])
def test_other_compilers_give_the_same_bits(
    compiler: str, sources: Sources, require_program: RequireProgram, tmp_path: Path
) -> None:
    # C++17 as the standard has it: what a newer compiler takes beyond it, an older one may not know.
    options = [
        f"-DCMAKE_CXX_COMPILER={require_program(compiler)}",
        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror",
    ]
    target, gcc, under = TARGET, "gcc", list[str]()
    if compiler.startswith("aarch64"):
        target, gcc = "aarch64", require_program("aarch64-linux-gnu-gcc")
        options += ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
        under = [require_program("qemu-aarch64"), *AARCH64_OPTIONS]
    else:
        options.append(f"-DTFAOT_TARGETS={target}")
    prefix = sources.installed(tmp_path, *options)
    sources.check_bits(prefix, tmp_path, target=target, compiler=gcc, under=under)


_BAZEL = {
    "WORKSPACE": """
workspace(name = "consumer")
local_repository(name = "tfaot-model-mixture", path = "model")
local_repository(name = "rules_cc", path = "rules_cc")
local_repository(name = "rules_java", path = "rules_java")
""",
    "BUILD": 'load("@rules_cc//cc:defs.bzl", "cc_binary")\n'
    'cc_binary(name = "consumer", srcs = ["consumer.c"], deps = ["@tfaot-model-mixture"])\n',
    "consumer.c": CONSUMER_C,
    "model/WORKSPACE": "",
}
# Rules that Bazel 4 has itself; later ones have none, and modules bring these.
_STAND_INS = {
    "cc": "binary library import test toolchain toolchain_suite proto_library",
    "java": "binary import library lite_proto_library proto_library test package_configuration plugin runtime toolchain",
}


@pytest.mark.release
def test_bazel_builds_them_without_a_network(sources: Sources, tmp_path: Path) -> None:
    if shutil.which("bazel") is None:
        pytest.skip("Debian's bazel-bootstrap is not installed: with its Java it is too large for CI")
    folder = tmp_path / "project"
    shutil.copytree(sources.folder, folder / "model")
    files = dict(_BAZEL)
    for language, names in _STAND_INS.items():
        place = f"rules_{language}/{language}"
        rules = [f"{language}_{name} = native.{language}_{name}" for name in names.split()]
        if language == "cc":
            rules += [f"{name} = native.{name}" for name in ("fdo_prefetch_hints", "fdo_profile", "objc_library")]
        files |= {f"rules_{language}/WORKSPACE": "", f"{place}/BUILD": "", f"{place}/defs.bzl": "\n".join([*rules, ""])}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    bazel = ["bazel", f"--output_user_root={tmp_path / 'bazel'}", "--batch"]
    run([*bazel, "build", "//:consumer", "--jobs=2"], cwd=folder, timeout=900)
    said = run([folder / "bazel-bin" / "consumer"]).stdout.split()
    assert TARGET in said
