"""What is wrong with the compiled files of a package: what they need, do when they are loaded, and lay open.

Pure: bytes in, findings out. It checks everything that a linker or loader acts upon. What files may need and contain is
listed; everything else is rejected. `system`, `execve`, `dlopen`, `socket`, `fopen` and `getenv` are in none of the
lists for libraries: a model's graph can name any symbol (XLA's custom calls), and the lists keep such a name from
becoming a call. Machine code is not checked, so system calls that code makes by itself are not found: nothing is
guaranteed about a library whose machine code someone wrote (docs/decisions/033).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.package.binary.archive import MalformedArchive, is_archive, members_of
from tfaot_pkg.package.binary.elf import (
    MAGIC,
    Dynamic,
    Elf,
    FileKind,
    MalformedElf,
    SegmentKind,
    Symbol,
    dynamic_of,
    opened,
    read_elf,
    symbols_of,
)

_MEMORY = frozenset("calloc free malloc posix_memalign realloc aligned_alloc".split())
_STRINGS = frozenset(
    "bcmp memchr memcmp memcpy memmove memset strcmp strlen strncmp strchr snprintf __memcpy_chk __memmove_chk"
    " __memset_chk __snprintf_chk __stack_chk_fail".split()
)

_MATH = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax"
    " fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 logb lrint lround llrint llround modf nearbyint nextafter"
    " pow remainder rint round roundeven scalbn sin sincos sinh sqrt tan tanh tgamma trunc".split()
)
_MATH_OF_ALL_TYPES = frozenset(f"{name}{suffix}" for name in _MATH for suffix in ("", "f"))

_THREADS = frozenset(
    "pthread_mutex_lock pthread_mutex_unlock pthread_cond_broadcast pthread_cond_wait sched_yield __tls_get_addr"
    " __cxa_thread_atexit_impl __cxa_finalize abort".split()
)
_START_FILES = frozenset("_ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __gmon_start__".split())
"""What the compiler's start files ask for if it is there."""

SHARED_LIBRARY = _MEMORY | _STRINGS | _MATH_OF_ALL_TYPES | _THREADS | _START_FILES
"""What a shared library may need."""

CPP_RUNTIME = frozenset(
    # Memory, errors and locks of libstdc++ and libgcc's unwinder, which libraries carried a copy of.
    "_dl_find_object dl_iterate_phdr __libc_single_threaded __pthread_key_create pthread_key_create pthread_once"
    " pthread_getspecific pthread_setspecific fputc fputs fwrite sprintf stderr strncmp gettext dcgettext syscall"
    " __getauxval getauxval secure_getenv strtoul __isoc23_strtoul __sprintf_chk __fprintf_chk putc".split()
)
"""What may be needed as well by what carries a copy of GCC's C++ runtime (made before the headers 1.1)."""

CPP_SYMBOLS = frozenset(
    "_Unwind_Resume __gxx_personality_v0 __dso_handle __cxa_guard_acquire __cxa_guard_release"
    " __cxa_guard_abort __cxa_begin_catch __cxa_end_catch __cxa_rethrow __cxa_throw __cxa_allocate_exception"
    " __cxa_free_exception __cxa_thread_atexit __cxa_throw_bad_array_new_length __cxa_pure_virtual __cxa_atexit".split()
)
"""What an object of that time may need of the C++ runtime, names of C++'s standard library aside."""

_ARITHMETIC = frozenset(
    "__mulsc3 __muldc3 __divsc3 __divdc3 __multi3 __divti3 __modti3 __udivti3 __umodti3 __divmodti4 __udivmodti4"
    " __floattisf __floattidf __floatuntisf __floatuntidf __fixsfti __fixdfti __fixunssfti __fixunsdfti __powisf2"
    " __powidf2 __popcountdi2 __popcountti2 __clzti2 __ctzti2 __truncsfhf2 __truncdfhf2 __extendhfsf2 __extendhfdf2"
    " __truncsfbf2 __truncdfbf2".split()
)
"""Arithmetic of the compiler's own library (libgcc.a), which every linker adds."""

PROFILE = frozenset(
    "secure_getenv open open64 pread pread64 pwrite pwrite64 lseek lseek64 flock clock_gettime getpid pthread_self"
    " __pread_chk __pread64_chk".split()
)
"""What a library may need as well if it was built with `package: {profile: true}`. No package of a registry may."""

OBJECT = SHARED_LIBRARY | _ARITHMETIC | frozenset({"_GLOBAL_OFFSET_TABLE_"})
"""What an object or a static library may need."""

OPERATION = (
    _MATH_OF_ALL_TYPES
    | _ARITHMETIC
    | frozenset("bcmp memchr memcmp memcpy memmove memset _GLOBAL_OFFSET_TABLE_".split())
)
"""What an operation of a model's author may need: nothing that allocates, keeps or tells anything."""

PROGRAM = SHARED_LIBRARY | frozenset(
    "__libc_start_main clock_gettime fclose fopen fprintf fputc fputs fread fwrite fflush printf putc puts putchar"
    " perror readlink stderr stdout strtod strtol strtoll __isoc23_strtol __isoc23_strtoll __printf_chk __fprintf_chk"
    " strtoull fseek ftell feof ferror exit qsort strerror __errno_location".split()
)
"""What the programs in bin/ may need: they read files and print."""

NEEDED = frozenset("libc.so.6 libm.so.6 libpthread.so.0 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1".split())
"""The shared libraries that anything may need."""

LOADERS = frozenset("/lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1".split())
"""What may start a program."""


