"""The programs `NAME_test` and `NAME_benchmark` of a package: linked with the static library, for all CPUs.

Like libraries, they need no C++ runtime, so that they run with the same versions of the C library.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import Key, key_of
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.targets import TARGETS, lowest
from tfaot_pkg.native.build import together
from tfaot_pkg.native.common import WARNINGS
from tfaot_pkg.native.cxx.compiler import ARCHIVES, ArchiveMember, Compiler, members_text, read_members
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.spec.types import ModelSpec

STAGE = "tools"
_TOOLS = ("test", "benchmark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs, and the members of the compiler's own library that each contains, by file name."""

    paths: tuple[Path, ...] = ()
    archives: Mapping[str, tuple[ArchiveMember, ...]] = field(default_factory=dict)


def tools_key(native: Key) -> Key:
    sources = resources.digest(resources.templates() / "tools")
    return key_of(STAGE, code_digest(__name__), {"native": native, "sources": sources})


def build_tools(
    spec: ModelSpec, library: NativeLibrary, *, key: Key, compiler: Compiler, cache: BuildCache, progress: Progress
) -> Programs:
    """The programs, from the cache if they are there; none if the spec does not ask for them.

    Raises CompilerError, StorageError.
    """
    names = program_names(spec)
    if not names:
        return Programs()
    with progress.step("tools", total=len(names), unit="programs") as step:
        if cache.has(STAGE, key):
            step.skip("cached")

        folder = cache.get_or_make(STAGE, key, lambda folder: link_programs(spec, library, compiler, folder))
    return Programs(
        paths=tuple(folder / name for name in names.values()), archives=read_members((folder / ARCHIVES).read_text())
    )


def program_names(spec: ModelSpec) -> dict[str, str]:
    """The programs' names by tool; none if the spec does not ask for them."""
    return {tool: f"{spec.model.name}_{tool}" for tool in _TOOLS} if spec.package.tools else {}


def link_programs(spec: ModelSpec, library: NativeLibrary, compiler: Compiler, folder: Path) -> None:
    """Make the programs in `folder`; their bytes depend on static library and compiler. Raises CompilerError."""
    _Build(spec=spec, library=library, compiler=compiler, folder=folder).make(program_names(spec))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """One build of the programs."""

    spec: ModelSpec
    library: NativeLibrary
    compiler: Compiler
    folder: Path

    def make(self, names: Mapping[str, str]) -> None:
        """Fill the folder with the programs `names`, by tool, and the list of the members that they contain."""
        work = self.folder / "work"
        work.mkdir()
        tools, native = resources.templates() / "tools", resources.templates() / "native"
        # A copy: renaming symbols would change the static library of the package.
        library = self._of_any_system(Path(shutil.copy(self.library.static, work)))
        sources = [tools / "start.cc", native / "runtime.cc"]
        common = [*together([partial(self._compile, work, source, []) for source in sources]), library]
        held = together([partial(self._program, work, tool, self.folder / names[tool], common) for tool in names])
        (self.folder / ARCHIVES).write_text(members_text(dict(zip(names.values(), held, strict=True))))
        shutil.rmtree(work)

    def _program(self, work: Path, tool: str, output: Path, common: Sequence[Path]) -> tuple[ArchiveMember, ...]:
        defines = [f"-DTFAOT_MODEL_SYMBOL={self.library.symbol}", f'-DTFAOT_PACKAGE="{self.library.name}"']
        code = self._compile(work, resources.templates() / "tools" / f"{tool}.cc", defines)
        return self.compiler.link_program([code, *common], output)

    def _compile(self, work: Path, source: Path, flags: Sequence[str]) -> Path:
        output = work / f"{source.stem}.o"
        architecture = TARGETS[self.spec.compilation.targets[0]].architecture
        templates = resources.templates()
        includes: list[str | Path] = ["-I", templates / "tools", "-I", templates / "native", "-I", resources.headers()]
        # Programs of packages make no system calls, as publishers and readers check: they do not ask for AMX.
        flags = ["-DTFAOT_NO_AMX", *flags]
        # For the lowest level: like any other program, it selects the library's code by the CPU.
        options = [*self.compiler.library_flags, *lowest(architecture).flags, *WARNINGS, *flags, *includes]
        self.compiler.compile(source, output, flags=options, folder=work)
        return self._of_any_system(output)

    def _of_any_system(self, code: Path) -> Path:
        """`code`, changed so that it needs only versions of the C library's functions that all systems have."""
        self.compiler.rename_symbols(code, self.compiler.first_versions)
        return code
