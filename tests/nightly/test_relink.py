"""Linking again what may be hostile: what the linker may read, and objects whose code depends on the order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import COMPILER_TEXT, reported
from tfaot_pkg.errors import CompilerError
from tfaot_pkg.native.cxx.compiler import Compiler, confined, find_compiler
from tfaot_pkg.nightly.recheck import OtherCode, _globals
from tfaot_pkg.package.binary.elf import opened


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    return find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None)


def compiled(compiler: Compiler, folder: Path, code: str, *flags: str, suffix: str = ".cc") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"a{suffix}").write_text(code)
    compiler.compile(folder / f"a{suffix}", folder / "a.o", flags=flags, folder=folder)
    return folder / "a.o"


def test_compiler_and_linker_read_nothing_of_the_user_s(compiler: Compiler, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the key")
    code = f'.section .rodata\n.incbin "{secret}"\n.section .note.GNU-stack,"",@progbits\n'
    assert b"the key" in compiled(compiler, tmp_path / "free", code, suffix=".S").read_bytes()
    (tmp_path / "confined").mkdir()
    inside = confined(compiler)
    with reported(CompilerError, varies=COMPILER_TEXT) as caught:
        compiled(inside, tmp_path / "confined", code, suffix=".S")
    assert str(secret) in caught.value.message
    script = tmp_path / "confined" / "a.o"
    script.write_text(f"INPUT({secret})")
    with reported(CompilerError, varies=COMPILER_TEXT) as caught:
        inside.merge([script], tmp_path / "confined" / "b.o", keep=[])
    assert str(secret) in caught.value.message


@pytest.mark.parametrize(
    "code",
    [
        'inline __attribute__((visibility("default"), noinline)) int f() { return 1; }\nint g() { return f(); }',
        'asm(".section .gnu.linkonce.t.f,\\"ax\\",@progbits\\n.byte 0\\n");',
    ],
)
def test_code_of_which_linkers_take_the_first_is_found(compiler: Compiler, tmp_path: Path, code: str) -> None:
    with opened(compiled(compiler, tmp_path / "one", code)) as data, pytest.raises(OtherCode, match="one object only"):
        _globals(data, "a.o")


def test_what_an_object_defines_for_others_is_seen_weak_or_not(compiler: Compiler, tmp_path: Path) -> None:
    code = 'extern "C" { int a() { return 1; } __attribute__((weak)) int b() { return 1; } int c(); int d() { return c(); } }'
    with opened(compiled(compiler, tmp_path / "one", code, "-fvisibility=default")) as data:
        assert sorted(_globals(data, "a.o")) == ["a", "b", "d"]
