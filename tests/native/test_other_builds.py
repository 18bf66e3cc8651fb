"""Libraries by Clang, and those of the newest TensorFlow, keep the promises of the default ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.native.binaries import dynamic_values, exports, global_symbols, member, unversioned_imports
from tests.native.conftest import MOST_GROWTH, VALGRIND, Variant, check_answers
from tests.samples import Sample
from tfaot_pkg.ground.process import run

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.needs_tensorflow,
    pytest.mark.timeout(1200),
]

TARGETS = ["x86-64-v2", "x86-64-v3"]
BUILDS = ["clang++", "tensorflow 2.21.0"]
RequireProgram = Callable[[str], str]


@pytest.fixture(params=BUILDS)
def libraries(request: pytest.FixtureRequest, variant: Variant, require_program: RequireProgram) -> Path:
    """The folder of the digits libraries of one build, without their suffixes."""
    if request.param == "clang++":
        require_program("clang++")
        prefix = variant("digits", targets=TARGETS, env={"CXX": "clang++"})
    else:
        prefix = variant("digits", targets=TARGETS, tensorflow="2.21.0")
    return prefix / "lib" / "libtfaot-model-digits"


@pytest.mark.sweep(night=["clang++*"])
def test_only_the_entry_function_is_visible(libraries: Path, tmp_path: Path) -> None:
    shared = libraries.with_suffix(".so")
    (symbol,) = exports(shared).keys() - {"tfaot_model_entry"}
    assert symbol.startswith("tfaot_model_digits_")
    assert unversioned_imports(shared) == set()
    assert {*dynamic_values(shared, "DT_NEEDED", "needed")} <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    assert dynamic_values(shared, "DT_FLAGS") == [8], "BIND_NOW alone"
    path = member(libraries.with_suffix(".a"), tmp_path)
    assert global_symbols(path)[0] == {symbol}
    with path.open("rb") as file:
        sections = list(ELFFile(file).iter_sections())
    assert "SHT_GROUP" not in {section["sh_type"] for section in sections}
    assert not [s.name for s in sections if s.name.startswith((".init_array", ".ctors", ".preinit_array"))]


def test_clang_compiled_what_is_said_to_be_clangs(
    variant: Variant, require_program: RequireProgram, tmp_path: Path
) -> None:
    require_program("clang++")
    prefix = variant("digits", targets=TARGETS, env={"CXX": "clang++"})
    with member(prefix / "lib" / "libtfaot-model-digits.a", tmp_path).open("rb") as file:
        comment = ELFFile(file).get_section_by_name(".comment")
        assert comment is not None and b"clang" in comment.data()


@pytest.mark.sweep(night=["clang++*"])
@pytest.mark.parametrize("cpu", ["this one", "Nehalem"])
def test_every_level_gives_tensorflows_answers(
    cpu: str,
    libraries: Path,
    samples: Mapping[str, Sample],
    inputs: Mapping[str, Path],
    program: Callable[[str], Path],
    require_program: RequireProgram,
    tmp_path: Path,
) -> None:
    command = [] if cpu == "this one" else [require_program("qemu-x86_64"), "-cpu", cpu]
    argv: list[str | Path] = [
        *command,
        program("answers"),
        libraries.with_suffix(".so"),
        "-",
        inputs["digits"],
        tmp_path,
    ]
    assert run(argv).stdout in (("x86-64-v2\n",) if command else ("x86-64-v2\n", "x86-64-v3\n"))
    check_answers(tmp_path, samples["digits"])


@pytest.mark.sweep(night=["clang++*"])
def test_memory_is_neither_misused_nor_kept(
    libraries: Path,
    inputs: Mapping[str, Path],
    program: Callable[[str], Path],
    require_program: RequireProgram,
    tmp_path: Path,
) -> None:
    library = libraries.with_suffix(".so")
    valgrind = [require_program("valgrind"), *VALGRIND]
    assert run([*valgrind, program("answers"), library, "-", inputs["digits"], tmp_path], timeout=600).stderr == ""
    early, late = map(int, run([program("reload"), library, inputs["digits"], tmp_path, "1000"]).stdout.split())
    assert late - early <= MOST_GROWTH
