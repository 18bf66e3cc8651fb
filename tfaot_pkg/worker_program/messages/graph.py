"""A model and its frozen graph: what `inspect`, `check` and `freeze` are asked and answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .listing import HloListing

Shape = tuple[int | None, ...]
"""Sizes of axes; None for the batch, and for what is not known."""


Axes = tuple[str, ...]
"""The symbol of each axis, "" for an axis without one; none if no axis has one. Shapes have their maxima."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A size that each call of the model brings."""

    name: str
    minimum: int
    maximum: int


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or output by the name in its signature; no `shape` if its rank is not known."""

    name: str
    dtype: str
    shape: Shape | None
    axes: Axes = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """An input of a frozen graph: the placeholder `node`. If its type carries another one, it `stands_for` that."""

    name: str
    node: str
    dtype: str
    shape: Shape
    axes: Axes = ()
    stands_for: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """An output of a frozen graph: the output `index` of `node`. `stands_for` is as in Feed."""

    name: str
    node: str
    index: int
    dtype: str
    shape: Shape
    axes: Axes = ()
    stands_for: str = ""

    def __post_init__(self) -> None:
        _require(self.index >= 0, "index must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """The values of the placeholder `node`, row-major, from `offset` on in the file of weights."""

    node: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def __post_init__(self) -> None:
        _require(min((self.offset, *self.shape)) >= 0, "offset and shape must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSignature:
    """A request about one signature of the SavedModel in `folder`, in its graph with these `tags`."""

    folder: str
    tags: tuple[str, ...]
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """Which signatures the SavedModel in `folder` has, without loading it. `signature` must suit libraries."""

    folder: str
    tags: tuple[str, ...]
    signature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """Inputs and outputs of one signature, sorted by name."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    signatures: Mapping[str, Interface]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(OfSignature):
    """The signature `signature` of the SavedModel in `folder`.

    `shapes` are those of inputs that the spec sets, `axes` the symbols in them; `inputs` and `outputs` are names in the
    order that it asks for, none for the order of the names. If it `is_built`, this program made the SavedModel, and it
    may hold calls of ours (own_calls.py). `operations` are names of those that the author supplies. Loops end after
    `max_iterations` iterations, if that is not 0.
    """

    shapes: Mapping[str, Shape]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    axes: Mapping[str, Axes] = field(default_factory=dict)
    symbols: tuple[Symbol, ...] = ()
    is_built: bool = False
    operations: tuple[str, ...] = ()
    max_iterations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """List the operations of `model`, and what is wrong with them; nothing is written."""

    model: Chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    operation: str
    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """`operations` counts those of each kind. No `hlo` if there are unsupported ones."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    warnings: tuple[str, ...]
    operations: Mapping[str, int]
    unsupported: tuple[Unsupported, ...]
    hlo: HloListing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Write `graph.pb`, and `weights.bin` if `weights` are shared, below `out`.

    Constants of `threshold` bytes and more are shared. With `constants`, `constants.bin` gets a .npy array for each
    parameter of the listing that is no input.
    """

    model: Chosen
    weights: Literal["shared", "embedded"]
    threshold: int
    out: str
    constants: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSegment:
    """A part of the graph for XLA (segments.py), in `NAME.pb`; its border is in the terms of that graph.

    `reason` names an operation in it that the compiler lacks. If it `has_weights`, one run for all rows would read them
    once. If it `iterates` until all matrices have converged, a row's answers for large numbers depend on the others.
    """

    name: str
    reason: str
    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]
    has_weights: bool
    iterates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """How much a model computes: bytes of all constants, and arithmetic operations of a run.

    A run takes `operations_per_call`, and `operations_per_row` more for each row of the batch.
    """

    constant_bytes: int
    operations_per_call: float
    operations_per_row: float

    def __post_init__(self) -> None:
        amounts = (self.constant_bytes, self.operations_per_call, self.operations_per_row)
        _require(all(math.isfinite(each) and each >= 0 for each in amounts), "amounts of work must be finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlinePart:
    """An operation of a group; `name` is below that of the group. It may be `inside` a loop or condition before it."""

    name: str
    op: str
    dtype: str
    shape: Shape | None
    inside: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineNode:
    """One operation, or a group of `members` operations; `inputs` are places in the list of nodes.

    `parts` are operations of the group, or of the loop or condition: the first ones if there are very many.
    """

    name: str
    op: str
    kind: Literal["input", "operation", "output"]
    dtype: str
    shape: Shape | None
    inputs: tuple[int, ...]
    members: int
    parts: tuple[OutlinePart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A frozen graph to look at (outline.py). Packages have it as graph.json, with the fields in this order."""

    format: int
    nodes: tuple[OutlineNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenGraph:
    """What a frozen model is, without the listings that only its analysis reads. `graph` is its outline, if any.

    `own_calls` are targets of calls of ours in it (own_calls.py), which only programs compute.
    """

    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]
    weights: tuple[Weight, ...]
    segments: tuple[FoundSegment, ...]
    warnings: tuple[str, ...]
    work: Work
    graph: Outline | None
    symbols: tuple[Symbol, ...] = ()
    own_calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """`hlo` lists the whole model, `parts` its segments, and `cut` the rest, which is None if there are no segments."""

    model: FrozenGraph
    hlo: HloListing
    cut: HloListing | None
    parts: tuple[HloListing, ...]
