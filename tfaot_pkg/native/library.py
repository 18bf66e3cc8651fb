"""`NativeLibrary`: a static and a shared library behind the C ABI, what they may contain, and how they are linked.

Linking depends on its inputs only, so whoever has a package can build its files again and compare (nightly/recheck.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import CompilerError, ModelError
from tfaot_pkg.frontends.toolchain.definition import NO_CONTRACTION
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.keys import Key, sha256_bytes
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.targets import Target, lowest
from tfaot_pkg.native.cxx.compiler import ARCHIVES, ArchiveMember, Compiler, read_members
from tfaot_pkg.native.xla_runtime import LinkedPart
from tfaot_pkg.package.binary.elf import defined_symbols, opened, undefined_symbols
from tfaot_pkg.package.binary.findings import Rules, object_findings, shared_library_findings, static_library_findings
from tfaot_pkg.package.name import shared_library_name
from tfaot_pkg.spec.rules import model_version
from tfaot_pkg.spec.types import ModelSpec

PARTS = "parts.json"
_UID_DIGITS = 12
_WEIGHTS_SECTION = ".rodata.tfaot_weights"  # of weights.S.j2


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLibrary:
    """The static and the shared library in `folder`, which export `symbol` (and TFAOT_ENTRY_POINT).

    `objects`, if the spec asks for them, are the inputs of the libraries' link: one per batch size, and one of common
    code.
    """

    folder: Path
    key: Key
    name: str
    uid: str

    @property
    def symbol(self) -> str:
        """The entry function."""
        return f"{self.name.replace('-', '_')}_{self.uid}"

    @property
    def static(self) -> Path:
        return self.folder / f"lib{self.name}.a"

    @property
    def shared(self) -> Path:
        return self.folder / f"lib{self.name}.so"

    @property
    def objects(self) -> tuple[Path, ...]:
        return tuple(sorted(self.folder.glob("*.o")))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files for packages."""
        return (self.static, self.shared, *self.objects)

    @property
    def parts(self) -> tuple[LinkedPart, ...]:
        """The parts of XLA's runtime that were linked, by target and source."""
        return tuple(LinkedPart(**item) for item in json.loads((self.folder / PARTS).read_text()))

    @property
    def archives(self) -> dict[str, tuple[ArchiveMember, ...]]:
        """The members of the compiler's own library that the shared library contains, by its file name."""
        return read_members((self.folder / ARCHIVES).read_text())


def library_uid(spec: ModelSpec, code: Key) -> str:
    """The uid of the library, a part of its symbols, from its `code` (content.py): the C++ compiler does not matter."""
    return sha256_bytes(f"{spec.model.name} {model_version(spec.model.version)} {code}".encode())[:_UID_DIGITS]


def require_sound_libraries(library: NativeLibrary, architecture: str, *, profile: bool = False) -> None:
    """Raise ModelError if the model's own code needs a symbol that no library of a package may need.

    Raises CompilerError if the libraries contain anything else that a package may not contain.
    """
    rules = Rules(
        architecture=architecture,
        symbol=library.symbol,
        soname=shared_library_name(library.name, library.uid),
        writes_profiles=profile,
    )
    found: list[str] = []
    looks = [(library.static, static_library_findings), (library.shared, shared_library_findings)]
    for path, look in [*looks, *((path, object_findings) for path in library.objects)]:
        with opened(path) as data:
            found += [f"{path.name}: {finding}" for finding in look(data, rules)]
    # Our own sources need allowed symbols only, so any other one comes from the model's graph (a custom call).
    if any("needs the symbol" in finding for finding in found):
        raise ModelError(
            "the model's code breaks the rules for libraries:\n  " + "\n  ".join(found),
            hint="remove the operation that calls it, such as a custom call (XlaCustomCallV2), from the model",
        )
    if found:
        raise CompilerError(
            "the compiler made libraries that are not allowed in a package:\n  " + "\n  ".join(found),
            hint="set CXX to another compiler, or look at the flags that it adds by itself",
        )


