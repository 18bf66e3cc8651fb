"""What is wrong with the compiled files of a package: what they need, do when they are loaded, and lay open.

Pure: bytes in, findings out. It looks at everything that a linker or loader acts upon. It does not look at machine
code, so that it does not see system calls that code makes by itself: it keeps what a model's graph can name out of a
library, and says nothing about a library whose machine code someone wrote (docs/decisions/033).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tfaot_pkg.binary import allowed
from tfaot_pkg.binary.archive import MalformedArchive, is_archive, members_of
from tfaot_pkg.binary.elf import (
    MAGIC,
    Dynamic,
    Elf,
    FileKind,
    MalformedElf,
    SegmentKind,
    Symbol,
    dynamic_of,
    read_elf,
    symbols_of,
)
from tfaot_pkg.binary.floor import GLIBC_VERSION

MACHINES = {"x86_64": 62, "aarch64": 183}
"""Architectures as ELF files name them (`e_machine`)."""

_EXECUTABLE, _WRITABLE = 1, 2
_INDIRECT_FUNCTION = 10  # STT_GNU_IFUNC: a function that the loader calls to find another one
_UNIQUE = 10  # STB_GNU_UNIQUE: one for all libraries of a process
_MAX_RUNTIME_INITIALIZERS = 4  # _init, frame_dummy, the C++ runtime's pool for exceptions, AArch64's look for atomics

# Dynamic entries that may stand in a library, by number: tables, sizes, flags; all else is refused.
_TAGS = frozenset(
    {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 21, 23, 24, 25, 26, 27, 28, 30, 35, 36, 37}
    | {0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFF9, 0x6FFFFFFA, 0x6FFFFFFB, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF}
    | {0x70000001, 0x70000003, 0x70000005}  # AArch64: kinds of jump tables and calls
)
_NAMED_TAGS = {
    15: "RPATH", 16: "SYMBOLIC", 22: "TEXTREL", 29: "RUNPATH", 32: "PREINIT_ARRAY", 0x6FFFFEFC: "AUDIT",
    0x6FFFFEFB: "DEPAUDIT", 0x7FFFFFFD: "AUXILIARY", 0x7FFFFFFF: "FILTER",
}  # fmt: skip
_INDIRECT_RELOCATIONS = frozenset({37, 1032})  # R_X86_64_IRELATIVE, R_AARCH64_IRELATIVE
_COPY_RELOCATIONS = frozenset({5, 1024})  # R_X86_64_COPY, R_AARCH64_COPY

# Sections of objects by whose names a linker would make something run, or make memory executable.
_RUNNING = re.compile(r"\.(preinit_array|init_array|fini_array|ctors|dtors|init|fini)(\..*)?")
_FOREIGN_SECTIONS = re.compile(r"\.(interp|dynamic|gnu\.lto_.*|llvm\..*|gnu\.warning.*)|__patchable_function_entries")
_STACK_NOTE = ".note.GNU-stack"

_CPP_NAME = re.compile(
    r"_ZT[ISV]N?St\w+|_ZT[ISV]N10__cxxabiv1\w+|_Zn[wa]\w+|_Zd[la]\w+|_ZSt(7nothrow|9terminatev|[0-9]+__throw_\w+)"
    r"|_ZNK?St(7__cxx1112basic_string|9exception|9bad_alloc|13runtime_error|8__detail)\w+|_ZSt18_Rb_tree_\w+"
)
"""Names of C++'s memory management, errors, strings and containers: no files, threads or streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the binaries of one package may be.

    `architecture` is that of all of them ("x86_64"), empty for one that this version does not know. `symbol` is the
    entry function, with which all names that may be defined begin; `soname` the shared library's. `carries_runtime`
    says that the package is of a time when shared libraries and programs held a copy of GCC's C++ runtime.
    """

    architecture: str
    symbol: str
    soname: str
    carries_runtime: bool = False


def shared_library_findings(data: memoryview, rules: Rules) -> tuple[str, ...]:
    """What is wrong with a shared library."""
    return _findings(data, lambda elf: _shared_library(elf, rules))


def program_findings(data: memoryview, rules: Rules) -> tuple[str, ...]:
    """What is wrong with a program of a package's bin/."""
    return _findings(data, lambda elf: _program(elf, rules))


