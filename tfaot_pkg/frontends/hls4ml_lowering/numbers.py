"""Arithmetic of fixed-point numbers on integers: exact, and then rounded and cut off as their types say.

Operations of AP types have results that lose nothing; only conversions do. So numbers here have bounds instead of
widths: they are int32 if these hold all of them, else int64, and a conversion that cannot overflow costs no operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.attributes import Cut, Dimensions, Gather, Slices
from tfaot_pkg.compiler.program import ROWS, Shape, Size, Unsupported
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.fixed_network import FixedType, small_negative

_SHORT, _LONG = 1 << 31, 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fixed:
    """Integers from `low` to `high`, times 2**-fraction."""

    value: Value
    fraction: int
    low: int
    high: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Without the batch."""
        return tuple(size.constant for size in self.value.sizes if size.is_constant)

    @property
    def largest(self) -> int:
        return max(abs(self.low), abs(self.high))


def bits_of(low: int, high: int) -> int:
    """The bits of the signed type that holds all numbers between the two: 32 or 64. Raises Unsupported."""
    if low >= -_SHORT and high < _SHORT:
        return 32
    if low >= -_LONG and high < _LONG:
        return 64
    raise Unsupported(f"numbers of {max(low.bit_length(), high.bit_length()) + 1} bits: types of up to 64 are computed")


