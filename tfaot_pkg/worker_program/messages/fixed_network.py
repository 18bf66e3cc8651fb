"""Networks of fixed-point numbers, as the readers of hls4ml's and conifer's files write them and the host lowers them.

A number of such a network is an integer times 2**-fraction. Its type says how many bits it has, and what a conversion
to it does with those that it has not (AP types of Vitis HLS, UG1399, "Arbitrary Precision Fixed-Point Data Types").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

NETWORK, NUMBERS = "network.json", "numbers.npz"
"""Files that ReadHls4ml writes: a Network, and the arrays that its layers name."""

Rounding = Literal["TRN", "TRN_ZERO", "RND", "RND_ZERO", "RND_INF", "RND_MIN_INF", "RND_CONV"]
Overflow = Literal["WRAP", "SAT", "SAT_ZERO", "SAT_SYM"]

EXPONENT_BITS = "_exponent_bits"
"""Behind the name of weights that are powers of two: a number of the layer, the bits of their exponents."""
MOST_BITS = 1024
"""Of a type; the host says which of its types it computes."""
MOST_NUMBERS = 1 << 24
"""Of a result of a layer, for one row."""
_MOST_AXES = 8
"""In messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedType:
    """`ap_fixed<width, integer, rounding, overflow>`, or `ap_ufixed` if it is not `signed`.

    It is `binary` if it is a bit that stands for -1 or 1, and `whole` if it is `ap_int` or `ap_uint`.
    """

    width: int
    integer: int
    signed: bool
    rounding: Rounding = "TRN"
    overflow: Overflow = "WRAP"
    binary: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.width <= MOST_BITS or abs(self.integer) > MOST_BITS:
            raise ValueError(f"a number of {self.width} bits, {self.integer} of them before the point")

    def __str__(self) -> str:
        modes = "" if (self.rounding, self.overflow) == ("TRN", "WRAP") else f", {self.rounding}, {self.overflow}"
        return f"{'' if self.signed else 'u'}fixed<{self.width}, {self.integer}{modes}>"

    @property
    def fraction(self) -> int:
        return self.width - self.integer

    @property
    def low(self) -> int:
        """The least integer that it has; a conversion that saturates symmetrically never gives this one."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.width - self.signed)) - 1

    @property
    def least(self) -> int:
        """The least integer that a conversion gives."""
        return self.low + (self.signed and self.overflow == "SAT_SYM")


INT = FixedType(width=32, integer=32, signed=True, rounding="TRN_ZERO")
"""`int` of C, to which numbers are converted that are places in tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTensor:
    """A result of a layer: its shape without the batch, and the type of its elements."""

    name: str
    shape: tuple[int, ...]
    type: FixedType

    def __post_init__(self) -> None:
        if not all(size >= 1 for size in self.shape) or math.prod(self.shape) > MOST_NUMBERS:
            raise ValueError(f"a result of the shape {list(self.shape)[:_MOST_AXES]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLayer:
    """A layer of hls4ml, of the class `kind`, with its attributes by their names in hls4ml; or trees of conifer.

    `function` is the one that hls4ml calls for it, "" if it calls none. `inputs` are names of results. `arrays` are
    names of its arrays in the file NUMBERS, in which they are integers of their types: weights by the names of hls4ml,
    and tables by those of their functions.
    """

    name: str
    kind: str
    function: str
    inputs: tuple[str, ...]
    outputs: tuple[FixedTensor, ...]
    numbers: Mapping[str, int | float]
    texts: Mapping[str, str]
    lists: Mapping[str, tuple[int, ...]]
    types: Mapping[str, FixedType]
    arrays: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedNetwork:
    """`inputs` and `outputs` are names of layers' results; `io` is io_parallel or io_stream."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    io: str
    layers: tuple[FixedLayer, ...]


def table_size(layer: FixedLayer, name: str = "table_size") -> int:
    """The number of entries of a table, which hls4ml writes as a number or a text. Raises ValueError."""
    size = int(layer.texts.get(name, "") or layer.numbers.get(name, 1024))
    if not 1 <= size <= 1 << 20:
        raise ValueError(f"{layer.name}: a table of {size} numbers")
    return size


def softmax_sizes(layer: FixedLayer, given: FixedType) -> tuple[int, int]:
    """The sizes of both tables of a softmax, as `SoftmaxConfigTemplate` of hls4ml has them."""
    found = {**layer.numbers, **layer.texts}
    exponentials, inverses = (
        table_size(layer, name if name in found else "table_size") for name in ("exp_table_size", "inv_table_size")
    )
    if layer.texts.get("implementation", "stable") == "stable" and "inp_norm_t" not in layer.types and given.signed:
        exponentials = min(inverses, 1 << (given.width - 1))
    return exponentials, inverses


def norm_type(layer: FixedLayer, given: FixedType) -> FixedType:
    """The type of distances to the largest input of a stable softmax, which stands in hls4ml's template alone."""
    if "inp_norm_t" in layer.types:
        return layer.types["inp_norm_t"]
    return FixedType(width=given.width - given.signed, integer=given.integer - given.signed, signed=False)


def inverse_type(layer: FixedLayer) -> FixedType:
    """The type whose upper bits are the address of an inverse."""
    return layer.types.get("inv_inp_t", layer.types["exp_table_t"])


def small_negative(wanted: FixedType) -> int:
    """What `ap_int(double)` makes of numbers between -0.5 and 0: 1, by an error of Xilinx's header (ap_int_base.h)."""
    return _within(1, wanted)


def converted(values: np.ndarray, wanted: FixedType) -> np.ndarray:
    """Floats as integers of a type, as `ap_fixed(double)` converts them. An object array for more than 63 bits."""
    exact = [_whole(float(each), wanted) for each in np.asarray(values, np.float64).reshape(-1)]
    dtype = np.int64 if wanted.width <= 63 else object
    return np.array(exact, dtype).reshape(np.shape(values))


def _whole(value: float, wanted: FixedType) -> int:
    if not math.isfinite(value):
        # Its exponent is that of 2**1024: all bits that remain are zeros.
        return 0 if wanted.overflow == "WRAP" else _within(-(1 << 2000) if value < 0 else 1 << 2000, wanted)
    if wanted.whole and -0.5 < value < 0:
        return small_negative(wanted)
    numerator, denominator = value.as_integer_ratio()
    shift = wanted.fraction
    if shift >= 0:
        numerator <<= shift
    else:
        denominator <<= -shift
    return _within(rounded(numerator, denominator, wanted.rounding), wanted)


def rounded(numerator: int, denominator: int, rounding: Rounding) -> int:
    """The quotient of two integers, the second of them a positive power of two."""
    down, rest = divmod(numerator, denominator)
    if not rest or rounding == "TRN":
        return down
    if rounding == "TRN_ZERO":
        return down + (numerator < 0)
    if 2 * rest != denominator:
        return down + (2 * rest > denominator)
    return (
        down
        + {
            "RND": True,
            "RND_ZERO": numerator < 0,
            "RND_INF": numerator > 0,
            "RND_MIN_INF": False,
            "RND_CONV": bool(down & 1),
        }[rounding]
    )


def _within(whole: int, wanted: FixedType) -> int:
    if wanted.overflow == "WRAP":
        kept = whole & ((1 << wanted.width) - 1)
        return kept - (1 << wanted.width) if wanted.signed and kept >> (wanted.width - 1) else kept
    if wanted.overflow == "SAT_ZERO":
        return whole if wanted.low <= whole <= wanted.high else 0
    return min(max(whole, wanted.least), wanted.high)