def object_findings(data: memoryview, rules: Rules) -> tuple[str, ...]:
    """What is wrong with an object."""
    return _findings(data, lambda elf: _object(elf, rules))


def static_library_findings(data: memoryview, rules: Rules) -> tuple[str, ...]:
    """What is wrong with a static library and the objects in it."""
    found: list[str] = []
    try:
        for name, content in members_of(data):
            found += [f"{name}: {finding}" for finding in object_findings(content, rules)]
    except MalformedArchive as error:
        found.append(f"it is not a static library that could be linked: {error}")
    return tuple(found)


def is_binary(data: memoryview) -> bool:
    """Whether a linker or loader could take `data` for code."""
    return bytes(data[:4]) == MAGIC or is_archive(data)


def _findings(data: memoryview, look: Callable[[Elf], Iterable[str]]) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(look(read_elf(data))))
    except MalformedElf as error:
        return (f"it is not an ELF file that could be used: {error}",)


def _machine(elf: Elf, rules: Rules) -> Iterator[str]:
    expected = MACHINES.get(rules.architecture)
    if elf.machine not in MACHINES.values() or expected not in (None, elf.machine):
        wanted = rules.architecture or " or ".join(MACHINES)
        yield f"it is made for another machine (ELF number {elf.machine}), not for {wanted}"


def _loaded(elf: Elf, dynamic: Dynamic, names: frozenset[str]) -> Iterator[str]:
    """What is wrong with anything that is loaded and may need `names`."""
    yield from _segments(elf)
    yield from _needs(dynamic, names)
    for tag, _ in dynamic.tags:
        if tag not in _TAGS:
            yield f"its dynamic section has {_NAMED_TAGS.get(tag, hex(tag))}"
    if dict(dynamic.tags).get(30, 0) & 4:  # DF_TEXTREL
        yield "its dynamic section has TEXTREL"
    if dynamic.relocations & _INDIRECT_RELOCATIONS or _indirect(dynamic.symbols):
        yield "it has functions that the loader calls to choose others (IFUNC)"


def _segments(elf: Elf) -> Iterator[str]:
    stacks = [segment for segment in elf.segments if segment.kind == SegmentKind.STACK]
    if any(segment.flags & _EXECUTABLE for segment in stacks) or not stacks:
        yield "it makes the stack executable"
    for segment in elf.segments:
        both = segment.flags & _EXECUTABLE and segment.flags & _WRITABLE
        if both and segment.kind != SegmentKind.STACK:
            yield "it has memory that is both writable and executable"


def _needs(dynamic: Dynamic, names: frozenset[str]) -> Iterator[str]:
    for library in sorted({*dynamic.needed, *(library for library, _ in dynamic.versions)} - allowed.NEEDED):
        yield f"it needs the library {library}"
    for symbol in sorted({symbol.name for symbol in dynamic.symbols if symbol.is_undefined and symbol.name} - names):
        yield f"it needs the symbol {symbol}"
    for version in sorted({version for _, version in dynamic.versions if not GLIBC_VERSION.fullmatch(version)}):
        yield f"it needs the version {version} of the system's libraries"


def _indirect(symbols: Iterable[Symbol]) -> bool:
    return any(symbol.kind == _INDIRECT_FUNCTION for symbol in symbols)


