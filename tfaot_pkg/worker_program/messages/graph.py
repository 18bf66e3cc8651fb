"""A model and its frozen graph: requests and answers of `inspect`, `check` and `freeze`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .listing import HloListing

Shape = tuple[int | None, ...]
"""Sizes of axes; None for the batch, and for unknown sizes."""


Axes = tuple[str, ...]
"""The symbol of each axis, "" for an axis without one; empty if no axis has one. Shapes have the maxima.

An axis of an output may be a formula of symbols (formulas.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A size that each call of the model determines."""

    name: str
    minimum: int
    maximum: int


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or output by its name in the signature; `shape` is None if the rank is not known."""

    name: str
    dtype: str
    shape: Shape | None
    axes: Axes = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """An input of a frozen graph: the placeholder `node`. If its type carries another one, `stands_for` names that."""

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
    """List the signatures of the SavedModel in `folder` without loading it.

    Libraries must support the types of `signature`, if it is one of them.
    """

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

    `shapes` are shapes of inputs that the spec sets, `axes` the symbols in them. `inputs` and `outputs` are names in
    the spec's order; if empty, names are sorted. `operations` are names of operations that the author supplies. Loops
    end after `max_iterations` iterations, if that is not 0.
    """

    shapes: Mapping[str, Shape]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    axes: Mapping[str, Axes] = field(default_factory=dict)
    symbols: tuple[Symbol, ...] = ()
    operations: tuple[str, ...] = ()
    max_iterations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FindSizes:
    """Find the sizes of symbols at which the model runs."""

    model: Chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolSizes:
    """The least and the largest size of one symbol."""

    name: str
    least: int
    most: int

    def __post_init__(self) -> None:
        _require(1 <= self.least <= self.most, "sizes must not be empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSizes:
    """`sizes` are empty if the model runs at none; `fault` says why it does not run at others, "" if it does.

    The symbols of each of `equal`, two at least, have one size in all calls that run.
    """

    sizes: tuple[SymbolSizes, ...]
    fault: str
    equal: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Count the operations of `model`, and list the unsupported ones; nothing is written.

    A model that does not compile at any batch size is tried at each of `batch_sizes`.
    """

    model: Chosen
    batch_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    operation: str
    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """`operations` has the number of operations of each kind. `hlo` is None if there are unsupported ones."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    warnings: tuple[str, ...]
    operations: Mapping[str, int]
    unsupported: tuple[Unsupported, ...]
    hlo: HloListing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Write `graph.pb` and `weights.bin`, .npy arrays one after the other, below `out`.

    With `constants`, the first arrays are the parameters of the listing except inputs. If `weights` are shared,
    constants of `threshold` bytes and more are placeholders in the graph, and in the file.
    """

    model: Chosen
    weights: Literal["shared", "embedded"]
    threshold: int
    out: str
    constants: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSegment:
    """A part of the graph for XLA (segments.py), in `NAME.pb`; `inputs` and `outputs` name nodes of that graph.

    `reason` names an operation in it that the compiler lacks.
    """

    name: str
    reason: str
    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]


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
    """One operation, or a group of `members` operations; `inputs` are indices in the list of nodes.

    `parts` are operations of the group, loop or condition: the first ones if there are too many.
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
    """The outline of a frozen graph for people (outline.py); graph.json in packages, with the fields in this order."""

    format: int
    nodes: tuple[OutlineNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenGraph:
    """A frozen model without the listings, which only its analysis reads. `graph` is its outline, if any."""

    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]
    weights: tuple[Weight, ...]
    segments: tuple[FoundSegment, ...]
    warnings: tuple[str, ...]
    graph: Outline | None
    symbols: tuple[Symbol, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """`hlo` lists the whole model, `parts` its segments, and `cut` the rest, which is None if there are no segments."""

    model: FrozenGraph
    hlo: HloListing
    cut: HloListing | None
    parts: tuple[HloListing, ...]
