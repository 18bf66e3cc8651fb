"""Compile and check operations that the author of a model supplies: C++ that may be hostile (docs/decisions/053).

Its text was checked as it was written (compiled/authored.py). Here it is preprocessed and compiled in a sandbox: the
preprocessed text is checked, and exactly that is compiled. The object may call mathematical and memory functions only,
has no variables, and no data where code is.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tfaot_pkg.errors import CompilerError, ModelError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.sandbox import Limits
from tfaot_pkg.ground.targets import Target
from tfaot_pkg.native.compiled.authored import HINT, MOST_TEXT, names_of_headers, require_computes, words_of
from tfaot_pkg.native.compiled.operations import OperationCode
from tfaot_pkg.native.cxx.compiler import Compiler, confined
from tfaot_pkg.package.binary.elf import Elf, opened, read_elf, symbols_of
from tfaot_pkg.package.binary.findings import OPERATION, Rules, object_findings

FLAGS = (
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fno-lto",
    "-Wall",
    "-Wextra",
    "-Werror=vla",
)
"""Flags of the author's code, so that no compiler changes its arithmetic, nor takes a stack of any size."""

_STACK = 256 << 10  # bytes of a function: callers' threads have 128 KiB (musl) to 8 MiB in all

# Hostile templates and macros can keep a compiler busy without end (decision 053).
_SECONDS, _MEMORY, _DISK = 120.0, 4 << 30, 1 << 30
_MOST_PREPROCESSED = 64 << 20  # bytes, with all headers
_UNKNOWN = "tfaot_unknown"  # the type of names that an operation does not declare (templates/native/operation.cc.j2)
# A line marker of the preprocessor: # NUMBER "FILE" FLAGS.
_LINE = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)"')
_SECTIONS = re.compile(
    r"(\.(text|rodata|data\.rel\.ro|eh_frame|note\.GNU-stack|note\.gnu\.property|comment|group|symtab|strtab|shstrtab"
    r"|llvm_addrsig|data|bss|tdata|tbss|init_array|fini_array)|\.rela\.[\w.$]+)(\.[\w.$]*)?|"
)
"""What compilers make of code without attributes; variables and constructors have findings of their own."""
_TEXT = re.compile(r"\.text(\..*)?")
_DATA = 1  # STT_OBJECT
_EXECUTABLE = 4  # SHF_EXECINSTR


def compile_operation(code: OperationCode, target: Target, compiler: Compiler, folder: Path) -> Path:
    """The object of an operation for `target`, in the new folder `folder`; only its calls are global.

    Raises ModelError for code that may not be in a package, CompilerError.
    """
    folder.mkdir()
    box = confined(compiler, limits=Limits.of_user().within(Limits(timeout=_SECONDS, memory=_MEMORY, disk=_DISK)))
    for path in (code.source, code.wrapper, resources.templates() / "native" / "float_control.h"):
        shutil.copyfile(path, folder / path.name)
    checked, unlinked, linked = (folder / f"operation_{code.name}{end}" for end in (".ii", ".unlinked.o", ".o"))
    flags: list[str | Path] = [
        *compiler.library_flags,
        *target.flags,
        *FLAGS,
        *_frame_flags(compiler),
        "-I",
        resources.headers(),
    ]
    try:
        box.preprocess(folder / code.wrapper.name, checked, flags=flags, folder=folder)
        own, headers = _parts(code, checked)
        require_computes(code.name, own, words_of(code.name, code.source.read_text("utf-8")), names_of_headers(headers))
        box.compile(checked, unlinked, flags=flags, folder=folder)
    except CompilerError as error:
        raise ModelError(
            f"the operation {code.name} does not compile:\n{_told(str(error.message))}", hint=HINT
        ) from error
    # All its other names become local: two operations may use the same ones.
    box.merge([unlinked], linked, keep=[each.target for each in code.calls])
    _require_pure(code, unlinked, linked, compiler)
    return linked


