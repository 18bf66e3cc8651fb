"""What linkers take out of archives: libraries and programs of packages hold nothing of a C++ runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from tests.native.archived_code import members_in
from tests.wording import COMPILER_TEXT, reported
from tfaot_pkg.errors import CompilerError
from tfaot_pkg.ground.process import run
from tfaot_pkg.native.cxx.compiler import Compiler, find_compiler
from tfaot_pkg.package.binary.findings import glibc_floor_of, numbers

pytestmark = pytest.mark.slow

DIVISION = 'extern "C" __int128 divide(__int128 a, __int128 b) { return a / b; }\n'  # libgcc computes it
_DIVIDING = "_divdi3.o"  # libgcc's file of __divti3
PRODUCT = 'extern "C" float divide(float a, float b) { return a * b; }\n'
THROWING = 'extern "C" int divide(int a, int b) { if (b == 0) throw 1; return a / b; }\n'


@pytest.fixture(params=["x86_64", "aarch64"])
def compiler(request: pytest.FixtureRequest, require_program: Callable[[str], str], tmp_path: Path) -> Compiler:
    require_program(f"{request.param}-linux-gnu-g++")
    return find_compiler(request.param, log=tmp_path / "log", output=lambda _: None)


def library(compiler: Compiler, code: str, folder: Path, *flags: str) -> tuple[Path, list[str]]:
    """A shared library of `code`, and what it holds of archives."""
    (folder / "a.cc").write_text(code)
    (folder / "map").write_text("{ global: divide; local: *; };\n")
    compiler.compile(folder / "a.cc", folder / "a.o", flags=[*flags, "-fvisibility=default"], folder=folder)
    held = compiler.link_shared([folder / "a.o"], folder / "a.so", soname="a.so", exports=folder / "map")
    return folder / "a.so", list(map(str, held))


def test_functions_of_the_compilers_library_are_listed_if_their_code_is_there(
    compiler: Compiler, tmp_path: Path
) -> None:
    made, held = library(compiler, DIVISION, tmp_path, *compiler.library_flags)
    libgcc = Path(run([*compiler.command, "-print-libgcc-file-name"]).stdout.strip())
    assert members_in([made], libgcc, tmp_path / "members")["a.so"] == {_DIVIDING}
    assert held == [f"libgcc.a({_DIVIDING})"]
    assert not list(tmp_path.glob("*.map"))


def test_what_is_not_used_is_neither_there_nor_listed(compiler: Compiler, tmp_path: Path) -> None:
    unused = DIVISION.replace("divide", "other")
    made, held = library(compiler, PRODUCT + unused, tmp_path, *compiler.library_flags)
    assert held == []
    libgcc = Path(run([*compiler.command, "-print-libgcc-file-name"]).stdout.strip())
    assert members_in([made], libgcc, tmp_path / "members")["a.so"] == set()


def test_contents_of_a_section_come_in_last(compiler: Compiler, tmp_path: Path) -> None:
    place = '__attribute__((section(".rodata.place"), aligned(64))) extern const char place[1] = {0};\n'
    (tmp_path / "a.cc").write_text(place + 'extern "C" const char* divide() { return place; }\n')
    compiler.compile(tmp_path / "a.cc", tmp_path / "a.o", flags=[], folder=tmp_path)
    (tmp_path / "contents").write_bytes(bytes(range(256)) * 1000)
    contents = {".rodata.place": tmp_path / "contents"}
    compiler.merge([tmp_path / "a.o"], tmp_path / "whole.o", keep=["divide"], contents=contents)
    with (tmp_path / "whole.o").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".rodata.place")
        assert section is not None and section.data() == bytes(range(256)) * 1000 and section["sh_addralign"] == 64
    assert (tmp_path / "a.o").stat().st_size < 10_000


def test_functions_that_are_left_out_leave_no_relocations(compiler: Compiler, tmp_path: Path) -> None:
    others = "".join(f'extern "C" int other{i}(int a) {{ return a + {i}; }}\n' for i in range(9))
    (tmp_path / "a.cc").write_text(others + DIVISION)
    compiler.compile(tmp_path / "a.cc", tmp_path / "a.o", flags=[], folder=tmp_path)
    compiler.merge([tmp_path / "a.o"], tmp_path / "whole.o", keep=["divide"])
    with (tmp_path / "whole.o").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".rela.eh_frame")
        assert isinstance(section, RelocationSection)
        (left,) = section.iter_relocations()
        assert left["r_info_type"] in (2, 261)  # R_X86_64_PC32, R_AARCH64_PREL32: the entry of `divide`


def test_code_that_throws_is_not_linked(compiler: Compiler, tmp_path: Path) -> None:
    with reported(CompilerError, varies=COMPILER_TEXT) as caught:
        library(compiler, THROWING, tmp_path)
    assert "__cxa_throw" in caught.value.message


def test_a_program_loads_with_old_c_libraries_and_archives_of_ours_do_not_count(
    compiler: Compiler, tmp_path: Path
) -> None:
    start = 'extern "C" int divide(int, int);\nextern "C" void _start() { divide(4, 2); __builtin_trap(); }\n'
    for name, code in {"start": start, "own": PRODUCT.replace("float", "int")}.items():
        (tmp_path / f"{name}.cc").write_text(code)
        flags = [*compiler.library_flags, "-fvisibility=default"]
        compiler.compile(tmp_path / f"{name}.cc", tmp_path / f"{name}.o", flags=flags, folder=tmp_path)
    compiler.archive([tmp_path / "own.o"], tmp_path / "libown.a")
    assert compiler.link_program([tmp_path / "start.o", tmp_path / "libown.a"], tmp_path / "program") == ()
    assert numbers(glibc_floor_of([tmp_path / "program"])) <= (2, 28)
