"""What the libraries of the sample models define, need and carry, seen from outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tests.native.binaries import dynamic_values, exports, global_symbols, imports, member, unversioned_imports
from tests.native.conftest import Variant
from tests.native.machine_code import beyond_sse2, instructions, uses_register, vex
from tests.samples import NAMES, REPOSITORY, Published, Sample
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("name", NAMES)
def test_the_shared_library_exports_the_entry_function_by_its_two_names_only(
    name: str, published: Published, samples: Mapping[str, Sample]
) -> None:
    assert exports(published.library(name, "so")) == {
        samples[name].symbol: "STB_GLOBAL",
        "tfaot_model_entry": "STB_GLOBAL",
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_shared_library_needs_the_c_library_only_and_is_found_by_a_name_of_its_own(
    name: str, published: Published, samples: Mapping[str, Sample]
) -> None:
    library = published.library(name, "so")
    assert unversioned_imports(library) == set()
    assert not [symbol for symbol in imports(library) if symbol.startswith("_Z")]
    assert {*dynamic_values(library, "DT_NEEDED", "needed")} <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    (soname,) = dynamic_values(library, "DT_SONAME", "soname")
    assert soname == f"{library.name}.{samples[name].symbol[-12:]}"
    assert (library.parent / soname).resolve() == library.resolve()
    for tag in ("DT_TEXTREL", "DT_RPATH", "DT_RUNPATH"):
        assert dynamic_values(library, tag) == []
    assert dynamic_values(library, "DT_FLAGS") == [8], "BIND_NOW alone"


@pytest.mark.parametrize("name", NAMES)
def test_no_memory_of_the_shared_library_is_both_written_and_run(name: str, published: Published) -> None:
    with published.library(name, "so").open("rb") as file:
        segments = list(ELFFile(file).iter_segments())
    flags = {str(s["p_type"]): int(s["p_flags"]) for s in segments}
    assert flags["PT_GNU_STACK"] == 6, "read and write"
    assert "PT_GNU_RELRO" in flags
    assert all(segment["p_flags"] & 3 != 3 for segment in segments if segment["p_type"] == "PT_LOAD")


@pytest.mark.parametrize("name", NAMES)
def test_the_static_librarys_only_global_symbol_is_the_entry_function(
    name: str, published: Published, samples: Mapping[str, Sample], tmp_path: Path
) -> None:
    path = member(published.library(name, "a"), tmp_path)
    defined, undefined = global_symbols(path)
    assert defined == {samples[name].symbol}
    foreign = re.compile("tensorflow|Eigen|absl|xla|tsl|tfaot", re.IGNORECASE)
    assert not [symbol for symbol in undefined if foreign.search(symbol)]
    with path.open("rb") as file:
        elf = ELFFile(file)
        sections = [section.name for section in elf.iter_sections()]
        kinds = {section["sh_type"] for section in elf.iter_sections()}
    assert "SHT_GROUP" not in kinds
    # Nothing runs when a program starts: code for a level that this CPU lacks might be among it.
    assert not [section for section in sections if section.startswith((".init_array", ".ctors", ".preinit_array"))]
    assert ".note.GNU-stack" in sections


@pytest.mark.parametrize("suffix", ["a", "so"])
@pytest.mark.parametrize("name", NAMES)
def test_no_path_of_the_building_machine_is_in_a_library(name: str, suffix: str, published: Published) -> None:
    content = published.library(name, suffix).read_bytes()
    places = {str(REPOSITORY), str(published.home), str(published.prefix), "/tmp/", "/home/", "/root", "site-packages"}
    assert [place for place in places if place.encode() in content] == []
    # A path with two folders at least: short ones are found in any weights.
    texts = re.findall(rb"(?:/[A-Za-z0-9_.+-]{2,}){3,}", content)
    assert texts == []


@pytest.mark.parametrize("name", NAMES)
def test_code_for_several_levels_is_in_the_library(name: str, published: Published) -> None:
    library = published.library(name, "so")
    assert uses_register(library, "ymm")
    assert not uses_register(library, "zmm")
    assert [i for i in instructions(library) if i.startswith("vfmadd")]


def test_a_small_library_has_few_kernels_beside_its_weights(published: Published, tmp_path: Path) -> None:
    # At most 40 KiB for each of its two targets, and 8 KiB for teams and thread pools (decision 091).
    static, shared = (published.library("digits", suffix) for suffix in ("a", "so"))
    weights = size_of_weights(static, tmp_path)
    assert 0 < shared.stat().st_size - weights <= (80 + 8) * 1024
    # With symbols, relocations and headers of sections: 132.8 KiB.
    assert static.stat().st_size - weights <= 134 * 1024


def size_of_weights(static: Path, folder: Path) -> int:
    with member(static, folder).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        (size,) = (s["st_size"] for s in table.iter_symbols() if s.name == "tfaot_weights")
    return int(size)


@pytest.mark.nightly
def test_a_small_library_for_the_default_targets_is_at_most_133_kib_over_its_weights(
    variant: Variant, tmp_path: Path
) -> None:
    libraries = variant("digits", targets=["x86-64-v2", "x86-64-v3", "x86-64-v4"]) / "lib"
    weights = size_of_weights(libraries / "libtfaot-model-digits.a", tmp_path)
    assert 0 < (libraries / "libtfaot-model-digits.so").stat().st_size - weights <= 133 * 1024


@pytest.mark.nightly
def test_a_library_for_the_second_level_holds_no_vex_instruction(variant: Variant) -> None:
    # The code that chooses the target and the parts of libstdc++ are in it too.
    library = variant("digits", targets=["x86-64-v2"]) / "lib" / "libtfaot-model-digits.so"
    found = instructions(library)
    assert vex(found) == set()
    assert found["mulps"] > 0


def test_what_runs_before_the_cpu_is_known_is_code_for_any_x86_64(variant: Variant) -> None:
    library = variant("wine", targets=["x86-64"]) / "lib" / "libtfaot-model-wine.so"
    # tzcnt is bsf to a CPU that does not know it.
    assert beyond_sse2(instructions(library)) <= {"tzcnt"}


def test_the_c_compilers_linker_takes_the_static_library_without_warnings(
    published: Published, samples: Mapping[str, Sample], tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    (tmp_path / "main.c").write_text(
        "#include <tfaot/c_api.h>\n#include <stdio.h>\n"
        + "".join(f"const tfaot_model_table* {sample.symbol}(void);\n" for sample in samples.values())
        + "int main(void) {\n"
        + "".join(f"  puts({sample.symbol}()->info->name);\n" for sample in samples.values())
        + "  return 0;\n}\n"
    )
    libraries = [published.library(name, "a") for name in samples]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wl,--fatal-warnings"]
    for compiler in ("gcc", "clang"):
        require_program(compiler)
        program = tmp_path / compiler
        run([compiler, *flags, f"-I{published.prefix}/include", tmp_path / "main.c", *libraries, "-lm",
             "-o", program])  # fmt: skip
        assert run([program]).stdout.split() == list(samples)
