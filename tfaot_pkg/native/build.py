"""The build of a `NativeLibrary`: glue is generated and compiled, runtime parts are added, everything is linked.

1. Compile the glue of each unit and the common sources; or the program, for each target.
2. Link each unit of a target into an object with one global symbol, and the runtime parts of a target into one object.
3. Merge all of these into one object; if the package is to have objects, by way of one per batch size and a common one.
4. Make the static and the shared library from that object.

A program is linked as a runtime part: it belongs to all batch sizes, whose objects are empty.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from tfaot_pkg.frontends.frozen.model import FrozenModel, weight_size
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.keys import Key, key_of
from tfaot_pkg.ground.process import kill_running
from tfaot_pkg.ground.progress import Progress, Step
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.signature import DType
from tfaot_pkg.ground.targets import TARGETS, Target
from tfaot_pkg.native.common import SOURCES, WARNINGS, common_object
from tfaot_pkg.native.compiled.model import CompiledModel, CompiledSegment, CompiledUnit
from tfaot_pkg.native.compiled.operations import OperationCode
from tfaot_pkg.native.compiled.program import FUNCTION, TILES_FUNCTION, ProgramCode
from tfaot_pkg.native.content import code_key, toolchain_of
from tfaot_pkg.native.cxx.compiler import ARCHIVES, Compiler, members_text
from tfaot_pkg.native.library import (
    PARTS,
    NativeLibrary,
    baseline,
    contents_of,
    includes,
    join,
    kernel_flags,
    library_uid,
    link_shared,
    loop_flags,
    object_names,
    rename,
    require_sound_libraries,
)
from tfaot_pkg.native.model_source import ModelSource, state_offset
from tfaot_pkg.native.operations import compile_operation
from tfaot_pkg.native.xla_runtime import LinkedPart, Parts
from tfaot_pkg.package.binary.elf import defined_symbols, undefined_symbols
from tfaot_pkg.package.name import shared_library_name
from tfaot_pkg.spec.rules import model_version
from tfaot_pkg.spec.tuning import costs_document
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.worker_program.messages.graph import Feed, Fetch

STAGE = "native"
_KILL_INTERVAL = 0.02  # seconds
_COMMON_STEPS = 12  # eight sources, the whole, archive, entry, shared
_NOTHING = "nothing"
_ALLOCATION = {"malloc": "tfaot_allocate", "free": "tfaot_release"}  # the C library's, and ours (runtime.cc)

_T = TypeVar("_T")


def native_key(spec: ModelSpec, code: Key, compiler: Compiler) -> Key:
    """The key of the library of `code` (content.py)."""
    return key_of(
        STAGE,
        code_digest(__name__),
        {
            "code": code,
            "name": spec.model.name,
            "version": model_version(spec.model.version),
            "objects": spec.package.objects,
            "profile": spec.package.profile,
            "batch_costs": costs_document(spec.tuning),
            "compiler": compiler.identity,
            "flags": list(compiler.all_flags),
            "templates": resources.digest(resources.templates() / "native"),
            # The public headers that the library's sources include: others may change without a new library.
            "c_api": resources.digest(resources.headers() / "tfaot" / "c_api.h"),
            "operation": resources.digest(resources.headers() / "tfaot" / "operation.h"),
            "team": resources.digest(resources.kernels() / "include" / "tfaot_kernels" / "team.h"),
        },
    )


def build_native(
    spec: ModelSpec,
    frozen: FrozenModel,
    compiled: CompiledModel,
    *,
    environment: ToolchainEnvironment,
    compiler: Compiler,
    cache: BuildCache,
    progress: Progress,
    parts_cache: BuildCache | None = None,
) -> NativeLibrary:
    """The libraries of `compiled`, from the cache if they are there; another toolchain may have had the same code.

    `parts_cache` has the parts of XLA's runtime, if that is another one. Raises CompilerError, ModelError,
    StorageError.
    """
    toolchain = toolchain_of(compiled.engine, environment.toolchain)
    code = code_key(spec, frozen, compiled.engine, compiled.program, key=compiled.key, toolchain=toolchain)
    key, uid = native_key(spec, code, compiler), library_uid(spec, code)

    def library_in(folder: Path) -> NativeLibrary:
        return NativeLibrary(folder=folder, key=key, name=spec.model.package_name, uid=uid)

    def make(folder: Path) -> None:
        LibraryBuild(
            folder=folder, spec=spec, frozen=frozen, compiled=compiled, toolchain=toolchain, compiler=compiler,
            parts=Parts(environment=environment, compiler=compiler, cache=parts_cache or cache),
            library=library_in(folder), step=step,
        ).make()  # fmt: skip

    with progress.step("link", total=_number_of_steps(spec, compiled), unit="files") as step:
        if cache.has(STAGE, key):
            step.skip("cached")
        return library_in(cache.get_or_make(STAGE, key, make))


def _number_of_steps(spec: ModelSpec, compiled: CompiledModel) -> int:
    targets, objects = len(spec.compilation.targets), len(object_names(spec)) if spec.package.objects else 0
    total = _COMMON_STEPS + targets + objects + 2 * len(compiled.units)
    if compiled.program is None:
        return total
    # The program's code; for each segment, the code that calls it and the linked object of both.
    total += targets + 2 * len(compiled.segments) + targets * len(compiled.program.operations)
    return total + bool(objects)  # an empty object


def _name(unit: CompiledUnit) -> str:
    return f"{unit.prefix}_{unit.target.identifier}"


def _runtime_names(library: str, runtime: Path) -> dict[str, str]:
    """New names for the definitions of runtime.cc, so that only code of this library calls them."""
    return {name: f"{library}_runtime_{name}" for name in sorted(defined_symbols(runtime))}


def _program_name(target: Target) -> str:
    return f"program_{target.identifier}.cc"


def _operation_name(code: OperationCode, target: Target) -> str:
    return f"{code.wrapper.stem}_{target.identifier}"


def _segment_name(segment: CompiledSegment) -> str:
    return f"{segment.prefix}_{segment.target.identifier}"


def _segment_context(segment: CompiledSegment) -> dict[str, object]:
    found = segment.segment.found
    sizes = [[_row_bytes(each) for each in border] for border in (found.inputs, found.outputs)]
    return {"segment": segment, "input_sizes": sizes[0], "output_sizes": sizes[1]}


def _row_bytes(tensor: Feed | Fetch) -> int:
    """Bytes of one row, or of the whole tensor if it has no batch axis."""
    return math.prod(size for size in tensor.shape if size is not None) * DType(tensor.dtype).itemsize


def _unit_symbol(library: str, unit: CompiledUnit) -> str:
    """The function that returns one unit of the library whose entry function is `library`."""
    return f"{library}_b{unit.batch_size}_{unit.target.identifier}"


def _part_symbol(library: str, target: Target, name: str) -> str:
    """The new name of `name`, a symbol of a runtime part or the program: a library has one for each target."""
    return f"{library}_{target.identifier}_{name}"


def together(tasks: Sequence[Callable[[], _T]]) -> list[_T]:
    """Run `tasks` on all cores and return their results. An interruption kills the programs that they run."""
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
class _TargetCode:
    """The runtime parts that units of `target` need, and one object with all of them; None if they need none."""

    target: Target
    parts: tuple[LinkedPart, ...]
    code: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryBuild:
    """One build of the libraries in `folder`."""

    folder: Path

    spec: ModelSpec
    frozen: FrozenModel
    compiled: CompiledModel
    toolchain: Toolchain
    compiler: Compiler
    parts: Parts
    library: NativeLibrary
    step: Step

    def make(self) -> None:
        """Fill `folder` with the two libraries, the requested objects and the list of parts; nothing else."""
        self.work.mkdir()
        common = self._compile_all()
        runtime = _runtime_names(self.symbol, self.work / "runtime.o")
        for path in common:
            rename(path, runtime, self.compiler)
        # Targets are linked before everything is joined: after that, equal names of two targets would be one symbol.
        # The highest level first: its runtime parts take longest to compile.
        tasks = [partial(self._link_target, target, runtime) for target in reversed(self._targets)]
        linked = together(tasks)[::-1]
        parts = [each.code for each in linked if each.code is not None]
        objects = [*common, *parts]
        # Weights come into the last object only: they may be hundreds of megabytes, and each one is another copy.
        if self.spec.package.objects:
            objects = [path.rename(self.folder / path.name) for path in self._objects(objects)]
            self._link_libraries(objects, weights=None)
        else:
            self._link_libraries([*map(self._linked, self.compiled.units), *objects], weights=self._weights_file)
        self._list_parts(linked)
        # The rest of the folder goes into the cache.
        shutil.rmtree(self.work)

    @property
    def work(self) -> Path:
        """The folder of intermediate files."""
        return self.folder / "work"

    def _compile_all(self) -> list[Path]:
        """Compile the code of each unit, and the common code, whose objects are returned."""
        sources = [partial(self._common, name) for name in SOURCES]
        common: list[Callable[[], Path]] = [*sources, self._model, self._table, self._weights]
        units: list[Callable[[], Path]] = [partial(self._glue, unit) for unit in self.compiled.units]
        if self.compiled.program is not None:
            units += [partial(self._program, self.compiled.program, target) for target in self._targets]
            units += [partial(self._segment, segment) for segment in self.compiled.segments]
            units += [partial(self._operation, each, target) for each in self._operations for target in self._targets]
            units += [self._nothing] if self.spec.package.objects else []
        together([*units, *common])
        # The order of the objects is part of the libraries' bytes.
        same = [Path(name).stem for name in SOURCES]
        return [self.work / f"{name}.o" for name in (*same, "model", "units", "weights")]

    def _link_libraries(self, objects: Sequence[Path], *, weights: Path | None) -> None:
        """The static and the shared library of `objects`, and the list of members of the compiler's own library."""
        whole = self.work / f"{self.library.name}.o"
        join(objects, whole, symbol=self.symbol, compiler=self.compiler, weights=weights)
        self.step.advance(note=whole.name)
        # Before the shared library is linked, which changes `whole`.
        self.compiler.archive([whole], self.library.static)
        self.step.advance(note=self.library.static.name)
        held = link_shared(
            whole, self.library.shared,
            symbol=self.symbol, soname=shared_library_name(self.library.name, self.library.uid),
            compiler=self.compiler, work=self.work,
        )  # fmt: skip
        (self.folder / ARCHIVES).write_text(members_text({self.library.shared.name: held}))
        self.step.advance(2, note=self.library.shared.name)  # its entry, and itself
        profile = self.spec.package.profile
        require_sound_libraries(self.library, self._targets[0].architecture, profile=profile)

    def _list_parts(self, linked: Sequence[_TargetCode]) -> None:
        listed = [
            plain(part) for each in sorted(linked, key=lambda each: each.target.identifier) for part in each.parts
        ]
        (self.folder / PARTS).write_text(json.dumps(listed, indent=1))

    @property
    def symbol(self) -> str:
        return self.library.symbol

    @property
    def _targets(self) -> tuple[Target, ...]:
        return tuple(TARGETS[name] for name in self.spec.compilation.targets)

    def _baseline(self) -> tuple[str, ...]:
        return baseline(self._targets[0].architecture)

    def _compile(self, source: Path, flags: Sequence[str | Path]) -> Path:
        output = self.work / f"{source.stem}.o"
        flags = [*self.compiler.library_flags, *flags, *includes(self.toolchain.interface)]
        self.compiler.compile(source, output, flags=flags, folder=self.work)
        self.step.advance(note=source.name)
        return output

    def _common(self, name: str) -> Path:
        """A copy of the common object `name`, because each library gives its symbols other names."""
        made = common_object(
            name, architecture=self._targets[0].architecture, compiler=self.compiler, cache=self.parts.cache
        )  # fmt: skip
        copy = shutil.copyfile(made, self.work / made.name)
        self.step.advance(note=name)
        return copy

    def _rendered(self, template: str, output: str, context: dict[str, object]) -> Path:
        path = self.work / output
        path.write_text(render(f"native/{template}", context))
        return path

    def _model(self) -> Path:
        model = ModelSource(
            spec=self.spec,
            frozen=self.frozen,
            toolchain=self.toolchain,
            uid=self.library.uid,
            symbol=self.symbol,
            any_batch_size=self.compiled.program is not None,
            weight_offsets=tuple(self.compiled.weight_offsets),
            state_offset=state_offset(self._weights_size, self.frozen),
        )
        source = self.work / "model.cc"
        source.write_text(model.text(self._targets))
        return self._compile(source, [*self._baseline(), *WARNINGS])

    def _weights(self) -> Path:
        """The object with the place of the weights, and the file that is put there."""
        path, program = self._weights_file, self.compiled.program
        if program is not None and self._weights_size and not self.frozen.signature.state:
            path.symlink_to(program.constants)
        else:
            with path.open("wb") as blob:
                self._write_weights(blob)
        context: dict[str, object] = {"size": path.stat().st_size}
        return self._compile(self._rendered("weights.S.j2", "weights.S", context), [])

    def _write_weights(self, blob: BinaryIO) -> None:
        """All weights, and the trained values of a state."""
        if self.compiled.program is not None:
            blob.write(self.compiled.program.constants.read_bytes())
        else:
            for weight, offset in zip(self.compiled.weights, self.compiled.weight_offsets, strict=True):
                blob.write(bytes(offset - blob.tell()))  # zeros up to the next aligned offset
                blob.write(self.frozen.weight(weight))
        if values := self.frozen.state_values:
            blob.write(bytes(state_offset(self._weights_size, self.frozen) - blob.tell()))
            blob.write(values)
        if not blob.tell():
            blob.write(bytes(1))  # a section has contents

    @property
    def _weights_file(self) -> Path:
        return self.work / "weights.bin"

    @property
    def _weights_size(self) -> int:
        """Bytes of the weights, without the state that follows them."""
        if self.compiled.program is not None:
            return self.compiled.program.constants.stat().st_size
        ends = zip(self.compiled.weights, self.compiled.weight_offsets, strict=True)
        return max((offset + weight_size(weight) for weight, offset in ends), default=0)

    def _merge(
        self, objects: Sequence[Path], output: Path, *, keep: Sequence[str], weights: Path | None = None
    ) -> Path:
        self.compiler.merge(objects, output, keep=keep, contents=contents_of(weights))
        self.step.advance(note=output.name)
        return output

    def _glue(self, unit: CompiledUnit) -> Path:
        profile = self.spec.package.profile
        context: dict[str, object] = {"unit": unit, "symbol": _unit_symbol(self.symbol, unit), "profile": profile}
        source = self._rendered("unit.cc.j2", f"{_name(unit)}.cc", context)
        # Generated headers are system headers to the compiler, which gives no warnings about these.
        return self._compile(source, [*unit.target.flags, *WARNINGS, "-isystem", unit.folder])

    def _program(self, program: ProgramCode, target: Target) -> Path:
        """The function that computes the model on a target."""
        source = Path(shutil.copyfile(program.source, self.work / _program_name(target)))
        loops = loop_flags(is_gcc=self.compiler.is_gcc)
        return self._compile(source, [*target.flags, *WARNINGS, *kernel_flags(target), *loops])

    def _segment(self, segment: CompiledSegment) -> Path:
        """The code that calls XLA's code of a part of the program."""
        source = self._rendered("segment.cc.j2", f"{_segment_name(segment)}.cc", _segment_context(segment))
        return self._compile(source, [*segment.target.flags, *WARNINGS, "-isystem", segment.folder])

    @property
    def _operations(self) -> tuple[OperationCode, ...]:
        return () if self.compiled.program is None else self.compiled.program.operations

    def _operation(self, code: OperationCode, target: Target) -> Path:
        """An operation that the author of the model supplies."""
        made = compile_operation(code, target, self.compiler, self.work / _operation_name(code, target))
        self.step.advance(note=made.name)
        return made

    def _nothing(self) -> Path:
        """The empty object of a batch size, if a program computes all batch sizes."""
        source = self.work / f"{_NOTHING}.cc"
        source.write_text("// One program computes batches of all sizes.\n")
        return self._compile(source, [*self._baseline(), *WARNINGS])

    def _table(self) -> Path:
        """The functions that return the code of each target."""
        context: dict[str, object] = {
            "targets": self._targets,
            "selectable": False,
            "program": self.compiled.program,
        }
        if self.compiled.program is not None:
            context["symbols"] = {target.name: _part_symbol(self.symbol, target, FUNCTION) for target in self._targets}
            context["tiles"] = {
                target.name: _part_symbol(self.symbol, target, TILES_FUNCTION)
                for target in self._targets
                if self.compiled.program.uses_tiles and target.may_have_tiles
            }
            context["memories"] = {
                target.name: [_part_symbol(self.symbol, target, name) for name in self._memories]
                for target in self._targets
            }
        else:
            units = {target: self.compiled.of_target(target) for target in self._targets}
            context["symbols"] = {
                target.name: [_unit_symbol(self.symbol, unit) for unit in units[target]] for target in self._targets
            }
        return self._compile(self._rendered("units.cc.j2", "units.cc", context), [*self._baseline(), *WARNINGS])

    @property
    def _memories(self) -> tuple[str, ...]:
        """The functions that tell how much memory each segment needs."""
        return tuple(dict.fromkeys(f"{segment.prefix}_memory" for segment in self.compiled.segments))

    def _link_target(self, target: Target, runtime: Mapping[str, str]) -> _TargetCode:
        """Link each unit of a target into an object with one global symbol, and its runtime parts into one object.

        Symbols of the parts that units need get names that no other target and no other model has: one library has the
        code of all targets, and a program may link the libraries of several models.
        """
        units = self.compiled.of_target(target)
        objects = [[self.work / f"{_name(unit)}.o", *unit.objects] for unit in units]
        program = [] if self.compiled.program is None else [(self.work / _program_name(target)).with_suffix(".o")]
        for segment in self.compiled.segments:
            if segment.target == target:
                made = [self.work / f"{_segment_name(segment)}.o", *segment.objects]
                keep = [segment.prefix, f"{segment.prefix}_memory"]
                program.append(self._merge(made, self.work / f"{_segment_name(segment)}.linked.o", keep=keep))
        program += [self.work / _operation_name(each, target) / f"{each.wrapper.stem}.o" for each in self._operations]
        everything = [*(path for paths in objects for path in paths), *program]
        parts = self.parts.objects_for(target, everything)
        shared = [*program, *parts.values()]
        provided = {name for code in shared for name in defined_symbols(code)}
        # Only symbols that are called from outside get names: all others become local in `_link_parts`.
        needed = (
            {FUNCTION, *([TILES_FUNCTION] if target.may_have_tiles else []), *self._memories}
            if program
            else {name for path in everything for name in undefined_symbols(path)}
        )
        names = {name: _part_symbol(self.symbol, target, name) for name in sorted(needed & provided)}
        for unit, paths in zip(units, objects, strict=True):
            linked = self._merge(paths, self._linked(unit), keep=[_unit_symbol(self.symbol, unit)])
            self.compiler.rename_symbols(linked, {**names, **runtime})
        listed = sorted((LinkedPart.of(part, code, target) for part, code in parts.items()), key=lambda p: p.source)
        code = self._link_parts(target, shared, names, runtime) if shared else None
        return _TargetCode(target=target, parts=tuple(listed), code=code)

    def _linked(self, unit: CompiledUnit) -> Path:
        """The object of a unit and its glue, with one global symbol."""
        return self.work / f"{_name(unit)}.linked.o"

    def _link_parts(
        self, target: Target, parts: Sequence[Path], names: Mapping[str, str], runtime: Mapping[str, str]
    ) -> Path:
        """One object of the runtime parts of a target, which defines `names`."""
        linked = self._merge(parts, self.work / f"parts_{target.identifier}.o", keep=[*names])
        # Eigen allocates by malloc, and expects an exception if that fails.
        known = defined_symbols(linked) | undefined_symbols(linked)
        allocation = {name: runtime[ours] for name, ours in _ALLOCATION.items()}
        renamed = {name: new for name, new in {**names, **runtime, **allocation}.items() if name in known}
        self.compiler.rename_symbols(linked, renamed)
        return linked

    def _objects(self, common: Sequence[Path]) -> list[Path]:
        """One object per batch size, for all targets, and one of the common code."""
        first, *others = object_names(self.spec)
        # The objects of the batch sizes call these, so they stay global until all is joined (docs/decisions/019).
        shared = sorted(s for path in common for s in defined_symbols(path) if s.startswith(f"{self.symbol}_"))
        made = [self._merge(common, self.work / first, keep=[self.symbol, *shared], weights=self._weights_file)]
        for size, name in zip(self.spec.compilation.batch_sizes, others, strict=True):
            units = [unit for unit in self.compiled.units if unit.batch_size == size]
            paths = [*map(self._linked, units)] or [self.work / f"{_NOTHING}.o"]
            symbols = [_unit_symbol(self.symbol, unit) for unit in units]
            made.append(self._merge(paths, self.work / name, keep=symbols))
        return made
