"""The last steps of a library: from its objects to one object, and from that to the static and the shared library.

What they make depends on their inputs only, so whoever has a package can make its files again and compare
(nightly/relink.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.cxx.compiler import ArchiveMember, Compiler
from tfaot_pkg.package.render import render
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import lowest


def object_names(spec: ModelSpec) -> tuple[str, ...]:
    """Of the objects that the libraries are linked from, in that order."""
    name = spec.model.name
    return (f"{name}_common.o", *(f"{name}_bs{size}.o" for size in spec.compilation.batch_sizes))


def baseline(architecture: str) -> tuple[str, ...]:
    """Flags of the lowest level of the architecture: this code runs before the CPU has been looked at."""
    return lowest(architecture).flags


def includes(interface: str) -> list[str | Path]:
    """Flags that find our headers; `interface` is the toolchain's."""
    native = resources.templates() / "native"
    return ["-I", native, "-I", native / interface, "-I", native / "absl", "-I", resources.headers()]


def join(objects: Sequence[Path], whole: Path, *, symbol: str, compiler: Compiler) -> None:
    """One object of all, in which only the entry function is global. Raises CompilerError."""
    compiler.merge(objects, whole, keep=[symbol])


def link_shared(
    whole: Path, output: Path, *, symbol: str, soname: str, interface: str, compiler: Compiler, work: Path
) -> tuple[ArchiveMember, ...]:
    """The shared library of the object `whole`, which is changed; what is in it of the compiler's own library.

    `work` is for files. Raises CompilerError.
    """
    entry = work / "entry.cc"
    entry.write_text(render("native/entry.cc.j2", {"symbol": symbol}))
    exports = work / "exports.map"
    exports.write_text(render("native/exports.map.j2", {"symbol": symbol}))
    flags = [*compiler.library_flags, *baseline(compiler.architecture), *includes(interface)]
    compiler.compile(entry, work / "entry.o", flags=flags, folder=work)
    compiler.rename_symbols(whole, compiler.first_versions)
    return compiler.link_shared([whole, work / "entry.o"], output, soname=soname, exports=exports)
