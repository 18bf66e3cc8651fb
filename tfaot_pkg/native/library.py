"""`NativeLibrary`: glue generated and compiled, runtime parts added, everything linked behind the C ABI."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tfaot_pkg import resources
from tfaot_pkg.batching.costs import batch_costs
from tfaot_pkg.binary.elf import opened
from tfaot_pkg.binary.findings import (
    Rules,
    object_findings,
    shared_library_findings,
    static_library_findings,
)
from tfaot_pkg.cache import BuildCache
from tfaot_pkg.code import code_digest
from tfaot_pkg.compiled.model import CompiledModel, CompiledUnit, weight_offsets
from tfaot_pkg.cxx.compiler import ARCHIVES, ArchiveMember, Compiler, members_text, read_members
from tfaot_pkg.cxx.elf import defined_symbols, undefined_symbols
from tfaot_pkg.errors import CompilerError, ModelError
from tfaot_pkg.frozen.model import FrozenModel, weight_size
from tfaot_pkg.kernels.calls import Call, plan_of
from tfaot_pkg.keys import Key, key_of, sha256_bytes
from tfaot_pkg.native.linking import baseline, includes, join, link_shared, object_names
from tfaot_pkg.native.xla_runtime import LinkedPart, Parts
from tfaot_pkg.package.name import shared_library_name
from tfaot_pkg.package.render import render
from tfaot_pkg.process import kill_running
from tfaot_pkg.progress import Progress, Step
from tfaot_pkg.spec.tuning import costs_document
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import TARGETS, Target
from tfaot_pkg.toolchain.environment import ToolchainEnvironment

STAGE = "native"
_PARTS = "parts.json"
_UID_DIGITS = 12
_WARNINGS = ("-Wall", "-Wextra", "-Werror")
_KILL_INTERVAL = 0.02  # seconds
_COMMON_STEPS = 11  # six sources, the common object, the whole, archive, entry, shared
_TABLE = "units.cc"
_ALLOCATION = {"malloc": "tfaot_allocate", "free": "tfaot_release"}  # of the C library, and ours (runtime.cc)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeLibrary:
    """The static and the shared library in `folder`, which export `symbol` (and TFAOT_ENTRY_POINT).

    `objects`, where the spec asks for them, are what the libraries are linked from: one per batch size, and what these
    have in common.
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
        """All that is for packages."""
        return (self.static, self.shared, *self.objects)

    @property
    def parts(self) -> tuple[LinkedPart, ...]:
        """The parts of XLA's runtime that were linked, by target and source."""
        return tuple(LinkedPart(**item) for item in json.loads((self.folder / _PARTS).read_text()))

    @property
    def archives(self) -> dict[str, tuple[ArchiveMember, ...]]:
        """What the shared library holds of the compiler's own library, by its file name."""
        return read_members((self.folder / ARCHIVES).read_text())


def native_key(spec: ModelSpec, compiled: Key, compiler: Compiler) -> Key:
    return key_of(
        STAGE,
        code_digest(__name__),
        {
            "compiled": compiled,
            "name": spec.model.name,
            "version": spec.model.version,
            "objects": spec.package.objects,
            "batch_costs": costs_document(spec.tuning),
            "compiler": compiler.identity,
            "flags": list(compiler.all_flags),
            "templates": resources.digest(resources.templates() / "native"),
            "c_api": resources.digest(resources.headers() / "tfaot" / "c_api.h"),
        },
    )


def library_uid(spec: ModelSpec, compiled: Key) -> str:
    """The uid of the library. It is in the symbols: it names the content, and does not change with the compiler."""
    return sha256_bytes(f"{spec.model.name} {spec.model.version} {compiled}".encode())[:_UID_DIGITS]