def _shared_library(elf: Elf, rules: Rules) -> Iterator[str]:
    yield from _machine(elf, rules)
    dynamic = dynamic_of(elf) if elf.kind == FileKind.SHARED else None
    if dynamic is None:
        yield "it is not a shared library"
        return
    yield from _loaded(elf, dynamic, allowed.SHARED_LIBRARY | (allowed.CPP_RUNTIME if rules.carries_runtime else set()))
    if any(segment.kind == SegmentKind.INTERPRETER for segment in elf.segments):
        yield "it names a program interpreter"
    if dynamic.relocations & _COPY_RELOCATIONS:
        yield "it takes data of other libraries over (COPY)"
    if dynamic.soname != rules.soname:
        yield f"its name for the loader (SONAME) is {dynamic.soname!r}, not {rules.soname!r}"
    for name in sorted({symbol.name for symbol in dynamic.symbols if symbol.is_exported}):
        if name not in (rules.symbol, "tfaot_model_entry"):
            yield f"it exports the symbol {name}"
    yield from _initializers(dynamic, _MAX_RUNTIME_INITIALIZERS if rules.carries_runtime else 0)


def _initializers(dynamic: Dynamic, limit: int) -> Iterator[str]:
    if dynamic.initializers > limit:
        yield f"it runs code when it is loaded (constructors: {dynamic.initializers}, allowed: {limit})"
    if dynamic.finalizers > limit:
        yield f"it runs code when it is unloaded (destructors: {dynamic.finalizers}, allowed: {limit})"


def _program(elf: Elf, rules: Rules) -> Iterator[str]:
    yield from _machine(elf, rules)
    dynamic = dynamic_of(elf)
    if elf.kind not in (FileKind.PROGRAM, FileKind.SHARED) or dynamic is None:
        yield "it is not a program that is linked with the C library"
        return
    yield from _loaded(elf, dynamic, allowed.PROGRAM | (allowed.CPP_RUNTIME if rules.carries_runtime else set()))
    yield from _initializers(dynamic, _MAX_RUNTIME_INITIALIZERS if rules.carries_runtime else 0)
    for segment in elf.segments:
        if segment.kind == SegmentKind.INTERPRETER:
            end = segment.offset + segment.file_size
            loader = bytes(elf.data[segment.offset : end]).rstrip(b"\0").decode("utf-8", "backslashreplace")
            if loader not in allowed.LOADERS:
                yield f"it is started by {loader}"


def _object(elf: Elf, rules: Rules) -> Iterator[str]:
    yield from _machine(elf, rules)
    if elf.kind != FileKind.OBJECT:
        yield "it is not an object"
        return
    yield from _object_sections(elf)
    symbols = symbols_of(elf)
    if _indirect(symbols):
        yield "it has functions that the loader calls to choose others (IFUNC)"
    visible = [symbol for symbol in symbols if symbol.name and not symbol.is_local]
    for name in sorted({symbol.name for symbol in visible if symbol.is_undefined}):
        if not (name in allowed.OBJECT or _belongs(name, rules) or (rules.carries_runtime and _of_cpp_runtime(name))):
            yield f"it needs the symbol {name}"
    for name in sorted({symbol.name for symbol in visible if not symbol.is_undefined}):
        if not _belongs(name, rules):
            yield f"it defines the symbol {name}"


def _of_cpp_runtime(name: str) -> bool:
    return name in allowed.CPP_SYMBOLS or _CPP_NAME.fullmatch(name) is not None


def _belongs(name: str, rules: Rules) -> bool:
    return name == rules.symbol or name.startswith(f"{rules.symbol}_")


def _object_sections(elf: Elf) -> Iterator[str]:
    stack = [section for section in elf.sections if section.name == _STACK_NOTE]
    if not stack or any(section.flags & 4 for section in stack):
        yield "it makes the stack executable"
    for section in elf.sections:
        if section.flags & 5 == 5:
            yield f"its section {section.name} is both writable and executable"
        if _RUNNING.fullmatch(section.name) or section.kind in (14, 15, 16):  # SHT_INIT_ARRAY to SHT_PREINIT_ARRAY
            yield f"its section {section.name} makes code run when it is loaded or unloaded"
        if _FOREIGN_SECTIONS.fullmatch(section.name):
            yield f"it has a section {section.name}"
