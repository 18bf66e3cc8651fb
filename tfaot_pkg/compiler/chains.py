"""Loops over the same rows that follow one another: a tile of rows goes through all of them in registers.

Such as the mean of each row, the differences from it, their squares' mean and the quotients of a layer normalization.
Each loop alone would write memory that the next one reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tfaot_pkg.compiler.affine import Axes, Index, cpp
from tfaot_pkg.compiler.elements import Access, Element, Operand, Store, depending_on, names_in
from tfaot_pkg.compiler.expressions import LONG
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Size
from tfaot_pkg.compiler.rows import LONGEST
from tfaot_pkg.compiler.writer import Body, Writer

_MOST = 16
"""Steps of a chain at most."""
_LONGEST = 64
"""Elements of a row at most: four vectors of AVX-512."""
_MOST_WORK, _LONG = 40, 8
"""Statements of a chain over rows that fill vectors, at most, and how many a function of `LONG` counts for.

A tile has code for each of its vectors.
"""

_SOFTMAX = "softmax("


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A loop over `rows` rows. It writes `value` to `target`: elements of rows, or a number for each row.

    `size` is that of the rows that it reads; 0 if it reads numbers only. `call` begins the tile's function.
    """

    call: str
    rows: Size
    size: int
    body: Body
    accesses: Sequence[Access]
    value: Operand
    target: Access
    plain: Callable[[], None]
    """Writes the loop alone."""

    @property
    def is_reduced(self) -> bool:
        return self.size > 0 and len(self.target.index.factors) == 1

    @property
    def combines(self) -> bool:
        """Whether it computes something of all elements of a row."""
        return self.is_reduced or self.call == _SOFTMAX

    @property
    def work(self) -> int:
        return len(self.body.statements) + _LONG * len(self.body.opcodes & LONG)


def step_of(
    call: str, extents: Sequence[Size], body: Body, accesses: Sequence[Access], value: Operand, target: Access,
    plain: Callable[[], None],
) -> Step | None:  # fmt: skip
    """A loop over (rows, elements) or rows alone as a step of a chain, if it can be one.

    The indices of accesses have a factor for each of these axes; so has that of `target`, without the second one for
    numbers.
    """
    size = extents[1].constant if len(extents) == 2 and extents[1].is_constant else 0
    if len(extents) > 2 or (len(extents) == 2 and not 1 < size <= _LONGEST) or not body.by_vectors or body.counted:
        return None
    types = {access.dtype for access in (*accesses, target)} | body.types
    if not types <= {"f32", "pred"} or (target.dtype == "pred" and size):
        return None
    rows = {(Size(size), ONE), (ZERO, ONE), (ONE, ZERO), (ZERO, ZERO)} if size else {(ONE,), (ZERO,)}
    written = (Size(size), ONE) if len(target.index.factors) == 2 else (ONE,)
    if target.index.factors != written or any(access.index.factors not in rows for access in accesses):
        return None
    return Step(
        call=call, rows=extents[0], size=size, body=body, accesses=accesses, value=value, target=target, plain=plain
    )


def write_or_wait(
    writer: Writer, axes: Axes, body: Body, accesses: Sequence[Access], outputs: Sequence[Store],
    plain: Callable[[], None],
) -> None:  # fmt: skip
    """Write a loop over rows and their elements, or over rows, with `plain`; or let it wait for others."""
    step, call = None, "each(" if len(axes.extents) == 2 else "numbers("
    if len(outputs) == 1:
        step = step_of(call, axes.extents, body, accesses, outputs[0].result, outputs[0].access, plain)
    if step is None:
        plain()
    else:
        add(writer, step)


def add_softmax(writer: Writer, rows: Size, size: int, source: str, target: str) -> None:
    """A softmax of rows: a step, or a call of the kernel library."""

    def plain() -> None:
        many = "" if rows != Size(0, 1) else ", false"  # one per row of the batch, as at the end of a classifier
        writer.touch(source)
        writer.line(f"softmax<{size}{many}>({cpp(rows)}, {source}, {target});")
        writer.touch(target)

    index = Index(ZERO, (Size(size), ONE))
    read, written = (Access(name, base, "f32", index) for name, base in (("p0", source), ("o0", target)))
    body = Body((rows, Size(size)), opcodes={"exponential"})
    step = step_of(_SOFTMAX, body.extents, body, [read], Element("x0"), written, plain)
    if step is None:
        plain()
    else:
        add(writer, step)


def add(writer: Writer, step: Step) -> None:
    """Let a loop wait for those that may follow it in a chain, or write it."""
    chain = writer.waiting
    if not isinstance(chain, Chain) or not chain.takes(step):
        writer.write_waiting()
        if not step.size or _have_truth(step.accesses):
            step.plain()
            return
        chain = Chain(writer=writer)
    chain.steps.append((step, writer.maker))
    writer.wait(chain)


def _have_truth(accesses: Sequence[Access]) -> bool:
    """Whether truth values are read from memory: chains have those of rows in registers only."""
    return any(access.dtype == "pred" for access in accesses)