def build_native(
    spec: ModelSpec,
    frozen: FrozenModel,
    compiled: CompiledModel,
    *,
    key: Key,
    environment: ToolchainEnvironment,
    compiler: Compiler,
    cache: BuildCache,
    progress: Progress,
    parts_cache: BuildCache | None = None,
) -> NativeLibrary:
    """The libraries of `compiled`, from the cache where they are there. `parts_cache` has the parts of XLA's runtime,
    where that is another one.

    Raises CompilerError, ModelError, StorageError.
    """
    uid = library_uid(spec, compiled.key)
    targets, sizes = len(spec.compilation.targets), len(spec.compilation.batch_sizes)
    total = _COMMON_STEPS + targets + sizes + 2 * targets * sizes + sum(bool(unit.calls) for unit in compiled.units)
    with progress.step("link", total=total, unit="files") as step:
        if cache.has(STAGE, key):
            step.skip("cached")
        build = _Build(
            spec=spec, frozen=frozen, compiled=compiled, environment=environment, compiler=compiler,
            parts=Parts(environment=environment, compiler=compiler, cache=parts_cache or cache), uid=uid, step=step,
        )  # fmt: skip
        folder = cache.get_or_make(STAGE, key, build.make)
    return NativeLibrary(folder=folder, key=key, name=spec.model.package_name, uid=uid)


def require_sound_libraries(library: NativeLibrary, architecture: str) -> None:
    """Raise ModelError if code that a model brought along needs what no library of a package may need.

    Raises CompilerError if the compiler made something else that a package may not hold.
    """
    rules = Rules(
        architecture=architecture,
        symbol=library.symbol,
        soname=shared_library_name(library.name, library.uid),
    )
    found: list[str] = []
    looks = [(library.static, static_library_findings), (library.shared, shared_library_findings)]
    for path, look in [*looks, *((path, object_findings) for path in library.objects)]:
        with opened(path) as data:
            found += [f"{path.name}: {finding}" for finding in look(data, rules)]
    if any("needs the symbol" in finding for finding in found):
        raise ModelError(
            "the model's code needs what no library may need:\n  " + "\n  ".join(found),
            hint="remove the operation that calls it, such as a custom call (XlaCustomCallV2), from the model",
        )
    if found:
        raise CompilerError(
            "the compiler made libraries that no package may hold:\n  " + "\n  ".join(found),
            hint="set CXX to another compiler, or look at the flags that it adds by itself",
        )


def _name(unit: CompiledUnit) -> str:
    return f"{unit.prefix}_{unit.target.identifier}"


def _runtime_names(library: str, runtime: Path) -> dict[str, str]:
    """New names for what runtime.cc defines: code of this library uses it, and nobody else's code does."""
    return {name: f"{library}_runtime_{name}" for name in sorted(defined_symbols(runtime))}


def _unit_symbol(library: str, unit: CompiledUnit) -> str:
    """The function that gives one unit of the library whose entry function is `library`."""
    return f"{library}_b{unit.batch_size}_{unit.target.identifier}"


