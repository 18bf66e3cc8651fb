"""`CompiledModel`: what tfcompile makes of a frozen model, for every batch size and target."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaot_pkg.cache import BuildCache
from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.frozen.model import FrozenModel, weight_size
from tfaot_pkg.keys import Key, key_of
from tfaot_pkg.native.compiler import Compiler
from tfaot_pkg.native.elf import defined_symbols
from tfaot_pkg.progress import Progress, Step
from tfaot_pkg.signature import Signature
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import TARGETS, Target
from tfaot_pkg.toolchain.definition import Toolchain
from tfaot_pkg.toolchain.worker import WorkerPool

STAGE = "compiled"
_VERSION = 2
_EMBEDDED = "embedded.json"
_ALIGNMENT = 64
_UNITS_PER_WORKER = 8  # below, starting another worker (an import of TensorFlow) costs more than it saves


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledUnit:
    """One batch size for one target: `PREFIX.h` and its objects in the folder of the target.

    `num_buffers` is the size of the computation's table of buffers.
    """

    batch_size: int
    target: Target
    folder: Path
    num_buffers: int

    @property
    def prefix(self) -> str:
        """The unit's name: of its files, its C++ namespace and its entry function. Unique within a target."""
        return _prefix(self.batch_size)

    @property
    def objects(self) -> tuple[Path, ...]:
        names = (f"{self.prefix}.o", f"{self.prefix}.constants.o")
        return tuple(path for path in (self.folder / name for name in names) if path.exists())


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModel:
    """All units. `weights` are those of the frozen model that are arguments of the units, in their order; XLA may have
    needed the values of others, which are constants inside of the units then.
    """

    folder: Path
    key: Key
    units: tuple[CompiledUnit, ...]
    weights: tuple[Mapping[str, Any], ...]

    def of_target(self, target: Target) -> tuple[CompiledUnit, ...]:
        """Ascending in batch size."""
        return tuple(unit for unit in self.units if unit.target == target)


def weight_offsets(weights: Sequence[Mapping[str, Any]]) -> list[int]:
    """Where each of `weights` begins in a blob of them all, each aligned as code for wide vectors likes it."""
    offsets, end = [], 0
    for weight in weights:
        offsets.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
        end = offsets[-1] + weight_size(weight)
    return offsets


def compiled_key(spec: ModelSpec, frozen: Key) -> Key:
    return key_of(
        STAGE,
        _VERSION,
        {
            "frozen": frozen,
            "batch_sizes": list(spec.compilation.batch_sizes),
            "targets": list(spec.compilation.targets),
            "xla_flags": list(spec.compilation.xla_flags),
            "tf_xla_flags": list(spec.compilation.tf_xla_flags),
        },
    )


def compile_model(
    spec: ModelSpec, frozen: FrozenModel, *, pool: WorkerPool, compiler: Compiler, cache: BuildCache, progress: Progress
) -> CompiledModel:
    """Compile every unit of `spec`, or take them from the cache. Raises ModelError, SpecError, ToolchainError."""
    key = compiled_key(spec, frozen.key)
    total = len(spec.compilation.batch_sizes) * len(spec.compilation.targets)
    with progress.step("compile", total=total, unit="units") as step:
        if cache.has(STAGE, key):
            step.skip("cached")
        folder = cache.get_or_make(
            STAGE, key, lambda folder: _make(spec, frozen, pool=pool, compiler=compiler, folder=folder, step=step)
        )
    return _read(spec, frozen, folder, key)


def _prefix(batch_size: int) -> str:
    return f"tfaot_b{batch_size}"


def _make(
    spec: ModelSpec, frozen: FrozenModel, *, pool: WorkerPool, compiler: Compiler, folder: Path, step: Step
) -> None:
    made = pool.new_folder(STAGE)
    toolchain = pool.environment.toolchain
    targets = [TARGETS[name] for name in spec.compilation.targets]
    for target in targets:
        (made / target.name).mkdir()
    units = [
        {
            "prefix": f"{target.name}/{_prefix(size)}",
            "name": _prefix(size),
            "batch_size": size,
            "target": target.name,
            "triple": target.triple,
            "cpu": target.cpu,
        }
        for size in spec.compilation.batch_sizes
        for target in targets
    ]
    arguments = {
        "graph": str(frozen.graph),
        "out": str(made),
        "inputs": frozen.inputs,
        "outputs": frozen.outputs,
        "weights": frozen.weights,
        "blob": str(frozen.weights_file or ""),
        "constants": "constants" in toolchain.object_kinds,
    }
    embedded = _compile(spec, pool, arguments, units, step)
    (made / _EMBEDDED).write_text(json.dumps(sorted(embedded)))
    for target in targets:
        for size in spec.compilation.batch_sizes:
            _correct(made / target.name / f"{_prefix(size)}.h", toolchain)
            _stabilize(made / target.name, _prefix(size), toolchain, compiler)
            _require_shapes(made / target.name / f"{_prefix(size)}.h", frozen.signature, size)
    for path in made.iterdir():
        shutil.move(path, folder / path.name)


