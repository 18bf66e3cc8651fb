"""Random programs, and the check that their code gives what the interpreter does.

Some have an axis whose size each call brings. All numbers are small integers, also those of floats, so that no order of additions changes a sum.
Run as a program, it checks code with sanitizers: `python -m tests.compiler.random_programs KERNELS FOLDER START STOP fixed|symbolic`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tests.compiler.conftest import FLAGS, compiled_together
from tests.compiler.test_operations import N, Sizes, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import NUMPY_TYPES, Program, Size, Symbol
from tfaot_pkg.ground.arrays import Array

Random = np.random.Generator
_ROWS = (1, 7)
_LENGTH = 12
_SYMBOL = Symbol("n", 9)
_CALLS = (1, 2, 6, 9)
"""Sizes of the symbol."""

Value = tuple[int, tuple[Size, ...], str]


def _sizes(sizes: Sizes) -> tuple[Size, ...]:
    return tuple(size if isinstance(size, Size) else Size(size) for size in sizes)


class Grower:
    """Adds random operations to a program; values have the batch first, then one or two more axes.

    With `symbolic`, sizes of the inputs are `_SYMBOL`, and that of others follow.
    """

    def __init__(self, random: Random, *, symbolic: bool = False) -> None:
        self.random, self.writer = random, Writer()
        self.values: list[Value] = []
        self.symbols = (_SYMBOL,) if symbolic else ()
        n = Size.symbol(_SYMBOL.name)
        shapes: tuple[Sizes, Sizes] = ((n, 6), (n,)) if symbolic else ((4, 6), (5,))
        for dtype in ("f32", "s32"):
            for sizes in shapes:
                self.values.append((self.writer.input(*sizes, dtype=dtype), _sizes(sizes), dtype))
        # What needs sizes that are known finds some.
        self.fixed: list[Value] = []
        for dtype in ("f32", "s32"):
            self.fixed.append((self.writer.spread(2, 4, 6, dtype=dtype), _sizes((4, 6)), dtype))

    def any(self, dtype: str | None = None, rank: int | None = None, *, known: tuple[int, ...] = ()) -> Value:
        """Whose sizes at the places `known` are numbers."""
        fits = [
            value
            for value in self.values
            if dtype in (None, value[2])
            and (rank is None or len(value[1]) == rank)
            and all(value[1][place].is_constant for place in known)
        ] or [value for value in self.fixed if dtype in (None, value[2])]
        return fits[self.random.integers(len(fits))]

    def add(self, opcode: str, sizes: Sizes, dtype: str, /, *operands: int, **more: Any) -> int:
        made = self.writer.add(opcode, (N, *sizes), *operands, dtype=dtype, **more)
        self.values.append((made, _sizes(sizes), dtype))
        return made

    def few(self, *choices: Any) -> Any:
        return choices[self.random.integers(len(choices))]

    # Operations

    def one(self) -> None:
        value, sizes, dtype = self.any()
        self.add(self.few("abs", "negate", "sign"), sizes, dtype, value)

    def two(self) -> None:
        """And within limits, so that floats stay exact."""
        first, sizes, dtype = self.any()
        same = [v[0] for v in self.values if v[1:] == (sizes, dtype)]
        opcodes = ["add", "subtract", "multiply", "maximum", "minimum"]
        opcodes += ["divide", "remainder", "and", "xor", "shift-left", "shift-right-arithmetic"] * (dtype == "s32")
        made = self.writer.add(self.few(*opcodes), (N, *sizes), first, self.few(*same), dtype=dtype)
        low, high = (self.writer.spread(bound, *sizes, dtype=dtype) for bound in (-9, 9))
        self.add("clamp", sizes, dtype, low, made, high)

    def chosen(self) -> None:
        first, sizes, dtype = self.any()
        second = self.few(*[v[0] for v in self.values if v[1:] == (sizes, dtype)])
        direction = self.few("EQ", "NE", "LT", "LE", "GT", "GE")
        test = self.writer.add("compare", (N, *sizes), first, second, dtype="pred", direction=direction)
        self.add("select", sizes, dtype, test, second, first)

    def converted(self) -> None:
        value, sizes, dtype = self.any()
        self.add("convert", sizes, "s32" if dtype == "f32" else "f32", value)

    def moved(self) -> None:
        value, (rows, columns), dtype = self.any(rank=2)
        match self.random.integers(3):
            case 0:
                self.add("transpose", (columns, rows), dtype, value, dimensions=(0, 2, 1))
            case 1:
                self.add("reverse", (rows, columns), dtype, value, dimensions=(self.few(1, 2),))
            case _:
                self.add("reshape", (rows * columns,), dtype, value)

    def cut(self) -> None:
        value, (rows, size), dtype = self.any(rank=2, known=(1,))
        columns = size.constant
        step = self.few(1, 2)
        kept = -(-(columns - 1) // step) if columns > 1 else 1
        start = 1 if columns > 1 else 0
        self.add("slice", (rows, kept), dtype, value, slices=((0, N, 1), (0, rows, 1), (start, columns, step)))

    def padded(self) -> None:
        value, (rows, columns), dtype = self.any(rank=2)
        inner = self.few(0, 1)
        wide = rows + Size(1) + (rows + Size(-1)) * Size(inner)
        fill = self.writer.constant(3, dtype)
        less = 1 if columns.is_constant else 0
        made = (wide, columns + Size(-less))
        self.add("pad", made, dtype, value, fill, padding=((0, 0, 0), (1, 0, inner), (0, -less, 0)))

    def joined(self) -> None:
        value, sizes, dtype = self.any()
        others = [v for v in self.values if v[2] == dtype and v[1][1:] == sizes[1:] and len(v[1]) == len(sizes)]
        other = self.few(*others)
        self.add("concatenate", (sizes[0] + other[1][0], *sizes[1:]), dtype, value, other[0], dimensions=(1,))

    def spread(self) -> None:
        value, sizes, dtype = self.any(rank=1)
        size = self.few(2, 3)
        axes, made = self.few(((0, 1), (*sizes, size)), ((0, 2), (size, *sizes)))
        self.add("broadcast", made, dtype, value, dimensions=axes)

    def reduced(self) -> None:
        value, sizes, dtype = self.any(rank=2)
        opcode, start = self.few(("add", 0), ("maximum", -9), ("minimum", 9))
        region, axis = self.writer.reducer(opcode, dtype), self.few(1, 2)
        kept = (sizes[2 - axis],)
        start_at = self.writer.constant(start, dtype)
        made = self.writer.add(
            "reduce", (N, *kept), value, start_at, dtype=dtype, dimensions=(axis,), regions=(region,)
        )
        low, high = (self.writer.spread(bound, *kept, dtype=dtype) for bound in (-9, 9))
        self.add("clamp", kept, dtype, low, made, high)

    def windows(self) -> None:
        value, (known, columns), dtype = self.any(rank=2, known=(0,))
        rows = known.constant
        size, stride = self.few(1, 2, rows), self.few(1, 2)
        low, high = self.few(0, size - 1), self.few(0, 1)
        count = (rows + low + high - size) // stride + 1
        region, start = self.writer.reducer("maximum", dtype), self.writer.constant(-9, dtype)
        whole = (1, 1, 0, 0, 1, 1)
        window = (whole, (size, stride, low, high, 1, 1), whole)
        self.add("reduce-window", (count, columns), dtype, value, start, window=window, regions=(region,))

    def multiplied(self) -> None:
        value, (rows, columns), dtype = self.any(rank=2, known=(1,))
        weights = self.writer.constant(self.random.integers(-2, 3, (columns.constant, 3)), dtype)
        made = self.writer.add(
            "dot", (N, rows, 3), value, weights, dtype=dtype, contracting=((2,), (0,)), batch=((), ())
        )
        low, high = (self.writer.spread(bound, rows, 3, dtype=dtype) for bound in (-9, 9))
        self.add("clamp", (rows, 3), dtype, low, made, high)

    def sorted(self) -> None:
        value, sizes, dtype = self.any()
        axis = self.random.integers(1, len(sizes) + 1)
        region = self.writer.reducer("compare", dtype, result="pred", direction=self.few("LT", "GT"))
        self.add("sort", sizes, dtype, value, dimensions=(int(axis),), regions=(region,))

    def gathered(self) -> None:
        """With indices beyond the array, which are moved into it."""
        value, (_, columns), dtype = self.any(rank=2)
        index, (count,), _ = self.any("s32", rank=1)
        own = self.writer.add("iota", (N, count, 1), dtype="s32", dimensions=(0,))
        one = self.writer.add("reshape", (N, count, 1), index, dtype="s32")
        both = self.writer.add("concatenate", (N, count, 2), own, one, dtype="s32", dimensions=(2,))
        self.add(
            "gather", (count, columns), dtype, value, both, offset=(2,), collapsed=(0, 1), indexed=(0, 1), vector=2,
            operand_batch=(), index_batch=(), sizes=(1, 1, columns),
        )  # fmt: skip

    def scattered(self) -> None:
        """With indices beyond the array, whose updates are left out."""
        value, (rows, columns), dtype = self.any(rank=2)
        index, (count,), _ = self.any("s32", rank=1)
        own = self.writer.add("iota", (N, count, 1), dtype="s32", dimensions=(0,))
        one = self.writer.add("reshape", (N, count, 1), index, dtype="s32")
        both = self.writer.add("concatenate", (N, count, 2), own, one, dtype="s32", dimensions=(2,))
        update = self.writer.spread(2, count, columns, dtype=dtype)
        region = self.writer.reducer("maximum", dtype)
        self.add(
            "scatter", (rows, columns), dtype, value, both, update, window=(2,), inserted=(0, 1), indexed=(0, 1),
            vector=2, operand_batch=(), index_batch=(), regions=(region,),
        )  # fmt: skip

    def program(self) -> Program:
        steps: list[Callable[[], None]] = [
            self.one, self.two, self.two, self.chosen, self.converted, self.moved, self.cut, self.padded, self.joined,
            self.spread, self.reduced, self.windows, self.multiplied, self.sorted, self.gathered, self.scattered,
        ]  # fmt: skip
        for _ in range(_LENGTH):
            self.few(*steps)()
        results = [value for value, _, _ in self.values[-3:]]
        return self.writer.program(*results, self.any("f32")[0], symbols=self.symbols)


def inputs_of(program: Program, rows: int, sizes: Mapping[str, int], random: Random) -> list[Array]:
    shapes = [parameter.shape for parameter in program.entry.parameters]
    return [random.integers(-4, 9, shape.at(rows, sizes)).astype(NUMPY_TYPES[shape.dtype]) for shape in shapes]


SANITIZED = (*FLAGS, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def check(seeds: range, kernels: Path, *, symbolic: bool = False, flags: Sequence[str] = FLAGS) -> None:
    """Compare programs of `seeds` with the interpreter; `flags` are those of `kernels`."""
    programs = {str(seed): Grower(np.random.default_rng(seed), symbolic=symbolic).program() for seed in seeds}
    simple: Mapping[str, Program] = {name: recognize(simplify(each)) for name, each in programs.items()}
    codes = compiled_together(simple, kernels, block=4, flags=flags)
    for name, program in programs.items():
        for rows, size in product(_ROWS, _CALLS if symbolic else (0,)):
            sizes = {_SYMBOL.name: size} if symbolic else {}
            inputs = inputs_of(program, rows, sizes, np.random.default_rng(rows))
            wanted = interpret.run(program, rows, inputs, sizes)
            for given, right in zip(codes[name].at_sizes([*sizes.values()], *inputs), wanted, strict=True):
                np.testing.assert_array_equal(given, right, err_msg=f"seed {name}, {rows} rows, {sizes}")


if __name__ == "__main__":
    made, first, last, kind = sys.argv[1:]
    check(range(int(first), int(last)), Path(made), symbolic=kind == "symbolic", flags=SANITIZED)