def together(tasks: Sequence[Callable[[], _T]]) -> list[_T]:
    """What `tasks` give, as many at once as there are cores. Interrupted, it ends the programs that they run."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as executor:
        futures: list[Future[_T]] = []
        try:
            futures.extend(executor.submit(task) for task in tasks)
            return [future.result() for future in futures]
        except Exception:
            executor.shutdown(cancel_futures=True)
            raise
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            # To `wait`, a future that was cancelled before it began is never done.
            begun = [future for future in futures if not future.cancelled()]
            while wait(begun, timeout=_KILL_INTERVAL).not_done:  # a task may be between two of its programs
                kill_running()
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """One build of the libraries."""

    spec: ModelSpec
    frozen: FrozenModel
    compiled: CompiledModel
    environment: ToolchainEnvironment
    compiler: Compiler
    parts: Parts
    uid: str
    step: Step

    def make(self, folder: Path) -> None:
        """Fill `folder` with the two libraries, the objects that are asked for and the list of parts; nothing else."""
        library = NativeLibrary(folder=folder, key=self.compiled.key, name=self.spec.model.package_name, uid=self.uid)
        work = folder / "work"
        work.mkdir()
        symbol = library.symbol
        sources = [partial(self._source, work, name) for name in ("cpu.cc", "library.cc", "runtime.cc")]
        sources += [partial(make, work, symbol) for make in (self._model, self._table)]
        sources.append(partial(self._weights, work))
        glue = [partial(self._glue, work, symbol, unit) for unit in self.compiled.units]
        glue += [partial(self._calls, work, unit) for unit in self.compiled.units if unit.calls]
        objects = together([*glue, *sources])[len(glue) :]
        runtime = _runtime_names(symbol, work / "runtime.o")
        for path in objects:
            self.compiler.rename_symbols(path, runtime)
        targets = together([partial(self._target, work, symbol, target, runtime) for target in self._targets])
        parts = [path for target in targets for path in target]
        linked = self._objects(work, symbol, [*objects, *parts])
        if self.spec.package.objects:
            linked = [path.rename(folder / path.name) for path in linked]
        whole = work / f"{library.name}.o"
        join(linked, whole, symbol=symbol, compiler=self.compiler)
        self.step.advance(note=whole.name)
        self.compiler.archive([whole], library.static)
        self.step.advance(note=library.static.name)
        held = link_shared(
            whole, library.shared,
            symbol=symbol, soname=shared_library_name(library.name, library.uid),
            interface=self.environment.toolchain.interface, compiler=self.compiler, work=work,
        )  # fmt: skip
        (folder / ARCHIVES).write_text(members_text({library.shared.name: held}))
        self.step.advance(2, note=library.shared.name)  # its entry, and itself
        require_sound_libraries(library, self._targets[0].architecture)
        listed = [item for path in sorted(work.glob(f"*.{_PARTS}")) for item in json.loads(path.read_text())]
        (folder / _PARTS).write_text(json.dumps(listed, indent=1))
        shutil.rmtree(work)

    @property
    def _targets(self) -> tuple[Target, ...]:
        return tuple(TARGETS[name] for name in self.spec.compilation.targets)

    def _baseline(self) -> tuple[str, ...]:
        return baseline(self._targets[0].architecture)

    def _compile(self, work: Path, source: Path, flags: Sequence[str | Path]) -> Path:
        output = work / f"{source.stem}.o"
        flags = [*self.compiler.library_flags, *flags, *includes(self.environment.toolchain.interface)]
        self.compiler.compile(source, output, flags=flags, folder=work)
        self.step.advance(note=source.name)
        return output

    def _source(self, work: Path, name: str) -> Path:
        return self._compile(work, resources.templates() / "native" / name, [*self._baseline(), *_WARNINGS])

    def _rendered(self, work: Path, template: str, output: str, context: dict[str, object]) -> Path:
        path = work / output
        path.write_text(render(f"native/{template}", context))
        return path

    def _model(self, work: Path, symbol: str) -> Path:
        context: dict[str, object] = {
            "model": self.spec.model,
            "uid": self.uid,
            "symbol": symbol,
            "toolchain": f"tensorflow {self.environment.toolchain.version}",
            "alignment": self.environment.toolchain.alignment,
            "signature": self.frozen.signature,
            "rows": self.frozen.rows,
            "batch_sizes": self.spec.compilation.batch_sizes,
            "targets": self._targets,
            "batch_costs": [
                batch_costs(
                    self.spec.compilation.batch_sizes,
                    target,
                    work=self.frozen.work,
                    signature=self.frozen.signature,
                    tuning=self.spec.tuning,
                )
                for target in self._targets
            ],
            "weight_offsets": weight_offsets(self.compiled.weights),
        }
        source = self._rendered(work, "model.cc.j2", "model.cc", context)
        return self._compile(work, source, [*self._baseline(), *_WARNINGS])

    def _weights(self, work: Path) -> Path:
        with (work / "weights.bin").open("wb") as blob:
            for weight, offset in zip(self.compiled.weights, weight_offsets(self.compiled.weights), strict=True):
                blob.write(bytes(offset - blob.tell()))
                blob.write(self.frozen.weight(weight))
        return self._compile(work, self._rendered(work, "weights.S.j2", "weights.S", {}), [])

    def _merge(self, objects: Sequence[Path], output: Path, *, keep: Sequence[str]) -> Path:
        self.compiler.merge(objects, output, keep=keep)
        self.step.advance(note=output.name)
        return output

    def _glue(self, work: Path, symbol: str, unit: CompiledUnit) -> Path:
        context: dict[str, object] = {"unit": unit, "symbol": _unit_symbol(symbol, unit)}
        if unit.whole is not None:
            return self._whole(work, unit, unit.whole, context)
        source = self._rendered(work, "unit.cc.j2", f"{_name(unit)}.cc", context)
        # Generated headers are not ours to warn about: they are system headers to the compiler.
        return self._compile(work, source, [*unit.target.flags, *_WARNINGS, "-isystem", unit.folder])

    def _whole(self, work: Path, unit: CompiledUnit, call: Call, context: dict[str, object]) -> Path:
        """A unit that is one call of the kernel library."""
        nodes = [weight.node for weight in self.compiled.weights]
        context |= {
            "call": call,
            "plan": plan_of(call, unit.batch_size),
            "weights": [weight_size(weight) for weight in self.compiled.weights],
            "operands": [nodes.index(layer.parameters.node) for layer in call.with_parameters if layer.parameters],
        }
        source = self._rendered(work, "whole.cc.j2", f"{_name(unit)}.cc", context)
        return self._compile(work, source, [*unit.target.flags, *_WARNINGS])

    def _calls(self, work: Path, unit: CompiledUnit) -> Path:
        """The functions that the unit's code calls."""
        plans = [(call, plan_of(call, unit.batch_size)) for call in unit.calls]
        source = self._rendered(work, "calls.cc.j2", f"{_name(unit)}_calls.cc", {"unit": unit, "plans": plans})
        kernels: list[str | Path] = ["-isystem", resources.kernels() / "include"]
        namespace = f"-DTFAOT_KERNELS_TARGET={unit.target.identifier}"
        return self._compile(work, source, [*unit.target.flags, *_WARNINGS, namespace, *kernels])

    def _table(self, work: Path, symbol: str) -> Path:
        """The functions that give the units of each target."""
        units = {target: self.compiled.of_target(target) for target in self._targets}
        symbols = {target.name: [_unit_symbol(symbol, unit) for unit in units[target]] for target in self._targets}
        source = self._rendered(work, "units.cc.j2", "units.cc", {"targets": self._targets, "symbols": symbols})
        return self._compile(work, source, [*self._baseline(), *_WARNINGS])

    def _target(self, work: Path, symbol: str, target: Target, runtime: Mapping[str, str]) -> list[Path]:
        """Link each unit of a target into an object with one global symbol, and give the runtime parts as one object.

        What units need of the parts gets names that no other target and no other model has.
        """
        units = self.compiled.of_target(target)
        objects = [[*self._glue_objects(work, unit), *unit.objects] for unit in units]
        parts = self.parts.objects_for(target, [path for paths in objects for path in paths])
        listed = sorted((LinkedPart.of(part, code, target) for part, code in parts.items()), key=lambda p: p.source)
        (work / f"{target.identifier}.{_PARTS}").write_text(json.dumps([asdict(part) for part in listed]))
        provided = {name for code in parts.values() for name in defined_symbols(code)}
        needed = {name for paths in objects for path in paths for name in undefined_symbols(path)}
        names = {name: f"{symbol}_{target.identifier}_{name}" for name in sorted(needed & provided)}
        for unit, paths in zip(units, objects, strict=True):
            linked = self._merge(paths, work / f"{_name(unit)}.linked.o", keep=[_unit_symbol(symbol, unit)])
            self.compiler.rename_symbols(linked, {**names, **runtime})
        if not parts:
            return []
        linked = self._merge([*parts.values()], work / f"parts_{target.identifier}.o", keep=[*names])
        # Eigen allocates by malloc and expects an exception where it fails.
        known = defined_symbols(linked) | undefined_symbols(linked)
        allocation = {name: runtime[ours] for name, ours in _ALLOCATION.items()}
        renamed = {name: new for name, new in {**names, **runtime, **allocation}.items() if name in known}
        self.compiler.rename_symbols(linked, renamed)
        return [linked]

    def _glue_objects(self, work: Path, unit: CompiledUnit) -> list[Path]:
        return [work / f"{_name(unit)}{suffix}.o" for suffix in ("", *(["_calls"] if unit.calls else []))]

    def _objects(self, work: Path, symbol: str, common: Sequence[Path]) -> list[Path]:
        """One object per batch size, for all targets, and one of what they have in common."""
        first, *others = object_names(self.spec)
        shared = sorted(s for path in common for s in defined_symbols(path) if s.startswith(f"{symbol}_"))
        made = [self._merge(common, work / first, keep=[symbol, *shared])]
        for size, name in zip(self.spec.compilation.batch_sizes, others, strict=True):
            units = [unit for unit in self.compiled.units if unit.batch_size == size]
            paths = [work / f"{_name(unit)}.linked.o" for unit in units]
            symbols = [_unit_symbol(symbol, unit) for unit in units]
            made.append(self._merge(paths, work / name, keep=symbols))
        return made
