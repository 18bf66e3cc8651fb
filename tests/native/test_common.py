"""Code that all libraries have in common is compiled once for all that would compile it alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.native.common import SOURCES, STAGE, common_object
from tfaot_pkg.native.cxx.compiler import Compiler, find_compiler
from tfaot_pkg.package.binary.elf import defined_symbols


@pytest.mark.slow
def test_what_libraries_have_in_common_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_one = Compiler.compile

    def noted(self: Compiler, source: Path, *arguments: Path, **options: object) -> None:
        compiled.append(source.name)
        compile_one(self, source, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Compiler, "compile", noted)
    compiler = find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None)
    cache = BuildCache(root=tmp_path / "builds")

    def made(name: str) -> Path:
        return common_object(name, architecture="x86_64", compiler=compiler, cache=cache)

    objects = [made(name) for name in SOURCES]
    assert [made(name) for name in SOURCES] == objects and compiled == [*SOURCES]
    assert all(map(defined_symbols, objects))
    assert len([path for path in (tmp_path / "builds" / STAGE).glob("*/*") if path.is_dir()]) == len(SOURCES)
