"""Compile and check operations that the author of a model supplies: C++ that may be hostile (docs/decisions/053).

The file is first preprocessed, in a sandbox. Then its includes and the words of the author's own lines are checked, and
exactly the checked text is compiled. The object may call mathematical and memory functions only, and has no variables.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from tfaot_pkg import resources
from tfaot_pkg.binary.elf import opened, read_elf, symbols_of
from tfaot_pkg.binary.findings import OPERATION, Rules, object_findings
from tfaot_pkg.compiled.operations import OperationCode
from tfaot_pkg.cxx.compiler import Compiler, confined
from tfaot_pkg.errors import CompilerError, ModelError
from tfaot_pkg.sandbox import Limits
from tfaot_pkg.targets import Target

FLAGS = ("-ffp-contract=off", "-fno-fast-math", "-fno-lto", "-Wall", "-Wextra")
"""Flags of the author's code, so that no compiler changes its arithmetic."""

# Hostile templates and macros can keep a compiler busy without end (decision 053).
_SECONDS, _MEMORY, _DISK = 120.0, 4 << 30, 1 << 30
# A line marker of the preprocessor: # NUMBER "FILE" FLAGS.
_LINE = re.compile(r'^# \d+ "((?:[^"\\]|\\.)*)"')
_WORD = re.compile(r"[A-Za-z_]\w*")
_FORBIDDEN = {
    "asm": "machine code in it cannot be checked",
    "__asm": "machine code in it cannot be checked",
    "__asm__": "machine code in it cannot be checked",
    "thread_local": "an operation keeps nothing between calls",
    "__thread": "an operation keeps nothing between calls",
}
_SPLICE = re.compile(r"\\[ \t\v\f]*\r?\n")
_HASH = r"(#|%:)(\s|/\*.*?\*/)*"
# Preprocessed text does not show these, so the source is searched for them.
_UNTOLD = (
    (re.compile(r"\?\?[=/]"), "trigraphs are not allowed in an operation"),
    (re.compile(r"\b(__has_)?embed\b"), "the word embed is not allowed in an operation: it makes code of files"),
    (
        re.compile(rf'{_HASH}(line\b|\d+\s*")', re.DOTALL),
        "#line is not allowed in an operation: its line numbers are needed by checks",
    ),
)
_PRAGMA = re.compile(r"^\s*#\s*pragma\b")
_HINT = "tfaot/operation.h says what an operation may do"


def compile_operation(code: OperationCode, target: Target, compiler: Compiler, folder: Path) -> Path:
    """The object of an operation for `target`, in the new folder `folder`; only its calls are global.

    Raises ModelError for code that may not be in a package, CompilerError.
    """
    folder.mkdir()
    box = confined(compiler, limits=Limits(timeout=_SECONDS, memory=_MEMORY, disk=_DISK))
    for path in (code.source, code.wrapper):
        shutil.copyfile(path, folder / path.name)
    _require_plain(code)
    checked, unlinked, linked = (folder / f"operation_{code.name}{end}" for end in (".ii", ".unlinked.o", ".o"))
    flags: list[str | Path] = [*compiler.library_flags, *target.flags, *FLAGS, "-I", resources.headers()]
    try:
        box.preprocess(folder / code.wrapper.name, checked, flags=flags, folder=folder)
        _require_own_words(
            code, checked.read_text(errors="replace"), (*box.include_folders(), resources.headers().resolve())
        )
        box.compile(checked, unlinked, flags=flags, folder=folder)
    except CompilerError as error:
        raise ModelError(
            f"the operation {code.name} does not compile:\n{_told(str(error.message))}", hint=_HINT
        ) from error
    # All its other names become local: two operations may use the same ones.
    box.merge([unlinked], linked, keep=[each.target for each in code.calls])
    _require_pure(code, linked, compiler)
    return linked


def _told(message: str) -> str:
    """The compiler's output, indented."""
    lines = message.partition("\n")[2].splitlines() or [message]
    return "\n".join(f"  {line}" for line in lines)


def _require_plain(code: OperationCode) -> None:
    """Raise ModelError for constructs that would hide in the preprocessed text which file a line is from."""
    # Continued lines are joined first, as a compiler does: a backslash could split any word that is searched for.
    text = _SPLICE.sub("", code.source.read_text(errors="replace"))
    for found, why in _UNTOLD:
        if found.search(text):
            raise ModelError(f"{code.name}.cpp: {why}", hint=_HINT)


def _require_own_words(code: OperationCode, text: str, folders: Sequence[Path]) -> None:
    """Raise ModelError if the preprocessed `text` has lines of files that no operation may include, or bad words."""
    headers: set[str] = set()  # every line of a header names it, but its symbolic links are resolved once
    for file, number, line in _lines(text):
        if file in headers:
            continue
        if PurePath(file).name not in (code.source.name, code.wrapper.name) or "/" in file.removeprefix("./"):
            if not _is_header(file, folders):
                raise ModelError(
                    f"{code.name}.cpp includes {file}: an operation may include headers of C++ and tfaot/operation.h",
                    hint="put the code that it needs into its own file",
                )
            headers.add(file)
            continue
        where = f"{file.removeprefix('./')}, line {number}"
        if _PRAGMA.match(line):
            raise ModelError(
                f"{where}: #pragma is not allowed in an operation: it may change its arithmetic", hint=_HINT
            )
        for word in _WORD.findall(line):
            if word in _FORBIDDEN:
                raise ModelError(f"{where}: {word} is not allowed in an operation: {_FORBIDDEN[word]}", hint=_HINT)


def _lines(text: str) -> Iterator[tuple[str, int, str]]:
    """(file, number, text) of the lines of preprocessed text, also of files without lines of their own."""
    file, number = "", 0
    for line in text.splitlines():
        if found := _LINE.match(line):
            file, number = found[1], int(line.split()[1])
            yield file, number, ""
        else:
            yield file, number, line
            number += 1


def _is_header(file: str, folders: Sequence[Path]) -> bool:
    if file.startswith("<") and file.endswith(">"):  # <built-in>, <command-line>
        return True
    path = Path(file)
    return path.is_absolute() and any(path.resolve().is_relative_to(folder) for folder in folders)


def _require_pure(code: OperationCode, linked: Path, compiler: Compiler) -> None:
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
    found += [f"it does not define {name}" for name in sorted(names - defined)]
    if found:
        listed = "\n  ".join(dict.fromkeys(found))
        raise ModelError(f"the operation {code.name} breaks the rules for operations:\n  {listed}", hint=_HINT)