def _compile(
    spec: ModelSpec,
    pool: WorkerPool,
    arguments: Mapping[str, object],
    units: Sequence[Mapping[str, object]],
    step: Step,
) -> set[str]:
    """Compile all units; the names of the weights that had to be embedded, because XLA must know their values."""
    embedded: set[str] = set()
    while wanted := _run_workers(spec, pool, {**arguments, "embed": sorted(embedded)}, units, step):
        if wanted <= embedded:
            raise ToolchainError(f"TensorFlow asked again for the weights {', '.join(sorted(wanted))}")
        embedded |= wanted
    return embedded


def _run_workers(
    spec: ModelSpec,
    pool: WorkerPool,
    arguments: Mapping[str, object],
    units: Sequence[Mapping[str, object]],
    step: Step,
) -> set[str]:
    """Share the units among as many workers as pay. The weights that must be embedded; none where all is compiled."""
    count = max(1, min(os.cpu_count() or 1, len(units) // _UNITS_PER_WORKER))
    flags = {"xla_flags": spec.compilation.xla_flags, "tf_xla_flags": spec.compilation.tf_xla_flags}
    workers = [pool.get(**flags, number=number) for number in range(count)]
    with ThreadPoolExecutor(count) as executor:
        futures = [
            executor.submit(worker.call, "compile", {**arguments, "units": units[number::count]}, step=step)
            for number, worker in enumerate(workers)
        ]
        try:
            return {name for future in futures for name in future.result()["embed"]}
        except BaseException:
            for worker, future in zip(workers, futures, strict=True):
                if not future.done():
                    worker.kill()
            raise


def _correct(header: Path, toolchain: Toolchain) -> None:
    """Mend known faults of generated headers."""
    text = header.read_text()
    for pattern, replacement in toolchain.corrections:
        text = re.sub(pattern, replacement, text)
    header.write_text(text)


def _stabilize(folder: Path, prefix: str, toolchain: Toolchain, compiler: Compiler) -> None:
    """Take out of symbol names what differs from one compilation to the next."""
    if not toolchain.unstable_symbols:
        return
    pattern = re.compile(toolchain.unstable_symbols)
    header, code = folder / f"{prefix}.h", folder / f"{prefix}.o"
    text = header.read_text()
    renamed = {name: pattern.sub("", name, count=1) for name in defined_symbols(code) if pattern.match(name)}
    compiler.rename_symbols(code, renamed)
    header.write_text(pattern.sub("", text))


def _read(spec: ModelSpec, frozen: FrozenModel, folder: Path, key: Key) -> CompiledModel:
    embedded = set(json.loads((folder / _EMBEDDED).read_text()))
    units = tuple(
        CompiledUnit(
            batch_size=size,
            target=TARGETS[name],
            folder=folder / name,
            num_buffers=_number_of_buffers(folder / name / f"{_prefix(size)}.h"),
        )
        for name in spec.compilation.targets
        for size in spec.compilation.batch_sizes
    )
    weights = tuple(weight for weight in frozen.weights if weight["node"] not in embedded)
    return CompiledModel(folder=folder, key=key, units=units, weights=weights)


def _number_of_buffers(header: Path) -> int:
    found = re.search(r"\bkNumBuffers = ([0-9]+);", header.read_text())
    if found is None:
        raise ToolchainError(f"tfcompile wrote a header of an unknown form: {header}")
    return int(found.group(1))


def _require_shapes(header: Path, signature: Signature, batch_size: int) -> None:
    """ModelError where an output's compiled shape is not what the signature says for this batch size."""
    text = header.read_text()
    sizes = _result_sizes(header, text)
    for index, tensor in enumerate(signature.outputs):
        shape = _result_shape(header, text, index)
        if shape != tensor.shape_at(batch_size):
            raise ModelError(
                f"output {tensor.name!r} has the shape {list(shape)} at batch size {batch_size}, but the signature "
                f"promises {list(tensor.shape_at(batch_size))}: only the first axis may grow, and only with the batch",
                hint="reshape the output so that its first axis is the batch, and its other axes are fixed",
            )
        # An array whose size depends on values carries that size behind its elements.
        if sizes[index] != tensor.nbytes_at(batch_size):
            raise ModelError(
                f"the shape of output {tensor.name!r} depends on the values of the inputs",
                hint="compiled code has fixed shapes: give all rows, and a mask as another output",
            )


def _result_shape(header: Path, text: str, index: int) -> tuple[int, ...]:
    found = re.search(rf"\bkResult{index}Shapes\[\] = \{{([-0-9,\s]*)\}}", text)
    if found is None:
        raise ToolchainError(f"tfcompile wrote a header of an unknown form: {header}")
    numbers = tuple(int(word) for word in found.group(1).replace(",", " ").split())
    return () if numbers == (-1,) else numbers  # a scalar's list is one -1: C++ has no empty arrays


def _result_sizes(header: Path, text: str) -> list[int]:
    """Bytes of each result's buffer."""
    sizes = [int(packed) >> 2 for packed in re.findall(r"Encoded\w+Info\{([0-9]+)ULL,", text)]
    found = re.search(r"\bkResultIndexToBufferIndex\[kNumResults\] = \{([-0-9,\s]*)\}", text)
    if found is None:
        raise ToolchainError(f"tfcompile wrote a header of an unknown form: {header}")
    return [sizes[int(word)] for word in found.group(1).replace(",", " ").split()]