def object_names(spec: ModelSpec) -> tuple[str, ...]:
    """The names of the objects that the libraries are linked from, in this order."""
    name = spec.model.name
    return (f"{name}_common.o", *(f"{name}_bs{size}.o" for size in spec.compilation.batch_sizes))


def baseline(architecture: str) -> tuple[str, ...]:
    """Flags of the lowest level of the architecture: this code runs before the CPU's level is known."""
    return lowest(architecture).flags


def includes(interface: str = "") -> list[str | Path]:
    """Flags that find our headers, and those that XLA's code with the `interface` of a toolchain includes."""
    native = resources.templates() / "native"
    # `interface` and `absl` have stand-ins for headers of TensorFlow and Abseil (docs/decisions/004).
    stand_ins: list[str | Path] = ["-I", native / interface, "-I", native / "absl"] if interface else []
    return ["-I", native, *stand_ins, "-I", resources.headers(), "-isystem", resources.kernels() / "include"]


def kernel_flags(target: Target) -> list[str | Path]:
    """Flags of a program, which calls the kernel library."""
    # NO_CONTRACTION: the source decides which operations are fused, so that all CPUs give the same bits (decision 039).
    kernels = resources.kernels()
    # Code of all targets goes into one library, so each has its own namespace of kernels (docs/decisions/024).
    namespace = f"-DTFAOT_KERNELS_TARGET={target.identifier}"
    return [NO_CONTRACTION, namespace, "-isystem", kernels / "include", "-isystem", kernels / "src"]


def loop_flags(*, is_gcc: bool) -> list[str]:
    """Flags for a program's loops over types without vector code in the kernel library (decision 069).

    At -O2 GCC does not vectorize loops that need a check at run time whether arrays overlap; Clang does. Square roots
    would be computed one by one, because they may set `errno`, which nothing reads.
    """
    vectors = ["-ftree-vectorize", "-fvect-cost-model=dynamic"] if is_gcc else []
    return [*vectors, "-fno-math-errno"]


def program_flags(target: Target, compiler: Compiler) -> list[str | Path]:
    """All flags for the code of a program, except those of every source."""
    loops = loop_flags(is_gcc=compiler.is_gcc)
    return [*compiler.library_flags, *target.flags, *kernel_flags(target), *loops, *includes()]


def rename(code: Path, names: Mapping[str, str], compiler: Compiler) -> None:
    """Rename those symbols of an object in place that are in `names`. Raises CompilerError."""
    # Without any, nothing is written: the object may hold all weights.
    known = defined_symbols(code) | undefined_symbols(code)
    if found := {old: new for old, new in names.items() if old in known}:
        compiler.rename_symbols(code, found)


def join(objects: Sequence[Path], whole: Path, *, symbol: str, compiler: Compiler, weights: Path | None = None) -> None:
    """Link `objects` into one, in which only the entry function is global.

    The file `weights` is put into the section for it, unless one of the objects has them. Raises CompilerError.
    """
    compiler.merge(objects, whole, keep=[symbol], contents=contents_of(weights))


def contents_of(weights: Path | None) -> dict[str, Path]:
    """The section of the file of weights, for `Compiler.merge`."""
    return {} if weights is None else {_WEIGHTS_SECTION: weights}


def link_shared(
    whole: Path, output: Path, *, symbol: str, soname: str, compiler: Compiler, work: Path
) -> tuple[ArchiveMember, ...]:
    """Link the shared library of the object `whole`, which is changed; returns its members of the compiler's library.

    `work` is for files. Raises CompilerError.
    """
    entry = work / "entry.cc"
    entry.write_text(render("native/entry.cc.j2", {"symbol": symbol}))
    exports = work / "exports.map"
    exports.write_text(render("native/exports.map.j2", {"symbol": symbol}))
    flags = [*compiler.library_flags, *baseline(compiler.architecture), *includes()]
    compiler.compile(entry, work / "entry.o", flags=flags, folder=work)
    # The oldest versions of the C library's functions, so that the shared library loads on older systems.
    rename(whole, compiler.first_versions, compiler)
    return compiler.link_shared([whole, work / "entry.o"], output, soname=soname, exports=exports)
