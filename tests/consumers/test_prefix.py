"""Programs against a prefix: by find_package, by pkg-config, by hand."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import PROJECT, TOOLS, WARNINGS, Check, cmake_build, environment
from tests.samples import REPOSITORY, Published, Sample, recipe
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.spec.rules import package_name

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

RequireProgram = Callable[[str], str]


def needed(program: Path) -> set[str]:
    """The shared libraries that a program asks for by itself, models' without their uids."""
    text = run(["readelf", "-dW", program], env=environment()).stdout
    return set(re.findall(r"\(NEEDED\) +Shared library: \[(.+?)(?:\.[0-9a-f]{12})?\]", text))


MODELS = {"libtfaot-model-digits.so", "libtfaot-model-wine.so"}


@pytest.mark.sweep(night=["clang++"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_find_package_in_a_moved_prefix_in_a_path_with_blanks(
    compiler: str, moved: Path, check: Check, require_program: RequireProgram, tmp_path: Path
) -> None:
    require_program(compiler)
    build = cmake_build(
        tmp_path / "build",
        f"-DCMAKE_PREFIX_PATH={moved}",
        f"-DCMAKE_CXX_COMPILER={compiler}",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DKINDS=static;shared",
    )
    for kind in ("static", "shared"):
        for standard in (17, 20):
            program = build / f"{kind}-{standard}"
            check([program])
            assert needed(program) & MODELS == (MODELS if kind == "shared" else set())
            assert not [name for name in needed(program) if "tensorflow" in name]


@pytest.mark.sweep(night=["OFF-False"])
@pytest.mark.parametrize(("option", "shared"), [("ON", True), ("OFF", False)])
def test_build_shared_libs_chooses_in_a_prefix_of_build(
    option: str, shared: bool, built: Path, check: Check, tmp_path: Path
) -> None:
    options = [f"-DCMAKE_PREFIX_PATH={built}", f"-DBUILD_SHARED_LIBS={option}", "-DKINDS=default"]
    build = cmake_build(tmp_path / "build", *options, "-DCMAKE_BUILD_TYPE=Debug")
    check([build / "default-17"])
    assert needed(build / "default-17") & MODELS == (MODELS if shared else set())


@pytest.mark.nightly
def test_a_program_is_installed_with_its_models(moved: Path, check: Check, tmp_path: Path) -> None:
    build = cmake_build(tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}", "-DKINDS=shared")
    shutil.copytree(moved / "lib", tmp_path / "elsewhere")
    check([build / "shared-17"], env=environment(LD_LIBRARY_PATH=str(tmp_path / "elsewhere")))


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_pkg_config_and_one_command_line(
    kind: str, moved: Path, check: Check, require_program: RequireProgram, tmp_path: Path
) -> None:
    # Only the kind that is meant lies there: -l takes the shared one where both do.
    prefix = tmp_path / "a prefix"
    shutil.copytree(moved, prefix)
    for path in (prefix / "lib").glob("*.a" if kind == "shared" else "*.so"):
        path.unlink()
    env = environment(PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
    arguments = ["--cflags", "--libs", *(["--static"] if kind == "static" else [])]
    command = [require_program("pkg-config"), *arguments, "tfaot-model-digits", "tfaot-model-wine"]
    flags = shlex.split(run(command, env=env).stdout)
    sources = [PROJECT / "main.cpp", PROJECT / "classify.cpp"]
    run(["g++", "-std=c++17", *WARNINGS, *sources, *flags, "-o", tmp_path / "program"], env=environment())
    check([tmp_path / "program"], env=environment(LD_LIBRARY_PATH=str(prefix / "lib")))


@pytest.mark.sweep("clang++-a", "g++-so")
@pytest.mark.parametrize("kind", ["a", "so"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_a_plain_command_line(
    compiler: str, kind: str, built: Path, check: Check, require_program: RequireProgram, tmp_path: Path
) -> None:
    require_program(compiler)
    libraries = [built / "lib" / f"lib{package_name(name)}.{kind}" for name in ("digits", "wine")]
    sources = [PROJECT / "main.cpp", PROJECT / "classify.cpp"]
    program = tmp_path / "program"
    run(
        [compiler, "-std=c++17", *WARNINGS, f"-I{built}/include", *sources, *libraries, "-o", program],
        env=environment(),
    )
    check([program], env=environment(LD_LIBRARY_PATH=str(built / "lib")))


PROJECT_FLAGS = [
    "-O2 -flto",
    "-static",
    "-static-pie -fPIE",
    "-ffunction-sections -Wl,--gc-sections",
    "-D_GLIBCXX_USE_CXX11_ABI=0",
    "-fsanitize=address,undefined",
]


@pytest.mark.sweep("-O2 -flto", "-static-pie -fPIE", night=["-fsanitize*", "-D*"])
@pytest.mark.parametrize("flags", PROJECT_FLAGS)
def test_the_static_library_bears_what_projects_compile_with(
    flags: str, built: Path, check: Check, tmp_path: Path
) -> None:
    libraries = [built / "lib" / f"lib{package_name(name)}.a" for name in ("digits", "wine")]
    sources = [PROJECT / "main.cpp", PROJECT / "classify.cpp"]
    program, include = tmp_path / "program", f"-I{built}/include"
    run(
        ["g++", "-std=c++17", *WARNINGS, *flags.split(), include, *sources, *libraries, "-o", program],
        env=environment(),
    )
    check([program])


@pytest.mark.sweep("static-gcc", "shared-clang")
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("libraries", [["a", "-lm"], ["so"]], ids=["static", "shared"])
def test_a_program_in_c(
    compiler: str,
    libraries: list[str],
    moved: Path,
    samples: Mapping[str, Sample],
    require_program: RequireProgram,
    tmp_path: Path,
) -> None:
    require_program(compiler)
    sample = samples["digits"]
    suffix, *system = libraries
    program, library = tmp_path / "plain", moved / "lib" / f"libtfaot-model-digits.{suffix}"
    flags = ["-std=c11", "-O1", *WARNINGS, f"-DENTRY={sample.symbol}", f"-I{moved}/include"]
    run([compiler, *flags, PROJECT / "plain.c", library, *system, "-o", program], env=environment())
    sample.write_inputs(tmp_path / "inputs")
    (tmp_path / "labels.bin").write_bytes(sample.labels.tobytes())
    env = environment(LD_LIBRARY_PATH=str(moved / "lib"))
    printed = run([program, tmp_path / "inputs/image.bin", tmp_path / "labels.bin", str(len(sample.labels))], env=env)
    assert printed.stdout == f"right {np.count_nonzero(sample.answers['digit'] == sample.labels)}\n"


def test_the_example_prints_the_accuracy_of_tensorflow(
    published: Published, samples: Mapping[str, Sample], tmp_path: Path
) -> None:
    source = REPOSITORY / "examples" / "cmake-consumer"
    options = [f"-DCMAKE_PREFIX_PATH={published.prefix}", f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}"]
    build = cmake_build(tmp_path / "build", *options, source=source)
    printed = run([build / "digits-accuracy", recipe("digits") / "data" / "held-out.csv"], env=environment()).stdout
    sample = samples["digits"]
    share = 100 * np.mean(sample.answers["digit"] == sample.labels)
    assert printed == f"accuracy on {len(sample.labels)} held-out images: {share:.1f} %\n"


def test_a_consumer_needs_neither_tensorflow_nor_eigen_nor_abseil_headers(published: Published, tmp_path: Path) -> None:
    source = tmp_path / "both.cpp"
    source.write_text("#include <tfaot-model-digits/model.h>\n#include <tfaot-model-wine/model.h>\n")
    argv: list[str | Path] = ["g++", "-std=c++17", "-M", f"-I{published.prefix}/include", source]
    text = run(argv, env=environment()).stdout
    assert "tfaot/c_api.h" in text
    assert not re.search("tensorflow|eigen|absl|xla", text.replace(str(published.prefix), ""), re.IGNORECASE)


def test_a_version_that_is_not_there_is_refused(moved: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\nproject(old LANGUAGES CXX)\nfind_package(tfaot-model-digits 2.0 REQUIRED)\n"
    )
    argv: list[str | Path] = [
        TOOLS / "cmake",
        "-S",
        tmp_path,
        "-B",
        tmp_path / "build",
        "-GNinja",
        f"-DCMAKE_PREFIX_PATH={moved}",
    ]
    with pytest.raises(CommandFailed) as failure:
        run(argv, env=environment())
    assert "tfaot-model-digitsConfig.cmake, version: 1.0.0" in failure.value.output


def test_the_system_has_no_other_copy(published: Published) -> None:
    """The tests above would prove nothing if the libraries were found elsewhere."""
    for folder in [*os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep), "/usr/lib", "/usr/local/lib"]:
        assert not folder or not list(Path(folder).glob("libtfaot-model-*"))
