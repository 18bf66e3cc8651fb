"""The attributes of operations, one frozen type for each kind (operations.py says which opcode has which).

Numbers that may depend on symbols are `Extent`. Names and meanings for HLO's operations are those of the worker's
listing (worker_program/messages/listing.py) and of https://openxla.org/xla/operation_semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tfaot_pkg.compiler.program import Attributes, Extent, HasAttributes, Literal, Operation, Size
from tfaot_pkg.worker_program.messages.forest import Forest

Axes = tuple[int, ...]
Extents = tuple[Extent, ...]
Cut = tuple[Extent, Extent, int]
"""Start, limit and stride of a slice."""
Edge = tuple[Extent, Extent, Extent]
"""Padding before, after and between elements."""
Side = tuple[Extent, Extent, Extent, Extent, int, int]
"""Of a window: size, stride, padding before and after, dilation of the window, dilation of the array under it."""


class MalformedAttributes(ValueError):
    """Attributes that an operation does not have, or of another type: the message names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions(Attributes):
    """Axes that an operation works along; of a broadcast, the axes of the result that those of the operand become."""

    dimensions: Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature(Attributes):
    """Of a batch normalization: the axis of its features, and the number that is added to variances."""

    feature: int
    epsilon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Attributes):
    """`direction` is EQ, NE, LT, LE, GT or GE; `order` TOTALORDER if NaN have a place among numbers."""

    direction: str
    order: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Attributes):
    """The elements of a constant."""

    literal: Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Element(Attributes):
    """The number of a result among several."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices(Attributes):
    slices: tuple[Cut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Attributes):
    padding: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes(Attributes):
    """The sizes of what is cut out of an array."""

    sizes: Extents


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(Attributes):
    window: tuple[Side, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution(Attributes):
    """`input`, `kernel` and `output` are axes: batch (outputs of a kernel), feature, then the spatial ones."""

    input: Axes
    kernel: Axes
    output: Axes
    window: tuple[Side, ...]
    feature_groups: int
    batch_groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot(Attributes):
    """Axes of both operands; `order`, if any, are the axes of HLO's result that the axes of the result are.

    With `in_bfloat16` products are those of `bfloat16_dense`, along the one axis of each that is summed over.
    """

    contracting: tuple[Axes, Axes]
    batch: tuple[Axes, Axes]
    order: Axes = ()
    in_bfloat16: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed(Attributes):
    """How vectors of indices, along the axis `vector`, address an array along its axes `indexed`."""

    indexed: Axes
    vector: int
    operand_batch: Axes
    index_batch: Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Indexed):
    offset: Axes
    collapsed: Axes
    sizes: Extents


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter(Indexed):
    window: Axes
    inserted: Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomCall(Attributes):
    """`config` is the JSON configuration of a call of ours (worker_program/authored.py)."""

    target: str
    config: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees(Attributes):
    forest: Forest


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(Attributes):
    """`activation` is one of the kernel library's (kernels.h), or "none"."""

    activation: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense(Layer):
    """`weights_axis` is the axis of the weights that is summed over."""

    weights_axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized(Attributes):
    """Bytes of sums: scaled and rounded sums plus `zero`, between `low` and `high`; of no meaning without scales.

    `residual`, if bytes are added to these: their zero point, and `zero`, `low` and `high` of the result.
    """

    zero: int = 0
    low: int = 0
    high: int = 0
    residual: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize(Attributes):
    """Floats over `scale` become bytes: rounded half to even, plus `zero`, between `low` and `high`."""

    scale: float
    zero: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2d(Layer):
    """`window` is the kernel library's Window."""

    window: Extents
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bfloat16Dense(Layer):
    """`parts`: of how many numbers of bfloat16 each input and weight is the sum (bfloat16.py).

    `adds`: whether the last operand is added to the result, before the activation.
    """

    parts: int = 1
    adds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bfloat16Conv2d(Conv2d):
    """The others as in Bfloat16Dense."""

    parts: int = 1
    adds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedConv2d(Quantized):
    """`window` and `groups` as in Conv2d; `padding` is the byte around the image."""

    window: Extents
    padding: int
    groups: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposedConv2d(Layer):
    sides: tuple[Side, ...]
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2dMaxPool(Conv2d):
    """`pool` is the second Window, and `keeps_nan` its rule (MaxPool)."""

    pool: tuple[int, ...]
    keeps_nan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool(Attributes):
    """`keeps_nan`: windows with NaN give NaN, as in PyTorch; otherwise NaN is ignored, as in TensorFlow."""

    window: tuple[int, ...]
    keeps_nan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resample(Attributes):
    """The axes of the weights that are the rows and columns of the result, and those of the window."""

    axes: Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Along(Attributes):
    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Attributes):
    """`zeros`: whether 0.0 and -0.0 are "equal", so that the lower index comes first, or "signed" (total order)."""

    k: Extent
    largest: bool
    zeros: str


