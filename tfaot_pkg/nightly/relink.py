"""Whether all compiled files of a package have the code of its shared library, the one that is validated.

A package holds the same code several times: in the shared and in the static library, in objects, in programs. The
static library's object is what all of them are linked from, so they are linked again, and compared. What is linked
may be hostile, so compiler and linker run in a sandbox.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.binary.archive import MalformedArchive, members_of
from tfaot_pkg.binary.elf import read_elf, symbols_of
from tfaot_pkg.cxx.compiler import Compiler
from tfaot_pkg.errors import CompilerError
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.native.linking import join, link_shared, object_names
from tfaot_pkg.native.tools import link_programs, program_names
from tfaot_pkg.package.name import shared_library_name
from tfaot_pkg.pipeline import Plan
from tfaot_pkg.process import Finished
from tfaot_pkg.sandbox import Limits, Sandbox

_VARIABLES = {"LC_ALL": "C", "SOURCE_DATE_EPOCH": "0", "CCACHE_DISABLE": "1"}  # a cache would be outside
_SYSTEM = (Path("/usr"), Path("/bin"))
_GROUP = 17  # SHT_GROUP
_ONCE = ".gnu.linkonce."


class OtherCode(Exception):
    """Which file of a package is not what the others are linked from, and why."""


def require_one_code(library: NativeLibrary, programs: Sequence[Path], plan: Plan, work: Path) -> None:
    """Raise OtherCode if a file of `library` or of `programs` has other code than the shared library.

    `work` is an empty folder. Raises StorageError.
    """
    compiler = confined(plan.compiler, work)
    spec, again = plan.spec, replace(library, folder=work)
    whole = work / f"{library.name}.o"
    try:
        whole.write_bytes(_only_member(library.static.read_bytes(), whole.name, library.symbol))
        compiler.archive([whole], again.static)
        _require_same(library.static, again.static)
        _require_objects(library, object_names(spec) if spec.package.objects else (), whole, compiler)
        linked = shutil.copyfile(whole, work / "shared.o")
        link_shared(
            linked, again.shared,
            symbol=library.symbol, soname=shared_library_name(library.name, library.uid),
            interface=plan.toolchain.toolchain.interface, compiler=compiler, work=work,
        )  # fmt: skip
        _require_same(library.shared, again.shared)
        names = program_names(spec)
        _require_named("bin", programs, names.values())
        if names:
            made = work / "bin"
            made.mkdir()
            link_programs(spec, again, compiler, made)
            for program in programs:
                _require_same(program, made / program.name)
    except CompilerError as error:
        raise OtherCode(f"its compiled files cannot be linked again: {error.message}") from error


def confined(compiler: Compiler, work: Path) -> Compiler:
    """`compiler`, whose programs run in a sandbox: they read the system's and our files, and write below `work`."""
    programs = [found for name in (*compiler.command[:1], *compiler.tools.values()) if (found := shutil.which(name))]
    prefixes = {Path(program).resolve().parents[1] for program in programs}
    own = (resources.templates(), resources.headers(), resources.kernels())
    box = Sandbox(
        readable=(*_SYSTEM, *sorted(prefixes), *own), writable=(work,), limits=Limits.of_user(), starts_programs=True
    )

    def run(argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], timeout: float, log: Path) -> Finished:
        here = replace(box, writable=(cwd,), limits=replace(box.limits, timeout=timeout))
        return here.native(argv, env={"PATH": env.get("PATH", os.defpath), **_VARIABLES}).run(log=log)

    return replace(compiler, runner=run)


def _only_member(data: bytes, name: str, symbol: str) -> bytes:
    try:
        members = list(members_of(memoryview(data)))
    except MalformedArchive as error:
        raise OtherCode(f"its static library is damaged: {error}") from error
    if [one for one, _ in members] != [name]:
        raise OtherCode(f"its static library does not hold one object, {name}")
    (_, content) = members[0]
    if _globals(content, name) != [symbol]:
        raise OtherCode(f"{name} does not define {symbol} alone")
    return bytes(content)


def _require_objects(library: NativeLibrary, names: Sequence[str], whole: Path, compiler: Compiler) -> None:
    _require_named("lib", library.objects, names)
    if not names:
        return
    copies, defined = [], set[str]()
    for name in names:
        symbols = _globals(memoryview((library.folder / name).read_bytes()), name)
        if twice := defined.intersection(symbols):
            raise OtherCode(f"its objects define {min(twice)} more than once")
        defined.update(symbols)
        copies.append(shutil.copyfile(library.folder / name, whole.parent / name))
    joined = whole.with_suffix(".joined.o")
    join(copies, joined, symbol=library.symbol, compiler=compiler)
    if joined.read_bytes() != whole.read_bytes():
        raise OtherCode("its objects have other code than its static library")


def _globals(data: memoryview, name: str) -> list[str]:
    """The symbols that an object defines for others.

    What objects are linked to must not depend on their order, as it does where a linker takes the first of several.
    """
    elf = read_elf(data)
    for section in elf.sections:
        if section.kind == _GROUP or section.name.startswith(_ONCE):
            raise OtherCode(f"{name} has sections that linkers take from one object only")
    return [symbol.name for symbol in symbols_of(elf) if not symbol.is_local and not symbol.is_undefined]


def _require_named(folder: str, files: Sequence[Path], names: Iterable[str]) -> None:
    found, wanted = {path.name for path in files}, set(names)
    for name in sorted(found ^ wanted):
        raise OtherCode(f"{folder}/{name} {'should not be there' if name in found else 'is missing'}")


def _require_same(given: Path, made: Path) -> None:
    if given.read_bytes() != made.read_bytes():
        raise OtherCode(f"{given.name} is not what the package's own objects are linked to")
