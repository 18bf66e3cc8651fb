"""What objects define and need, told from small ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.ground.process import run
from tfaot_pkg.package.binary.elf import defined_symbols, undefined_symbols

SOURCE = """
#include <stdlib.h>
int shown(int x) { return abs(x) + (int)strtol("1", 0, 10); }
__attribute__((visibility("hidden"))) int hidden(int x) { return shown(x); }
__attribute__((weak)) int weak(int x) { return x; }
static int local(int x) { return x + 1; }
extern int elsewhere(int);
int (*table[])(int) = {local, elsewhere};
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object of the source."""
    folder = tmp_path_factory.mktemp("elf")
    (folder / "a.c").write_text(SOURCE)
    run(["gcc", "-O1", "-fPIC", "-fno-builtin", "-c", folder / "a.c", "-o", folder / "a.o"])
    return folder / "a.o"


def test_an_object_defines_its_global_hidden_and_weak_symbols_but_not_its_local_ones(made: Path) -> None:
    assert defined_symbols(made) == {"shown", "hidden", "weak", "table"}


def test_an_object_needs_what_it_only_declares(made: Path) -> None:
    assert {"elsewhere", "strtol", "abs"} <= undefined_symbols(made)
    assert not undefined_symbols(made) & defined_symbols(made)


def test_unique_symbols_of_cpp_count_as_global(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text("inline int& counter() { static int n; return n; } int f() { return ++counter(); }")
    run(["g++", "-c", tmp_path / "a.cc", "-o", tmp_path / "a.o"])
    assert "_ZZ7countervE1n" in defined_symbols(tmp_path / "a.o")


def test_an_object_without_symbols_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("")
    run(["gcc", "-c", tmp_path / "a.c", "-o", tmp_path / "a.o"])
    assert defined_symbols(tmp_path / "a.o") == undefined_symbols(tmp_path / "a.o") == frozenset()