def in_total_order(operation: Operation) -> bool:
    """Whether it compares NaN and zeros by their signs, too."""
    attributes = operation.attributes
    return isinstance(attributes, Comparison) and attributes.order == "TOTALORDER"


def numbers(extents: Iterable[Extent]) -> tuple[int, ...] | None:
    """None if one depends on a symbol."""
    listed = tuple(extents)
    found = tuple(each for each in listed if isinstance(each, int))
    return found if len(found) == len(listed) else None


def parts_of(operation: HasAttributes) -> int:
    """The `parts` of a layer of bfloat16. Raises TypeError for others."""
    attributes = operation.attributes
    return attributes.parts if isinstance(attributes, Bfloat16Conv2d) else Bfloat16Dense.of(operation).parts


def adds(operation: HasAttributes) -> bool:
    """Likewise `adds`."""
    attributes = operation.attributes
    return attributes.adds if isinstance(attributes, Bfloat16Conv2d) else Bfloat16Dense.of(operation).adds


_A = TypeVar("_A", bound=Attributes)


def attributes_of(kind: type[_A], given: Mapping[str, object]) -> _A:
    """The `kind` with the values `given`. Raises MalformedAttributes if it has other fields, or of other types."""
    hints = field_types(kind)
    if unknown := given.keys() - hints.keys():
        raise MalformedAttributes(f"no attribute {', '.join(sorted(unknown))}")
    required = {each.name for each in fields(kind) if each.default is MISSING}
    if missing := required - given.keys():
        raise MalformedAttributes(f"it lacks {', '.join(sorted(missing))}")
    for name, value in given.items():
        if not _is(value, hints[name]):
            raise MalformedAttributes(f"{name} is not of its type")
    return kind(**given)


def check_types(attributes: Attributes) -> None:
    """Raises MalformedAttributes if a field has a value of another type than it is declared with."""
    for name, hint in field_types(type(attributes)).items():
        if not _is(getattr(attributes, name), hint):
            raise MalformedAttributes(f"{name} is not of its type")


_TYPES: dict[type[Attributes], Mapping[str, Any]] = {}


def field_types(kind: type[Attributes]) -> Mapping[str, Any]:
    """The types of its fields: each kind's are evaluated once."""
    if kind not in _TYPES:
        _TYPES[kind] = get_type_hints(kind)
    return _TYPES[kind]


def _is(value: object, hint: Any) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(_is(value, each) for each in get_args(hint))
    if get_origin(hint) is not tuple:
        return type(value) is hint
    if not isinstance(value, tuple):
        return False
    parts = get_args(hint)
    if parts[-1] is Ellipsis:
        return all(_is(each, parts[0]) for each in value)
    return len(value) == len(parts) and all(map(_is, value, parts))


def with_sizes(attributes: _A, change: Callable[[Size], Size]) -> _A:
    """`attributes` with each Size changed."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        return change(value) if isinstance(value, Size) else value

    return replace(attributes, **{each.name: changed(getattr(attributes, each.name)) for each in fields(attributes)})


def varies(attributes: Attributes) -> bool:
    """Whether a number depends on a symbol."""
    return any(_varies(getattr(attributes, name)) for name in field_types(type(attributes)))


def _varies(value: object) -> bool:
    return any(map(_varies, value)) if isinstance(value, tuple) else isinstance(value, Size) and not value.is_constant