@dataclass(slots=True, kw_only=True)
class Chain:
    writer: Writer
    steps: list[tuple[Step, Operation | None]] = field(default_factory=list)

    def takes(self, step: Step) -> bool:
        """Whether a loop may follow: it reads what the others wrote row by row, and writes nothing that they use."""
        first = self.steps[0][0]
        if step.rows != first.rows or step.size not in (0, first.size) or len(self.steps) == _MOST:
            return False
        if first.size > LONGEST and sum(each.work for each, _ in self.steps) + step.work > _MOST_WORK:
            return False
        made = [each.target for each, _ in self.steps]
        read = [access for each, _ in self.steps for access in each.accesses]
        if self._names([step.target]) & self._names([*made, *read]):
            return False
        others = [access for access in step.accesses if self._made(access) is None]
        is_apart = not self._names(others) & self._names(made)
        return len(others) < len(step.accesses) and is_apart and not _have_truth(others)

    def _names(self, accesses: Sequence[Access]) -> set[str]:
        return {name for access in accesses for name in self.writer.aliases.get(access.base, (access.base,))}

    def _made(self, access: Access) -> int | None:
        """The step that wrote exactly what is read."""
        for number, (step, _) in enumerate(self.steps):
            factors = step.target.index.factors
            # A number of each row is the same for all of its elements.
            seen = (*factors, ZERO) if len(factors) < len(access.index.factors) else factors
            if step.target.base == access.base and replace(step.target.index, factors=seen) == access.index:
                return number
        return None

    @property
    def _pays(self) -> bool:
        """Whether one of several steps is a reduction; if rows fill vectors, elements must stay in registers, too."""
        steps = [step for step, _ in self.steps]
        if len(steps) == 1 or not any(step.combines for step in steps):
            return False
        # Numbers alone are better computed of all rows at once: the variance of 33 numbers took 1.13 times as long.
        return steps[0].size <= LONGEST or any(step.size and not step.is_reduced for step in steps[:-1])

    def write(self) -> None:
        if self._pays:
            self._write_tiles()
            return
        for step, maker in self.steps:
            with self.writer.doing(maker) if maker is not None else nullcontext():
                step.plain()

    def _write_tiles(self) -> None:
        writer, (first, maker) = self.writer, self.steps[0]
        with writer.doing(maker) if maker is not None else nullcontext(), writer.braces(""):
            for number, (step, _) in enumerate(self.steps):
                for access in step.accesses:
                    if self._made(access) is None:
                        self._address(access, f"{access.variable}_{number}", is_written=False)
                self._address(step.target, f"to_{number}", is_written=True)
            each = "eachTile" if first.size <= LONGEST else "eachLongTile"
            head = f"{each}<{first.size}>({cpp(first.rows)}, [&](const auto tile) __attribute__((always_inline))"
            with writer.braces(head, "});"):
                for number, (step, _) in enumerate(self.steps):
                    self._write_step(number, step)
        for step, _ in self.steps:
            for access in (*step.accesses, step.target):
                writer.touch(access.base)

    def _address(self, access: Access, variable: str, *, is_written: bool) -> None:
        start = replace(access.index, factors=tuple(ZERO for _ in access.index.factors))
        self.writer.address(replace(access, variable=variable, index=start), is_written=is_written)
        if is_written and access.base in self.writer.buffers:
            self.writer.may_drop(access.base)

    def _write_step(self, number: int, step: Step) -> None:
        writer, once = self.writer, dict[str, str]()
        if step.size:
            # What depends on numbers alone is computed before, of all rows of a tile at once.
            statements, accesses = step.body.statements, step.accesses
            varied = depending_on(statements, (each for each in accesses if each.index.factors[-1] != ZERO))
            read = names_in([step.value]).union(*(each.reads for each in statements if each.name in varied))
            for name in (each.name for each in statements if each.name in read - varied):
                once[name] = f"made_{number}_{name}"
                self._write_made(once[name], "numbers(", number, Element(name))
        self._write_made(f"made_{number}", step.call, number, step.value, once)
        writer.line(f"tile.store(to_{number}, made_{number});")
        if step.target.base in writer.buffers:
            writer.may_drop(step.target.base)

    def _write_made(
        self, made: str, call: str, number: int, value: Operand, known: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """What a step computes for `value`, as `made`; the numbers `known` are computed already."""
        step, needed, lines = self.steps[number][0], names_in([value]), list[str]()
        for each in reversed(step.body.statements):
            if each.name in needed and each.name in known:
                lines.insert(0, f"const auto {each.name} = at.load({known[each.name]});")
            elif each.name in needed:
                lines.insert(0, step.body.text(each))
                needed |= each.reads
        read = {access.element: access for access in step.accesses}
        with self.writer.braces(f"const auto {made} = tile.{call}[&]([[maybe_unused]] auto at)", "});"):
            for name in (name for name in read if name in needed):
                loaded = self._loaded(number, read[name], of_numbers=call == "numbers(")
                self.writer.line(f"const auto {name} = {loaded};")
            for line in (*lines, f"return {value.text()};"):
                self.writer.line(line)

    def _loaded(self, number: int, access: Access, *, of_numbers: bool) -> str:
        made, name = self._made(access), f"{access.variable}_{number}"
        if made is not None:
            return f"made_{made}" if of_numbers else f"at.load(made_{made})"
        if set(access.index.factors) == {ZERO}:
            return f"filled(*{name})"
        row, *column = access.index.factors
        return f"at.load({name})" if of_numbers else f"at.load({name}, Apart<{cpp(row)}, {cpp(column[0])}>{{}})"