def _frame_flags(compiler: Compiler) -> tuple[str, ...]:
    # GCC takes the limit from the second one, Clang does not know it there.
    limit = f"frame-larger-than={_STACK}"
    return (f"-Werror={limit}",) if compiler.is_gcc else (f"-W{limit}", "-Werror=frame-larger-than=")


def _told(message: str) -> str:
    """The compiler's output, indented."""
    lines = message.partition("\n")[2].splitlines() or [message]
    if _UNKNOWN in message:
        lines.append(
            f"what is called {_UNKNOWN} here is a name that an operation may not use, or uses before it declares it"
        )
    return "\n".join(f"  {line}" for line in lines)


def _parts(code: OperationCode, preprocessed: Path) -> tuple[str, str]:
    """What the file `preprocessed` has of the author's file, line for line, and of headers.

    Raises ModelError if it is too much.
    """
    if preprocessed.stat().st_size > _MOST_PREPROCESSED:
        raise ModelError(f"{code.name}.cpp: its macros make too much text", hint=HINT)
    lines: dict[int, str] = {}
    headers: list[str] = []
    current, number = "", 0
    for line in preprocessed.read_text(errors="replace").split("\n"):
        if found := _LINE.match(line):
            current, number = found[2].removeprefix("./"), int(found[1])
        elif current == code.source.name:
            # Several pieces of one line, if a macro of a header is in it.
            lines[number] = f"{lines.get(number, '')} {line}"
            number += 1
        elif current != code.wrapper.name and not line.startswith("#"):
            headers.append(line)
    own = "".join(f"{lines.get(number, '')}\n" for number in range(1, max(lines, default=0) + 1))
    if len(own) > 8 * MOST_TEXT:
        raise ModelError(f"{code.name}.cpp: its macros make too much text", hint=HINT)
    return own, "\n".join(headers)


def _require_pure(code: OperationCode, unlinked: Path, linked: Path, compiler: Compiler) -> None:
    """Raise ModelError if the object needs a symbol, or keeps variables, that no operation may have."""
    names = {each.target for each in code.calls}
    rules = Rules(architecture=compiler.architecture, symbol="tfaot_operation", soname="")
    with opened(linked) as data:
        found = list(object_findings(data, rules))
        elf = read_elf(data)
        needed = {symbol.name for symbol in symbols_of(elf) if symbol.is_undefined and symbol.name}
        found += [f"it needs the symbol {name}" for name in sorted(needed - OPERATION)]
        found += [
            f"it keeps variables between calls (.{section.name.split('.')[1]})"
            for section in elf.sections
            if section.name.startswith((".data", ".bss", ".tdata", ".tbss"))
            # Constants that contain addresses, which the loader fills in once, are not variables.
            and not section.name.startswith(".data.rel.ro")
            and section.size
        ]
        defined = {symbol.name for symbol in symbols_of(elf) if not symbol.is_local and not symbol.is_undefined}
    with opened(unlinked) as data:  # in `linked`, local symbols have no names any more
        found += _misplaced(read_elf(data))
    found += [f"it does not define {name}" for name in sorted(names - defined)]
    if found:
        listed = "\n  ".join(dict.fromkeys(found))
        raise ModelError(f"the operation {code.name} breaks the rules for operations:\n  {listed}", hint=HINT)


def _misplaced(elf: Elf) -> Iterator[str]:
    """What is in sections where compilers put nothing of its kind."""
    for section in elf.sections:
        if not _SECTIONS.fullmatch(section.name):
            yield f"it has the section {section.name}"
        elif bool(section.flags & _EXECUTABLE) != bool(_TEXT.fullmatch(section.name)):
            yield f"its section {section.name} holds code, or is one for code and holds none"
    for symbol in symbols_of(elf):
        if symbol.kind == _DATA and symbol.section < len(elf.sections):
            if _TEXT.fullmatch(elf.sections[symbol.section].name):
                yield f"it has data among its code: {symbol.name}"
