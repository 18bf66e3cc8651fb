"""The kernels as a build uses them: every compiler, several targets in one library, sanitizers, the Conan package."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.kernels.library import FLAGS, KERNELS, RECIPE, REPOSITORY, compile_library
from tests.sanitizers import CATCH_ERRORS
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.targets import TARGETS, lowest

pytestmark = pytest.mark.slow


@pytest.mark.sweep("x86-64-v3-clang++--O0")
@pytest.mark.parametrize(("compiler", "level"), list(itertools.product(("g++", "clang++"), ("-O0", "-O3"))))
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_every_compiler_compiles_the_kernels_without_a_warning(
    require_program: Callable[[str], str], compiler: str, level: str, target: str
) -> None:
    require_program(compiler)
    compile_library(REPOSITORY / "build" / "kernels", TARGETS[target], compiler=compiler, more=(level,))


@pytest.mark.nightly
def test_code_for_several_targets_goes_into_one_library_which_exports_none_of_it(tmp_path: Path) -> None:
    objects: list[Path] = []
    for name in ("x86-64-v2", "x86-64-v3"):
        target = TARGETS[name]
        objects.append(tmp_path / f"{name}.o")
        definition = f"-DTFAOT_KERNELS_TARGET={target.identifier}"
        run(["c++", *FLAGS, *target.flags, definition, "-c", "-o", objects[-1], KERNELS], timeout=1200)
    library = tmp_path / "both.so"
    run(["c++", "-shared", "-o", library, *objects], timeout=60)
    names = run(["nm", "-C", library], timeout=60).stdout
    assert "tfaot_kernels::x86_64_v2::dense(" in names
    assert "tfaot_kernels::x86_64_v3::dense(" in names
    assert "tfaot_kernels" not in run(["nm", "-DC", "--defined-only", library], timeout=60).stdout
    # Nothing of the C++ library is asked for, and no memory.
    undefined = run(["nm", "--undefined-only", "--format=just-symbols", *objects], timeout=60).stdout
    wanted = {name for name in undefined.split() if name.isidentifier() and name != "_GLOBAL_OFFSET_TABLE_"}
    assert wanted <= {"memcpy", "memset", "__stack_chk_fail"}


@pytest.mark.release
@pytest.mark.timeout(600)
def test_the_tests_of_the_kernels_pass_under_address_and_undefined_behaviour_sanitizers(
    require_sanitizers: Callable[[str], Path],
) -> None:
    """Once more, for the lowest target, with the library instrumented and the sanitizers' runtime in the interpreter."""
    # GCC's alone: Clang's look for the same errors in the same code.
    runtime, flags = require_sanitizers("g++"), (*CATCH_ERRORS, "-g")
    library = compile_library(REPOSITORY / "build" / "kernels", lowest("x86_64"), compiler="g++", more=flags)
    files = [path for path in sorted(Path(__file__).parent.glob("test_*.py")) if path != Path(__file__)]
    env = {
        **os.environ,
        "LD_PRELOAD": str(runtime),
        "ASAN_OPTIONS": "detect_leaks=0",  # of the interpreter
        "TFAOT_TEST_KERNELS": str(library),
    }
    argv: list[str | Path] = [sys.executable, "-m", "pytest", "-q", "--capture=no", "-p", "no:cacheprovider", *files]
    done = run(argv, cwd=REPOSITORY, env=env, timeout=600)
    assert " passed" in done.stdout


@pytest.mark.slow
def test_conan_packs_headers_and_sources(tmp_path: Path) -> None:
    (version,) = yaml.safe_load((RECIPE.parent / "config.yml").read_text())["versions"]
    env = {**os.environ, "CONAN_HOME": str(tmp_path / "conan")}
    profile = tmp_path / "profile"
    profile.write_text("[settings]\nos=Linux\narch=x86_64\n")
    conan = Path(sys.executable).with_name("conan")
    create: list[str | Path] = [conan, "create", RECIPE, "--version", version, "--profile:all", profile]
    run(create, env=env, timeout=300)
    reference = f"tfaot-kernels/{version}"
    found = run([conan, "list", f"{reference}:*", "--format=compact"], env=env, timeout=60).stdout
    identifier = found.strip().splitlines()[-1].split(":")[-1].split()[0]
    package = Path(run([conan, "cache", "path", f"{reference}:{identifier}"], env=env, timeout=60).stdout.strip())
    for file in RECIPE.rglob("*.[hc]*"):
        if file.suffix in {".h", ".cpp"}:
            assert (package / file.relative_to(RECIPE)).read_bytes() == file.read_bytes()
