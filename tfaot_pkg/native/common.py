"""Code that is the same in all libraries: compiled once per architecture and compiler."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import files_below, key_of, sha256_bytes
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.native.library import baseline, includes
from tfaot_pkg.spec.types import ModelSpec

# Each defines macros that names in C++ may have, such as I, min, B0 and M_PI.
_OF_C = ("complex.h", "math.h", "sys/param.h", "termios.h")

STAGE = "common"
_CHECKED = "headers"
SOURCES = ("cpu.cc", "library.cc", "runtime.cc", "state.cc", "thread_pool.cc")
WARNINGS = ("-Wall", "-Wextra")
"""Without -Werror: another compiler's warning must not fail a user's build. The tests compile these sources with it."""


def common_object(name: str, *, architecture: str, compiler: Compiler, cache: BuildCache) -> Path:
    """The object of one of SOURCES, from the cache if it is there. Read only. Raises CompilerError, StorageError."""
    key = key_of(
        STAGE,
        code_digest(__name__),
        {
            "source": name,
            "sources": resources.digest(resources.templates() / "native"),
            "headers": resources.digest(resources.headers()),
            "baseline": list(baseline(architecture)),
            "compiler": compiler.identity,
            "flags": list(compiler.all_flags),
        },
    )
    output = f"{Path(name).stem}.o"

    def make(folder: Path) -> None:
        source = resources.templates() / "native" / name
        flags = [*compiler.library_flags, *baseline(architecture), *WARNINGS, *includes()]
        compiler.compile(source, folder / output, flags=flags, folder=folder)

    return cache.get_or_make(STAGE, key, make) / output


def check_headers(spec: ModelSpec, compiler: Compiler, cache: BuildCache, toolchain: str, root: Path) -> None:
    """Compile the headers of the package in `root` as a program would that includes C's headers first.

    Once for all headers that differ in the model's version or in the name of the toolchain alone: packages of one model
    on several toolchains have the same code. Raises CompilerError, StorageError.
    """
    package, classes = spec.model.package_name, [spec.class_name]
    classes += [spec.class_of(each.name) for each in spec.model.signatures]
    lines = [f"#include <{name}>" for name in (*_OF_C, f"{package}/model.h", "tfaot/tfaot.h", f"{package}/entry.h")]
    # Explicitly, so that all members of the templates are compiled.
    lines += [f"template class tfaot::Shared<{spec.compilation.namespace}::{name}>;" for name in classes]
    include, version = root / "include", spec.model.version
    # As templates/package/include writes them.
    told = f"{package} {version}", f'"{version}"', f"compiled with {toolchain}"
    key = key_of(
        _CHECKED,
        code_digest(__name__),
        {
            "consumer": lines,
            "headers": {
                path.relative_to(include).as_posix(): _digest_without(path, told) for path in files_below(include)
            },
            "compiler": compiler.identity,
            "flags": list(compiler.all_flags),
        },
    )

    def make(folder: Path) -> None:
        source = folder / "consumer.cc"
        source.write_text("\n".join([*lines, ""]))
        compiler.check(source, flags=["-I", include], folder=folder)

    cache.get_or_make(_CHECKED, key, make)


def _digest_without(header: Path, words: Iterable[str]) -> str:
    """The digest of a header without `words`."""
    data = header.read_bytes()
    for each in words:
        data = data.replace(each.encode(), b"")
    return sha256_bytes(data)