GLIBC_VERSION = re.compile(r"GLIBC_([0-9]+(?:\.[0-9]+)+)")


def glibc_floor(data: memoryview) -> str:
    """The oldest glibc that a shared library or program loads with, such as `2.14`; empty if it needs none.

    Raises MalformedElf.
    """
    return max((version for version, _ in _versions(data)), key=numbers, default="")


def above_floor(data: memoryview, limit: str) -> tuple[str, ...]:
    """The symbols that a shared library or program needs from a glibc newer than `limit`, as `exp@GLIBC_2.29`.

    Raises MalformedElf.
    """
    return tuple(sorted(name for version, name in _versions(data) if numbers(version) > numbers(limit)))


def glibc_floor_of(paths: Iterable[Path]) -> str:
    """The oldest glibc that all of `paths` load with; empty if none needs one. Raises MalformedElf, OSError."""
    floors = []
    for path in paths:
        with opened(path) as data:
            floors.append(glibc_floor(data))
    return max(floors, key=numbers, default="")


def numbers(version: str) -> tuple[int, ...]:
    """`2.28` as numbers, which compare as versions do; none for an empty one."""
    return tuple(map(int, version.split("."))) if version else ()


def _versions(data: memoryview) -> Iterator[tuple[str, str]]:
    dynamic = dynamic_of(read_elf(data))
    for symbol in dynamic.symbols if dynamic else ():
        if found := GLIBC_VERSION.fullmatch(symbol.version):
            yield found[1], f"{symbol.name}@{symbol.version}"


MACHINES = {"x86_64": 62, "aarch64": 183}
"""Architectures as ELF files name them (`e_machine`)."""

_EXECUTABLE, _WRITABLE = 1, 2
_INDIRECT_FUNCTION = 10  # STT_GNU_IFUNC: a function that the loader calls to find another one
_MAX_RUNTIME_INITIALIZERS = 4  # _init, frame_dummy, the C++ runtime's pool for exceptions, AArch64's look for atomics

# Dynamic entries that a library may have, by number: tables, sizes, flags; everything else is rejected.
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
    says that the package is of a time when shared libraries and programs held a copy of GCC's C++ runtime,
    `writes_profiles` that the library was built to write traces, for the builder's own use.
    """

    architecture: str
    symbol: str
    soname: str
    carries_runtime: bool = False
    writes_profiles: bool = False

    @property
    def more(self) -> frozenset[str]:
        """What a library may need beside what all may."""
        return PROFILE if self.writes_profiles else frozenset()


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
        elf = read_elf(data)
        # Nobody would look at them, and whoever knows of them could hide anything there.
        beyond = [f"there are {len(data) - elf.end:,} bytes after its end"] if len(data) > elf.end else []
        return tuple(dict.fromkeys([*beyond, *look(elf)]))
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
    # Without this header, loaders make the stack executable.
    if any(segment.flags & _EXECUTABLE for segment in stacks) or not stacks:
        yield "it makes the stack executable"
    for segment in elf.segments:
        both = segment.flags & _EXECUTABLE and segment.flags & _WRITABLE
        if both and segment.kind != SegmentKind.STACK:
            yield "it has memory that is both writable and executable"


def _needs(dynamic: Dynamic, names: frozenset[str]) -> Iterator[str]:
    # A needed version may name a library that no NEEDED entry does.
    for library in sorted({*dynamic.needed, *(library for library, _ in dynamic.versions)} - NEEDED):
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
    yield from _loaded(elf, dynamic, SHARED_LIBRARY | rules.more | (CPP_RUNTIME if rules.carries_runtime else set()))
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
    yield from _loaded(elf, dynamic, PROGRAM | (CPP_RUNTIME if rules.carries_runtime else set()))
    yield from _initializers(dynamic, _MAX_RUNTIME_INITIALIZERS if rules.carries_runtime else 0)
    for segment in elf.segments:
        if segment.kind == SegmentKind.INTERPRETER:
            end = segment.offset + segment.file_size
            loader = bytes(elf.data[segment.offset : end]).rstrip(b"\0").decode("utf-8", "backslashreplace")
            if loader not in LOADERS:
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
        if not (
            name in OBJECT
            or name in rules.more
            or _belongs(name, rules)
            or (rules.carries_runtime and _of_cpp_runtime(name))
        ):
            yield f"it needs the symbol {name}"
    for name in sorted({symbol.name for symbol in visible if not symbol.is_undefined}):
        if not _belongs(name, rules):
            yield f"it defines the symbol {name}"


def _of_cpp_runtime(name: str) -> bool:
    return name in CPP_SYMBOLS or _CPP_NAME.fullmatch(name) is not None


def _belongs(name: str, rules: Rules) -> bool:
    # Objects of one library call each other by names with this prefix (docs/decisions/019).
    return name == rules.symbol or name.startswith(f"{rules.symbol}_")


def _object_sections(elf: Elf) -> Iterator[str]:
    stack = [section for section in elf.sections if section.name == _STACK_NOTE]
    # One object without the note is enough for a linker to make the program's stack executable.
    if not stack or any(section.flags & 4 for section in stack):
        yield "it makes the stack executable"
    for section in elf.sections:
        if section.flags & 5 == 5:
            yield f"its section {section.name} is both writable and executable"
        if _RUNNING.fullmatch(section.name) or section.kind in (14, 15, 16):  # SHT_INIT_ARRAY to SHT_PREINIT_ARRAY
            yield f"its section {section.name} makes code run when it is loaded or unloaded"
        if _FOREIGN_SECTIONS.fullmatch(section.name):
            yield f"it has a section {section.name}"
