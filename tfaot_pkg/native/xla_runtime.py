"""Runtime parts: functions that compiled models call.

Compiled once per target and compiler, those with XLA's code also once per toolchain; and only if a model needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.toolchain.definition import RuntimePart
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import files_below, key_of, sha256_tree
from tfaot_pkg.ground.targets import Target
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.package.binary.elf import defined_symbols, undefined_symbols

STAGE = "part"
_FOREIGN = re.compile(r"__xla_cpu_runtime_\w+|_ZN3xla\w+|XlaCustomCall\w+|\w*DuccFft\w*")
"""Symbols that only a part of XLA's runtime can define."""
_EIGEN_NAMESPACE = "5Eigen"  # mangled


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedPart:
    """A part that was linked into a library for `target`.

    `source` is its file; `ours` says that it is this project's, not TensorFlow's; `eigen` that it contains code of
    Eigen.
    """

    target: str
    source: str
    ours: bool
    eigen: bool

    @classmethod
    def of(cls, part: RuntimePart, code: Path, target: Target) -> LinkedPart:
        eigen = any(_EIGEN_NAMESPACE in symbol for symbol in defined_symbols(code))
        ours = (resources.templates() / "native" / part.source).is_file()
        return cls(target=target.name, source=part.source, ours=ours, eigen=eigen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Compiles runtime parts of a toolchain and keeps them in `cache`."""

    environment: ToolchainEnvironment
    compiler: Compiler
    cache: BuildCache

    def objects_for(self, target: Target, objects: Iterable[Path]) -> dict[RuntimePart, Path]:
        """The parts that `objects` need, and the parts that those need, compiled for `target`.

        Raises ModelError if code needs a function of XLA that this toolchain has no source for.
        """
        chosen: dict[RuntimePart, Path] = {}
        defined: set[str] = set()
        waiting = list(objects)
        needed: set[str] = set()
        while waiting:
            for path in waiting:
                defined |= defined_symbols(path)
                needed |= undefined_symbols(path)
            # A part may need other parts, so each round looks at those that the last round added.
            wanted = {part for symbol in needed - defined if (part := self._part_of(symbol))} - set(chosen)
            waiting = []
            # The order of the objects is part of the libraries' bytes.
            for part in sorted(wanted, key=lambda part: part.source):
                chosen[part] = self.compiled(part, target)
                waiting.append(chosen[part])
        self._refuse_missing(needed - defined)
        return chosen

    def compiled(self, part: RuntimePart, target: Target) -> Path:
        """The object of `part` for `target`, from the cache if it is there."""
        key = key_of(
            STAGE,
            code_digest(__name__),
            {
                "source": part.source,
                "defines": list(part.defines),
                "sources": self._sources_digest(part),
                "kernels": resources.digest(resources.kernels()),
                "toolchain": "" if part.is_own else self.environment.identity,
                "target": list(target.flags),
                "compiler": self.compiler.identity,
                "flags": list(self.compiler.all_flags),
            },
        )
        return self.cache.get_or_make(STAGE, key, lambda folder: self._compile(part, target, folder)) / "part.o"

    def _part_of(self, symbol: str) -> RuntimePart | None:
        parts = self.environment.toolchain.parts
        return next((part for part in parts if re.fullmatch(part.symbols, symbol)), None)

    def _refuse_missing(self, symbols: Iterable[str]) -> None:
        missing = sorted(symbol for symbol in symbols if _FOREIGN.fullmatch(symbol))
        if missing:
            raise ModelError(
                f"the model needs functions of XLA's runtime that {self.environment.toolchain.title} "
                f"does not ship: {', '.join(missing)}",
                hint="try another toolchain (compilation.tensorflow), or move that operation out of the model",
            )

    def _compile(self, part: RuntimePart, target: Target, folder: Path) -> None:
        native = resources.templates() / "native"
        stand_ins = self._stand_ins(part)
        includes: list[str | Path] = ["-I", native, *[word for name in stand_ins for word in ("-I", native / name)]]
        kernels = resources.kernels()
        includes += ["-I", kernels / "include", "-I", kernels / "src", f"-DTFAOT_KERNELS_TARGET={target.identifier}"]
        # Only the parts of Eigen under the MPL 2.0; others are under the LGPL.
        eigen: list[str | Path] = [] if part.is_own else ["-DEIGEN_MPL2_ONLY", "-isystem", self.environment.include]
        # GCC's header for AVX-512 initializes some values with themselves; GCC warns about that after Eigen inlines it.
        quiet = ["-Wno-maybe-uninitialized", "-Wno-uninitialized"] if self.compiler.is_gcc else []
        flags = [
            *self.compiler.library_flags,
            *target.flags,
            "-Wall",
            "-Wextra",
            *quiet,
            *part.defines,
            *includes,
            *eigen,
        ]
        self.compiler.compile(native / part.source, folder / "part.o", flags=flags, folder=folder)

    def _stand_ins(self, part: RuntimePart) -> tuple[str, ...]:
        return () if part.is_own else (self.environment.toolchain.interface, "absl")

    def _sources_digest(self, part: RuntimePart) -> str:
        native, folders = resources.templates() / "native", ("runtime", *self._stand_ins(part))
        return sha256_tree(native, [path for name in folders for path in files_below(native / name)])
