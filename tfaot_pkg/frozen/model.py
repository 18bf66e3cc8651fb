"""`FrozenModel`: one signature of a SavedModel as a graph without variables, with the weights apart."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaot_pkg import resources
from tfaot_pkg.cache import BuildCache
from tfaot_pkg.code import code_digest
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.keys import Key, key_of
from tfaot_pkg.program.rows import rows_of
from tfaot_pkg.progress import Progress
from tfaot_pkg.rows import Rows
from tfaot_pkg.sandbox import required
from tfaot_pkg.signature import DType, Signature, Tensor
from tfaot_pkg.source.snapshot import Snapshot
from tfaot_pkg.source.tree import SourceTree
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.toolchain.worker import WorkerPool, from_worker

STAGE = "frozen"
_WORKER_PROGRAM = Path(__file__).resolve().parents[1] / "worker_program"

SHARED_FROM = 1024
"""Bytes from which on a constant is shared between batch sizes and targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How much a model computes (worker_program/work.py).

    Bytes of all constants, and arithmetic operations of one run: so many, and so many more for each row of the batch.
    """

    constant_bytes: int
    operations_per_call: float
    operations_per_row: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenModel:
    """`graph.pb` and, with shared weights, `weights.bin` in `folder`.

    `inputs`, `outputs` and `weights` are the worker's words for tensors (with the graph's node names), in the order of
    arguments and results; `signature` is the same for people. `layers` are what the kernel library can compute of it;
    their parameters lie behind the weights. `warnings` tell what compiled code does differently.
    `confinement` is the level of the sandbox (sandbox/level.py) that the model was loaded in.
    `work` is how much it computes, for estimates of costs. `outline` is the graph to look at, as values for JSON
    (worker_program/outline.py), None where it would say nothing. `rows` says where rows of a batch meet.
    """

    folder: Path
    key: Key
    signature: Signature
    inputs: tuple[Mapping[str, Any], ...]
    outputs: tuple[Mapping[str, Any], ...]
    weights: tuple[Mapping[str, Any], ...]
    layers: tuple[Layer, ...]
    warnings: tuple[str, ...]
    work: Work
    outline: Mapping[str, object] | None
    confinement: str
    rows: Rows

    @property
    def graph(self) -> Path:
        return self.folder / "graph.pb"

    @property
    def weights_file(self) -> Path | None:
        path = self.folder / "weights.bin"
        return path if path.exists() else None

    def weight(self, weight: Mapping[str, Any]) -> bytes:
        """The values of one of `weights`, or of the parameters of a layer, row-major."""
        with (self.folder / "weights.bin").open("rb") as blob:
            blob.seek(weight["offset"])
            return blob.read(weight_size(weight))


def weight_size(weight: Mapping[str, Any]) -> int:
    """Bytes of one of a model's weights."""
    shape: list[int] = weight["shape"]
    return math.prod(shape) * DType(weight["dtype"]).itemsize


def worker_program_digest() -> str:
    """Digest of the program that runs in toolchains: a part of every key that depends on what it does."""
    return resources.digest(_WORKER_PROGRAM)


def frozen_key(spec: ModelSpec, source: SourceTree, toolchain_identity: str) -> Key:
    return key_of(
        STAGE,
        code_digest(__name__),
        {
            "source": source.digest,
            "signature": spec.model.serving_key,
            "tags": list(spec.model.tags),
            "shapes": {name: list(shape) for name, shape in spec.model.shapes.items()},
            "order": _order(spec),
            "weights": spec.compilation.weights,
            "shared_from": SHARED_FROM,
            "toolchain": toolchain_identity,
            "worker": worker_program_digest(),
        },
    )


def freeze(
    spec: ModelSpec, snapshot: Snapshot, *, key: Key, pool: WorkerPool, cache: BuildCache, progress: Progress
) -> FrozenModel:
    """The frozen model of `spec`, from the cache where it is there.

    Raises ModelError, SourceError (files that changed), ToolchainError, StorageError.
    """
    with progress.step("freeze") as step:
        if cache.has(STAGE, key):
            step.skip("cached")
        folder = cache.get_or_make(STAGE, key, lambda folder: _make(spec, snapshot, key, pool, folder))
    return _read(folder, key)


def freeze_arguments(spec: ModelSpec, model: Path) -> dict[str, object]:
    """What the worker needs to know of the model, which lies at `model`."""
    return {
        "folder": str(model),
        "tags": list(spec.model.tags),
        "signature": spec.model.serving_key,
        "shapes": {name: list(shape) for name, shape in spec.model.shapes.items()},
        "order": _order(spec),
        "weights": spec.compilation.weights,
        "threshold": SHARED_FROM,
    }


def _order(spec: ModelSpec) -> dict[str, list[str]]:
    return {"inputs": list(spec.model.inputs), "outputs": list(spec.model.outputs)}


def _make(spec: ModelSpec, snapshot: Snapshot, key: Key, pool: WorkerPool, folder: Path) -> None:
    made = pool.new_folder(STAGE)
    with snapshot.named() as model:
        description = pool.get().call("freeze", {**freeze_arguments(spec, model), "out": str(made)})
    description["confinement"] = required().level.value
    pool.take(made, folder)
    with from_worker():
        description["rows"] = rows_of(description.pop("hlo"), signature_of(description)).document()
        (folder / "frozen.json").write_text(json.dumps(description, indent=1))
        _read(folder, key)


def _read(folder: Path, key: Key) -> FrozenModel:
    description = json.loads((folder / "frozen.json").read_text())
    rows = Rows.from_document(description["rows"])
    return FrozenModel(
        folder=folder,
        key=key,
        signature=signature_of(description),
        inputs=tuple(description["inputs"]),
        outputs=tuple(description["outputs"]),
        weights=tuple(description["weights"]),
        layers=tuple(Layer.from_worker(item) for item in description["layers"]),
        warnings=(*description["warnings"], *rows.warnings()),
        work=Work(**description["work"]),
        outline=description["graph"],
        confinement=description["confinement"],
        rows=rows,
    )


def signature_of(description: Mapping[str, Any]) -> Signature:
    """The worker's inputs and outputs as a Signature; an output's first unknown axis is the batch."""

    def tensors(items: list[Mapping[str, Any]]) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(name=item["name"], dtype=DType(item["dtype"]), shape=tuple(item["shape"] or ())) for item in items
        )

    return Signature(inputs=tensors(description["inputs"]), outputs=tensors(description["outputs"]))