class Arithmetic:
    """Operations on Fixed numbers, in the program under construction."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    # -- making numbers ------------------------------------------------------------------------------------------

    def constant(self, values: Array, type_: FixedType) -> Fixed:
        """Integers that are known, without the batch."""
        numbers = np.asarray(values)
        low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
        return Fixed(value=known(numbers, self._dtype(low, high)), fraction=type_.fraction, low=low, high=high)

    def whole(self, number: int, fraction: int = 0) -> Fixed:
        value = known(np.asarray(number), self._dtype(number, number))
        return Fixed(value=value, fraction=fraction, low=number, high=number)

    def of_floats(self, x: Value, type_: FixedType) -> Fixed:
        """float32 as `ap_fixed(double)` converts them: infinities and NaN have no bits below, and saturate by sign."""
        b = self.builder
        if type_.width > 52:
            raise Unsupported(f"an input of {type_.width} bits: up to 52 are read")
        wide = b.convert(x, "f64")
        scaled = b.map("multiply", wide, self._double(2.0**type_.fraction))
        whole = self._rounded(scaled, type_.rounding)
        if type_.overflow == "WRAP":
            made = self._wrapped_floats(whole, type_)
        else:
            made = self._bounded_floats(x, whole, type_)
        if type_.whole:
            is_small = b.map("and", b.compare("LT", wide, self._double(0)), b.compare("GT", wide, self._double(-0.5)))
            made = b.map("select", is_small, self._double(small_negative(type_)), made)
        dtype = self._dtype(type_.low, type_.high)
        # NaN and infinities, of which products are NaN here, become 0.
        return Fixed(value=b.convert(made, dtype), fraction=type_.fraction, low=type_.least, high=type_.high)

    def to_floats(self, x: Fixed) -> Value:
        """float32, rounded half to even."""
        b = self.builder
        if x.largest > 1 << 53:
            raise Unsupported("an output of more than 53 bits")
        if x.largest <= 1 << 24:
            value = b.convert(x.value, "f32")
            return b.map("multiply", value, known(np.asarray(2.0**-x.fraction), "f32"))
        exact = b.map("multiply", b.convert(x.value, "f64"), self._double(2.0**-x.fraction))
        return b.convert(exact, "f32")

    def _double(self, number: float) -> Value:
        return known(np.asarray(number), "f64")

    def _rounded(self, x: Value, rounding: str) -> Value:
        b, half = self.builder, self._double(0.5)
        down = b.op("floor", x)
        if rounding == "TRN":
            return down
        if rounding == "RND_CONV":
            return b.op("round-nearest-even", x)
        is_negative = b.compare("LT", x, self._double(0.0))
        one = b.map("add", down, self._double(1.0))
        rest = b.map("subtract", x, down)
        is_half, is_more = b.compare("EQ", rest, half), b.compare("GT", rest, half)
        if rounding == "TRN_ZERO":
            is_up = b.map("and", is_negative, b.compare("GT", rest, self._double(0.0)))
        else:
            is_up_at_half = {
                "RND": is_half,
                "RND_ZERO": b.map("and", is_half, is_negative),
                "RND_INF": b.map("and", is_half, b.op("not", is_negative)),
                "RND_MIN_INF": None,
            }[rounding]
            is_up = is_more if is_up_at_half is None else b.map("or", is_more, is_up_at_half)
        return b.map("select", is_up, one, down)

    def _wrapped_floats(self, whole: Value, type_: FixedType) -> Value:
        """Modulo a power of two: each step is exact."""
        b, modulus = self.builder, self._double(2.0**type_.width)
        turns = b.op("floor", b.map("multiply", whole, self._double(2.0**-type_.width)))
        rest = b.map("subtract", whole, b.map("multiply", turns, modulus))
        if not type_.signed:
            return rest
        is_upper = b.compare("GE", rest, self._double(2.0 ** (type_.width - 1)))
        return b.map("select", is_upper, b.map("subtract", rest, modulus), rest)

    def _bounded_floats(self, x: Value, whole: Value, type_: FixedType) -> Value:
        b = self.builder
        low, high = self._double(type_.least), self._double(type_.high)
        sign = b.compare("LT", b.op("bitcast-convert", x, stated=Shape("s32", x.sizes)), known(np.asarray(0), "s32"))
        is_nan = b.compare("NE", x, x)
        if type_.overflow == "SAT_ZERO":
            is_within = b.map("and", b.compare("GE", whole, self._double(type_.low)), b.compare("LE", whole, high))
            return b.map("select", is_within, whole, self._double(0.0))
        made = b.map("minimum", b.map("maximum", whole, low), high)
        ends = b.map("select", sign, low, high)
        return b.map("select", is_nan, ends, made)

    # -- exact operations ----------------------------------------------------------------------------------------

    def _dtype(self, low: int, high: int) -> str:
        return f"s{bits_of(low, high)}"

    def _held(self, x: Fixed, dtype: str) -> Value:
        return self.builder.convert(x.value, dtype)

    def _made(self, opcode: str, values: Sequence[Fixed], fraction: int, low: int, high: int) -> Fixed:
        """An operation whose operands and result are exact in one type."""
        ends = [low, high, *(each.low for each in values), *(each.high for each in values)]
        dtype = self._dtype(min(ends), max(ends))
        made = self.builder.map(opcode, *(self._held(each, dtype) for each in values))
        return self._narrow(Fixed(value=made, fraction=fraction, low=low, high=high))

    def _narrow(self, x: Fixed) -> Fixed:
        """In the narrowest type that holds its bounds."""
        return replace(x, value=self.builder.convert(x.value, self._dtype(x.low, x.high)))

    def aligned(self, *values: Fixed) -> list[Fixed]:
        """The same numbers with one fraction."""
        fraction = max(each.fraction for each in values)
        return [self.shifted(each, fraction - each.fraction) for each in values]

    def shifted(self, x: Fixed, places: int) -> Fixed:
        """The same number, with more bits behind the point."""
        if places == 0:
            return x
        low, high = x.low << places, x.high << places
        dtype = self._dtype(low, high)
        made = self.builder.map("shift-left", self._held(x, dtype), known(np.asarray(places), dtype))
        return Fixed(value=made, fraction=x.fraction + places, low=low, high=high)

    def add(self, first: Fixed, second: Fixed) -> Fixed:
        a, b = self.aligned(first, second)
        return self._made("add", [a, b], a.fraction, a.low + b.low, a.high + b.high)

    def subtract(self, first: Fixed, second: Fixed) -> Fixed:
        a, b = self.aligned(first, second)
        return self._made("subtract", [a, b], a.fraction, a.low - b.high, a.high - b.low)

    def negate(self, x: Fixed) -> Fixed:
        return self._made("negate", [x], x.fraction, -x.high, -x.low)

    def multiply(self, first: Fixed, second: Fixed) -> Fixed:
        ends = [a * b for a in (first.low, first.high) for b in (second.low, second.high)]
        fraction = first.fraction + second.fraction
        return self._made("multiply", [first, second], fraction, min(ends), max(ends))

    def divide(self, x: Fixed, divisor: Fixed, least: int) -> Fixed:
        """Integers divided by whole numbers from `least`, above 0, on; the quotient is cut off towards zero."""
        low, high = -(-x.low // least) if x.low < 0 else 0, x.high // least if x.high > 0 else 0
        return self._made("divide", [x, divisor], x.fraction, low, high)

    def maximum(self, first: Fixed, second: Fixed) -> Fixed:
        a, b = self.aligned(first, second)
        return self._made("maximum", [a, b], a.fraction, max(a.low, b.low), max(a.high, b.high))

    def minimum(self, first: Fixed, second: Fixed) -> Fixed:
        a, b = self.aligned(first, second)
        return self._made("minimum", [a, b], a.fraction, min(a.low, b.low), min(a.high, b.high))

    def compare(self, direction: str, first: Fixed, second: Fixed) -> Value:
        a, b = self.aligned(first, second)
        dtype = self._dtype(min(a.low, b.low), max(a.high, b.high))
        return self.builder.compare(direction, self._held(a, dtype), self._held(b, dtype))

    def select(self, which: Value, first: Fixed, second: Fixed) -> Fixed:
        a, b = self.aligned(first, second)
        low, high = min(a.low, b.low), max(a.high, b.high)
        dtype = self._dtype(low, high)
        made = self.builder.map("select", which, self._held(a, dtype), self._held(b, dtype))
        return Fixed(value=made, fraction=a.fraction, low=low, high=high)

    # -- conversions ---------------------------------------------------------------------------------------------

    def cast(self, x: Fixed, type_: FixedType) -> Fixed:
        """`x` as a number of a type: rounded, then cut off."""
        return self._cut_off(self._with_fraction(x, type_), type_)

    def _with_fraction(self, x: Fixed, type_: FixedType) -> Fixed:
        lost = x.fraction - type_.fraction
        if lost > 0:
            return self._rounded_off(x, lost, type_.rounding)
        if lost == 0:
            return x
        # Bits that leave a type which wraps around do not matter; those of others have to be there.
        kept = self._cut_off(x, replace(type_, width=max(1, type_.width + lost))) if type_.overflow == "WRAP" else x
        if type_.overflow == "WRAP" and type_.width + lost < 1:
            return replace(self.whole(0, type_.fraction), value=self._zeros(x))
        return self.shifted(kept, -lost)

    def _zeros(self, x: Fixed) -> Value:
        return self.builder.spread(known(np.asarray(0), "s32"), x.value.sizes)

    def _rounded_off(self, x: Fixed, lost: int, rounding: str) -> Fixed:
        """`x` without its last bits."""
        fraction = x.fraction - lost
        if x.largest < 1 << (lost - 1) and rounding not in ("TRN", "TRN_ZERO"):
            return Fixed(value=self._zeros(x), fraction=fraction, low=0, high=0)
        if rounding == "TRN_ZERO" and x.largest < 1 << lost:
            return Fixed(value=self._zeros(x), fraction=fraction, low=0, high=0)
        if x.value.known is None and lost > 62:
            lost, x = 62, replace(x, fraction=fraction + 62)  # what is left of smaller numbers is their sign
        half = 1 << (lost - 1)
        most = {"TRN": 0, "TRN_ZERO": (1 << lost) - 1}.get(rounding, half)
        dtype = self._dtype(x.low, x.high + most)
        b, value = self.builder, self._held(x, dtype)

        def number(whole: int) -> Value:
            return known(np.asarray(whole), dtype)

        sign = b.map("shift-right-arithmetic", value, number(int(dtype[1:]) - 1)) if x.low < 0 else number(0)
        match rounding:
            case "TRN":
                added = value
            case "TRN_ZERO":
                added = b.map("add", value, b.map("and", sign, number((1 << lost) - 1)))
            case "RND":
                added = b.map("add", value, number(half))
            case "RND_MIN_INF":
                added = b.map("add", value, number(half - 1))
            case "RND_INF":
                added = b.map("add", b.map("add", value, number(half)), sign)
            case "RND_ZERO":
                added = b.map("subtract", b.map("add", value, number(half - 1)), sign)
            case _:
                odd = b.map("and", b.map("shift-right-arithmetic", value, number(lost)), number(1))
                added = b.map("add", b.map("add", value, number(half - 1)), odd)
        made = b.map("shift-right-arithmetic", added, number(lost))
        # Some of these bounds are one too far.
        high = (x.high + most) >> lost
        return self._narrow(Fixed(value=made, fraction=fraction, low=x.low >> lost, high=high))

    def _cut_off(self, x: Fixed, type_: FixedType) -> Fixed:
        if type_.least <= x.low and x.high <= type_.high:
            return x
        match type_.overflow:
            case "WRAP":
                return self._wrapped(x, type_)
            case "SAT_ZERO":
                low, high = self.whole(type_.low, x.fraction), self.whole(type_.high, x.fraction)
                inside = self.builder.map("and", self.compare("GE", x, low), self.compare("LE", x, high))
                made = self.select(inside, x, self.whole(0, x.fraction))
                low_, high_ = max(min(x.low, 0), type_.low), min(max(x.high, 0), type_.high)
                return self._narrow(replace(made, low=low_, high=high_))
            case _:
                made = x
                if x.low < type_.least:
                    made = self.maximum(made, self.whole(type_.least, x.fraction))
                if x.high > type_.high:
                    made = self.minimum(made, self.whole(type_.high, x.fraction))
                return made

    def _wrapped(self, x: Fixed, type_: FixedType) -> Fixed:
        """The lower bits, with the highest of them as sign."""
        b = self.builder
        bits = max(bits_of(x.low, x.high), bits_of(type_.low, type_.high))
        dtype = f"s{bits}"
        value = self._held(x, dtype)
        if type_.signed:
            places = known(np.asarray(bits - type_.width), dtype)
            made = b.map("shift-right-arithmetic", b.map("shift-left", value, places), places)
        else:
            made = b.map("and", value, known(np.asarray(type_.high), dtype))
        return self._narrow(Fixed(value=made, fraction=x.fraction, low=type_.low, high=type_.high))

    # -- arrays --------------------------------------------------------------------------------------------------

    def reshape(self, x: Fixed, shape: Sequence[int]) -> Fixed:
        batch = () if x.value.known is not None else (ROWS,)
        return replace(x, value=self.builder.reshape(x.value, [*batch, *map(Size, shape)]))

    def transpose(self, x: Fixed, order: Sequence[int]) -> Fixed:
        """`order` is that of axes behind the batch, from 0 on."""
        return replace(x, value=self.builder.transpose(x.value, [0, *(axis + 1 for axis in order)]))

    def join(self, values: Sequence[Fixed], axis: int) -> Fixed:
        """Along an axis behind the batch."""
        same = self.aligned(*values)
        low, high = min(each.low for each in same), max(each.high for each in same)
        dtype = self._dtype(low, high)
        held = [self._held(each, dtype) for each in same]
        made = self.builder.op("concatenate", *held, attributes=Dimensions(dimensions=(axis + 1,)))
        return Fixed(value=made, fraction=same[0].fraction, low=low, high=high)

    def last(self, x: Fixed, place: int) -> Fixed:
        """One place of the last axis, of which it keeps a size of 1."""
        return self.cut(x, {x.value.rank - 2: (place, place + 1, 1)})

    def cut(self, x: Fixed, places: Mapping[int, tuple[int, int, int]]) -> Fixed:
        """Start, end and stride for axes behind the batch."""
        whole: list[Cut] = [(0, size, 1) for size in x.value.sizes]
        for axis, each in places.items():
            whole[axis + 1] = each
        return replace(x, value=self.builder.op("slice", x.value, attributes=Slices(slices=tuple(whole))))

    def looked_up(self, table: Array, fraction: int, places: Value) -> Fixed:
        """Elements of a table by their places, which are within it."""
        low, high = int(table.min()), int(table.max())
        numbers = known(table, self._dtype(low, high))
        made = self.builder.op(
            "gather", numbers, places,
            attributes=Gather(
                indexed=(0,), vector=places.rank, operand_batch=(), index_batch=(), collapsed=(0,), offset=(),
                sizes=(1,),
            ),
        )  # fmt: skip
        return Fixed(value=made, fraction=fraction, low=low, high=high)

    def total(self, x: Fixed, axis: int, ends: tuple[int, int]) -> Fixed:
        """The sum along an axis behind the batch, which is from `ends[0]` to `ends[1]`."""
        dtype = self._dtype(min(ends[0], x.low), max(ends[1], x.high))
        made = self.builder.reduce("add", self._held(x, dtype), [axis + 1], 0)
        return self._narrow(Fixed(value=made, fraction=x.fraction, low=ends[0], high=ends[1]))
