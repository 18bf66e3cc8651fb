"""What a build refuses to make: libraries that need what no model needs, or hold what no package may hold."""

from __future__ import annotations

import platform
from pathlib import Path

from tests.registry.tiny import tiny_libraries, tiny_uid
from tests.wording import reported
from tfaot_pkg.errors import CompilerError, ModelError
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.native.library import NativeLibrary, require_sound_libraries

SYSTEM = "extern int system(const char *);\nstatic __attribute__((used)) int f(void) { return system(0); }\n"


def library(folder: Path, more: str = "", *options: str) -> NativeLibrary:
    made = NativeLibrary(folder=folder, key=Key("a" * 64), name="tfaot-model-digits", uid=tiny_uid("1.0"))
    static, shared = tiny_libraries("digits", "1.0", more, *options)
    made.static.write_bytes(static)
    made.shared.write_bytes(shared)
    return made


def test_a_library_that_computes_is_taken(tmp_path: Path) -> None:
    require_sound_libraries(library(tmp_path), platform.machine())


def test_a_symbol_that_the_model_named_is_the_models_fault(tmp_path: Path) -> None:
    with reported(ModelError):
        require_sound_libraries(library(tmp_path, SYSTEM), platform.machine())


def test_what_the_linker_added_is_the_compilers_fault(tmp_path: Path) -> None:
    with reported(CompilerError):
        require_sound_libraries(library(tmp_path, "", "-Wl,-rpath,/tmp,--enable-new-dtags"), platform.machine())
