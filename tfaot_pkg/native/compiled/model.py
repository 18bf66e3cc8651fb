"""`CompiledModel`: a frozen model compiled by tfcompile for every batch size and target, or as one program."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.frozen.model import FrozenModel, Segment, signature_of, weight_size
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.frontends.toolchain.worker import Worker, WorkerPool
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import Key, key_of, sha256_file
from tfaot_pkg.ground.progress import Progress, Step
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import TARGETS, Target
from tfaot_pkg.native.compiled.flags import flags_document, flags_of
from tfaot_pkg.native.compiled.header import correct, number_of_buffers, require_object, require_plain, require_shapes
from tfaot_pkg.native.compiled.program import Engine, ProgramCode, make_program, program_code, read_engine
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.package.binary.elf import defined_symbols
from tfaot_pkg.spec.document import written
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.worker_program.messages.graph import Weight
from tfaot_pkg.worker_program.messages.requests import Compile, Compiled, Unit

_UNITS_PER_WORKER = 8  # for fewer units, starting another worker (an import of TensorFlow) takes longer than it saves


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    """A unit, and the XLA_FLAGS that it is compiled with."""

    unit: Unit
    xla_flags: tuple[str, ...]


def compile_units(
    pool: WorkerPool, request: Compile, units: Sequence[Flagged], *, tf_xla_flags: Sequence[str], step: Step
) -> set[str]:
    """Compile all units, and return the nodes of the weights that had to be embedded because XLA must know them.

    `request` has the fields that units of all flags share: it names no units, and no weights to embed.
    """
    embedded: set[str] = set()
    while wanted := _run(pool, replace(request, embed=tuple(sorted(embedded))), units, tf_xla_flags, step):
        if wanted <= embedded:
            raise ToolchainError(f"TensorFlow asked again for the weights {', '.join(sorted(wanted))}")
        if unknown := wanted.difference(weight.node for weight in request.weights):  # the loop might not end
            raise ToolchainError(f"TensorFlow asked for weights that the model does not have: {min(unknown)!r}")
        embedded |= wanted
    return embedded


def _run(
    pool: WorkerPool, request: Compile, units: Sequence[Flagged], tf_xla_flags: Sequence[str], step: Step
) -> set[str]:
    """The weights that must be embedded; none if everything was compiled."""
    shares = _shares(pool, units, tf_xla_flags)
    with ThreadPoolExecutor(os.cpu_count() or 1) as executor:
        futures: list[Future[Compiled]] = []
        try:
            for worker, share in shares:
                futures.append(executor.submit(worker.call, replace(request, units=tuple(share)), Compiled, step=step))
            return {name for future in futures for name in future.result().embed}
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            # The end of `with` waits for all threads, and a thread waits for its worker.
            for (worker, _), future in zip_longest(shares, futures):
                if future is None or not future.done():
                    worker.kill()
            raise


def _shares(pool: WorkerPool, units: Sequence[Flagged], tf_xla_flags: Sequence[str]) -> list[tuple[Worker, list[Unit]]]:
    """Workers with their units: for each set of flags as many workers as save time.

    XLA reads its flags once per process, so units with other flags need another worker.
    """
    shares = []
    for flags in dict.fromkeys(each.xla_flags for each in units):
        same = [each.unit for each in units if each.xla_flags == flags]
        count = max(1, min(os.cpu_count() or 1, len(same) // _UNITS_PER_WORKER))
        for number in range(count):
            worker = pool.get(xla_flags=flags, tf_xla_flags=tf_xla_flags, number=number)
            # Every count-th unit, so that large batch sizes, which take longest, are spread over the workers.
            shares.append((worker, same[number::count]))
    return shares


STAGE = "compiled"
_WEIGHTS = "weights.json"
_ALIGNMENT = 64  # bytes: a vector of AVX-512, the widest of any target


@dataclass(frozen=True, slots=True, kw_only=True)
class _XlaCode:
    """XLA's code for one target: `PREFIX.h` and its objects in the folder of the target."""

    target: Target
    folder: Path

    @property
    def prefix(self) -> str:
        """The name of its files, its C++ namespace and its entry function. Unique within a target."""
        raise NotImplementedError

    @property
    def num_buffers(self) -> int:
        """The size of its table of buffers."""
        return number_of_buffers(self.folder / f"{self.prefix}.h")

    @property
    def objects(self) -> tuple[Path, ...]:
        names = (f"{self.prefix}.o", f"{self.prefix}.constants.o")
        return tuple(path for path in (self.folder / name for name in names) if path.exists())


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledUnit(_XlaCode):
    """One batch size for one target."""

    batch_size: int

    @property
    def prefix(self) -> str:
        return _prefix(self.batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSegment(_XlaCode):
    """A part of a program for one target: XLA's code for one row."""

    segment: Segment

    @property
    def prefix(self) -> str:
        return self.segment.found.name


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModel:
    """All units; none if the model is a `program`. `engine` describes what computes the model.

    `weights` are the weights of the frozen model that are arguments of the units, in order. Others are constants within
    the units, because XLA had to know their values. A program has constants of its own instead.
    """

    folder: Path
    key: Key
    units: tuple[CompiledUnit, ...]
    weights: tuple[Weight, ...]
    engine: Engine
    program: ProgramCode | None
    segments: tuple[CompiledSegment, ...]

    @property
    def weight_offsets(self) -> list[int]:
        """The offset of each weight in the library's blob of weights. The constants of a program are one weight."""
        return weight_offsets(self.weights) if self.program is None else [0]

    def of_target(self, target: Target) -> tuple[CompiledUnit, ...]:
        """Ascending in batch size."""
        return tuple(unit for unit in self.units if unit.target == target)


def weight_offsets(weights: Sequence[Weight]) -> list[int]:
    """The offset of each of `weights` in a blob of all of them, aligned for loads of whole vectors."""
    offsets, end = [], 0
    for weight in weights:
        offsets.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
        end = offsets[-1] + weight_size(weight)
    return offsets


def compiled_key(spec: ModelSpec, frozen: Key, toolchain: Toolchain, *, calibration: str = "") -> Key:
    """Does not depend on the costs of batches in the tuning file: new costs alone compile nothing.

    `calibration` is the SHA-256 of the file of rows on which scales of bytes are found.
    """
    return key_of(
        STAGE,
        code_digest(__name__),
        {
            "frozen": frozen,
            "batch_sizes": list(spec.compilation.batch_sizes),
            "targets": list(spec.compilation.targets),
            "xla_flags": list(spec.compilation.xla_flags),
            "tf_xla_flags": list(spec.compilation.tf_xla_flags),
            "tuned_flags": flags_document(spec, toolchain),
            "kernels": resources.digest(resources.kernels()),
            "lowerings": list(toolchain.lowerings),
            "engine": spec.compilation.engine,
            # With `auto`, these also decide whether XLA compiles the model (program.py).
            "choice": [spec.compilation.kernels, spec.compilation.weights],
            **({"precision": written(spec.compilation.precision)} if spec.compilation.precision.is_reduced else {}),
            # The bars decide which layers become bytes.
            **(
                {"calibration": calibration, "bars": written(spec.validation.accuracy)}
                if spec.compilation.precision.calibration
                else {}
            ),
            "profile": spec.package.profile,
            # Only the templates that this stage renders; others are in the keys of the libraries.
            "program_template": sha256_file(resources.templates() / "native" / "program.cc.j2"),
            "operation_template": sha256_file(resources.templates() / "native" / "operation.cc.j2"),
        },
    )


def compile_model(
    spec: ModelSpec,
    frozen: FrozenModel,
    *,
    key: Key,
    pool: WorkerPool,
    compiler: Compiler,
    cache: BuildCache,
    progress: Progress,
    calibration: str = "",
) -> CompiledModel:
    """Compile every unit of `spec`, or take them from the cache. Raises ModelError, SpecError, ToolchainError.

    `calibration` is what the key has; SourceError is raised if the file has changed since.
    """
    total = len(spec.compilation.batch_sizes) * len(spec.compilation.targets)
    with progress.step("compile", total=total, unit="units") as step:
        if cache.has(STAGE, key):
            step.skip("cached")
        make = partial(_make, spec, frozen, pool=pool, compiler=compiler, step=step, calibration=calibration)
        folder = cache.get_or_make(STAGE, key, make)
    return _read(spec, frozen, folder, key)


def _prefix(batch_size: int) -> str:
    return f"tfaot_b{batch_size}"


def _make(
    spec: ModelSpec,
    frozen: FrozenModel,
    folder: Path,
    *,
    pool: WorkerPool,
    compiler: Compiler,
    step: Step,
    calibration: str,
) -> None:
    toolchain = pool.environment.toolchain
    engine = make_program(spec, frozen, toolchain, folder, calibration=calibration)
    if engine.is_program:
        _make_segments(spec, _called(engine, frozen), folder, pool=pool, compiler=compiler, step=step)
        step.advance(len(spec.compilation.targets) * len(spec.compilation.batch_sizes), note="one program for all")
        return
    made = pool.new_folder(STAGE)
    targets = [TARGETS[name] for name in spec.compilation.targets]
    for target in targets:
        (made / target.name).mkdir()
    flags = flags_of(spec, toolchain)
    wanted = [(size, target) for size in spec.compilation.batch_sizes for target in targets]
    units = [Flagged(unit=_described(size, target), xla_flags=flags[size, target.name]) for size, target in wanted]
    request = _request(frozen, pool, made)
    embedded = compile_units(pool, request, units, tf_xla_flags=spec.compilation.tf_xla_flags, step=step)
    kept = [weight.node for weight in frozen.weights if weight.node not in embedded]
    # Copied to where no worker can write before it is checked: nothing can change it between check and use.
    pool.take(made, folder)
    (folder / _WEIGHTS).write_text(json.dumps(kept))
    for size, target in wanted:
        _check_unit(folder / target.name, _prefix(size), frozen.signature, size, toolchain, compiler)


def _request(frozen: FrozenModel, pool: WorkerPool, out: Path) -> Compile:
    """The request with all fields that units share."""
    toolchain = pool.environment.toolchain
    return Compile(
        out=str(out),
        graph=str(pool.give(frozen.graph)),
        inputs=frozen.inputs,
        outputs=frozen.outputs,
        weights=frozen.weights,
        blob=str(pool.give(frozen.weights_file)) if frozen.weights_file else "",
        embed=(),
        constants="constants" in toolchain.object_kinds,
        lowerings=tuple(toolchain.lowerings),
        units=(),
    )


def _called(engine: Engine, frozen: FrozenModel) -> list[Segment]:
    """The segments that the program calls: passes may have removed some that no output needs."""
    names = {each.name for each in engine.segments}
    return [each for each in frozen.segments if each.found.name in names]


def _make_segments(
    spec: ModelSpec, segments: Sequence[Segment], folder: Path, *, pool: WorkerPool, compiler: Compiler, step: Step
) -> None:
    """Let XLA compile the segments of a program, for one row."""
    toolchain, compilation = pool.environment.toolchain, spec.compilation
    for segment in segments:
        name, border = segment.found.name, segment.found
        made = pool.new_folder(STAGE)
        units = []
        for target in (TARGETS[each] for each in compilation.targets):
            (made / target.name).mkdir()
            unit = replace(_described(1, target), prefix=f"{target.name}/{name}", name=name)
            units.append(Flagged(unit=unit, xla_flags=compilation.xla_flags))
        request = Compile(
            out=str(made), graph=str(pool.give(segment.graph)), inputs=border.inputs, outputs=border.outputs,
            weights=(), blob="", embed=(), constants="constants" in toolchain.object_kinds,
            lowerings=tuple(toolchain.lowerings), units=(),
        )  # fmt: skip
        compile_units(pool, request, units, tf_xla_flags=compilation.tf_xla_flags, step=step)
        (folder / name).mkdir()
        pool.take(made, folder / name)
        for target_name in compilation.targets:
            _check_unit(folder / name / target_name, name, signature_of(border), 1, toolchain, compiler)


def _check_unit(
    folder: Path, prefix: str, signature: Signature, size: int, toolchain: Toolchain, compiler: Compiler
) -> None:
    # The order matters: files are checked as the worker wrote them, before any program of ours reads or changes them.
    header = folder / f"{prefix}.h"
    require_plain(header)
    correct(header, toolchain)
    for code in folder.glob(f"{prefix}.*o"):
        require_object(code)
    _stabilize(folder, prefix, toolchain, compiler)
    require_shapes(header, signature, size)


def _described(size: int, target: Target) -> Unit:
    return Unit(
        prefix=f"{target.name}/{_prefix(size)}",
        name=_prefix(size),
        batch_size=size,
        target=target.name,
        triple=target.triple,
        cpu=target.cpu,
    )


def _stabilize(folder: Path, prefix: str, toolchain: Toolchain, compiler: Compiler) -> None:
    """Remove the part of symbol names that changes with each compilation: packages must be reproducible."""
    if not toolchain.unstable_symbols:
        return
    pattern = re.compile(toolchain.unstable_symbols)
    header, code = folder / f"{prefix}.h", folder / f"{prefix}.o"
    text = header.read_text()
    renamed = {name: pattern.sub("", name, count=1) for name in defined_symbols(code) if pattern.match(name)}
    compiler.rename_symbols(code, renamed)
    header.write_text(pattern.sub("", text))


def _read(spec: ModelSpec, frozen: FrozenModel, folder: Path, key: Key) -> CompiledModel:
    program, engine = program_code(folder), read_engine(folder)
    units = (
        CompiledUnit(batch_size=size, target=TARGETS[name], folder=folder / name)
        for name in spec.compilation.targets
        for size in spec.compilation.batch_sizes
    )
    by_node = {weight.node: weight for weight in frozen.weights}
    kept = json.loads((folder / _WEIGHTS).read_text()) if program is None else []
    return CompiledModel(
        folder=folder,
        key=key,
        units=tuple(units) if program is None else (),
        weights=tuple(by_node[node] for node in kept),
        engine=engine,
        program=program,
        segments=tuple(
            CompiledSegment(segment=each, target=TARGETS[name], folder=folder / each.found.name / name)
            for each in _called(engine, frozen)
            for name in spec.compilation.targets
        ),
    )
