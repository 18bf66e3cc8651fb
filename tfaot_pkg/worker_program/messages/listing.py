"""The computation of a graph as plain instructions: hlo.py writes it, tfaot_pkg/analysis/program/hlo.py reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayShape:
    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleShape:
    parts: tuple[ArrayShape | TupleShape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAttributes:
    """Of an opcode that its operands and shape describe completely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Of a batch normalization: the dimension of its features, and the number that is added to variances."""

    feature: int
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    direction: str
    order: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """A constant; `values` is None if there are too many, or if XLA's protocol has no field for their type."""

    digest: str
    values: tuple[int, ...] | tuple[bool, ...] | tuple[float, ...] | None


Window = tuple[int, int, int, int, int, int]
"""Size, stride, padding before and after, dilation of the window, dilation of the array that it moves over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    window: tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """`input`, `kernel` and `output` are dimensions: batch (outputs of a kernel), feature, then the spatial ones."""

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]
    window: tuple[Window, ...]
    feature_groups: int
    batch_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCall:
    """`config` is the JSON configuration of a call of ours (authored.py); "" for other calls."""

    target: str
    config: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    contracting: tuple[tuple[int, ...], tuple[int, ...]]
    batch: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    length: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    indexed: tuple[int, ...]
    vector: int
    operand_batch: tuple[int, ...]
    index_batch: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Before, after and between the elements of each dimension."""

    padding: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    window: tuple[int, ...]
    inserted: tuple[int, ...]
    indexed: tuple[int, ...]
    vector: int
    operand_batch: tuple[int, ...]
    index_batch: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Start, limit and stride of each dimension."""

    slices: tuple[tuple[int, int, int], ...]


ATTRIBUTES: Mapping[str, type] = {
    "batch-norm-inference": Feature,
    "batch-norm-training": Feature,
    "batch-norm-grad": Feature,
    "broadcast": Dimensions,
    "compare": Comparison,
    "concatenate": Dimensions,
    "constant": Literals,
    "convolution": Convolution,
    "custom-call": CustomCall,
    "dot": Dot,
    "dynamic-slice": Sizes,
    "fft": Length,
    "gather": Gather,
    "get-dimension-size": Dimensions,
    "get-tuple-element": Index,
    "iota": Dimensions,
    "pad": Padding,
    "parameter": Number,
    "reduce": Dimensions,
    "reduce-window": Windows,
    "reverse": Dimensions,
    "scatter": Scatter,
    "select-and-scatter": Windows,
    "set-dimension-size": Dimensions,
    "slice": Slices,
    "sort": Dimensions,
    "transpose": Dimensions,
}
"""Opcode -> the attributes that its meaning depends on beside its operands; others have NoAttributes."""


Attributes = (
    NoAttributes | Feature | Dimensions | Comparison | Literals | Windows | Convolution | CustomCall | Dot | Sizes
    | Length | Gather | Index | Padding | Number | Scatter | Slices
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """`node` and `operation` are the name and the kind of TensorFlow's operation, "" if there is none."""

    id: int
    opcode: str
    node: str
    operation: str
    shape: ArrayShape | TupleShape
    operands: tuple[int, ...]
    called: tuple[int, ...]
    attributes: Attributes

    def __post_init__(self) -> None:
        wanted = ATTRIBUTES.get(self.opcode, NoAttributes)
        if type(self.attributes) is not wanted:
            raise ValueError(f"attributes of {self.opcode} must be {wanted.__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """Instructions, each after those that it uses."""

    id: int
    root: int
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """The graph at one batch size, and `sizes` of the other symbols; `entry` is a computation's id.

    Each computation comes after those that it calls.
    """

    batch_size: int
    entry: int
    computations: tuple[Computation, ...]
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeChoice:
    """An output, by its number, whose computation is another one at some sizes, because of the operation of `node`.

    It depends on the batch size if `by_batch`, and on `symbols`, other than as a polynomial.
    """

    output: int
    node: str
    operation: str
    by_batch: bool
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HloListing:
    """One module per probe (hlo.PROBES); none, and a `fault`, if the graph does not compile at these sizes.

    `samples` are modules at other sizes of the symbols beside the batch; the last one has all at their maxima.
    `choices` are found without tracing: modules say nothing about other sizes if there are any.
    """

    modules: tuple[Module, ...]
    fault: str
    samples: tuple[Module, ...] = ()
    choices: tuple[SizeChoice, ...] = ()
