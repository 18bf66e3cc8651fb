"""Loops over the same short rows that follow one another: a tile of rows goes through all of them in registers.

Such as the mean of each row, the differences from it, their squares' mean and the quotients of a layer normalization.
Each loop alone would write memory that the next one reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from tfaot_pkg.compiler.affine import Axes, cpp
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Size
from tfaot_pkg.compiler.rows import LONGEST
from tfaot_pkg.compiler.writer import Access, Body, Writer

_MOST = 16
"""Steps of a chain at most."""


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
    value: str
    target: Access
    plain: Callable[[], None]
    """Writes the loop alone."""

    @property
    def is_reduced(self) -> bool:
        return self.size > 0 and len(self.target.index.factors) == 1


def step_of(
    call: str, extents: Sequence[Size], body: Body, accesses: Sequence[Access], value: str, target: Access,
    plain: Callable[[], None],
) -> Step | None:  # fmt: skip
    """A loop over (rows, elements) or rows alone as a step of a chain, if it can be one.

    The indices of accesses have a factor for each of these axes; so has that of `target`, without the second one for
    numbers.
    """
    size = extents[1].constant if len(extents) == 2 and extents[1].is_constant else 0
    if len(extents) > 2 or (len(extents) == 2 and not 1 < size <= LONGEST) or not body.by_vectors or body.counted:
        return None
    if not body.types <= {"f32", "pred"} or any(access.dtype != "f32" for access in (*accesses, target)):
        return None
    rows = {(Size(size), ONE), (ZERO, ONE), (ONE, ZERO), (ZERO, ZERO)} if size else {(ONE,), (ZERO,)}
    written = (Size(size), ONE) if len(target.index.factors) == 2 else (ONE,)
    if target.index.factors != written or any(access.index.factors not in rows for access in accesses):
        return None
    return Step(
        call=call, rows=extents[0], size=size, body=body, accesses=accesses, value=value, target=target, plain=plain
    )


def write_or_wait(
    writer: Writer, axes: Axes, body: Body, accesses: Sequence[Access], outputs: Sequence[tuple[Access, str]],
    plain: Callable[[], None],
) -> None:  # fmt: skip
    """Write a loop over rows and their elements, or over rows, with `plain`; or let it wait for others."""
    step, call = None, "each(" if len(axes.extents) == 2 else "numbers("
    if len(outputs) == 1:
        ((target, value),) = outputs
        step = step_of(call, axes.extents, body, accesses, value, target, plain)
    if step is None:
        plain()
    else:
        add(writer, step)


def add(writer: Writer, step: Step) -> None:
    """Let a loop wait for those that may follow it in a chain, or write it."""
    chain = writer.waiting
    if not isinstance(chain, Chain) or not chain.takes(step):
        writer.write_waiting()
        if not step.size:
            step.plain()
            return
        chain = Chain(writer=writer)
    chain.steps.append((step, writer.maker))
    writer.wait(chain)


@dataclass(slots=True, kw_only=True)
class Chain:
    writer: Writer
    steps: list[tuple[Step, Operation | None]] = field(default_factory=list)

    def takes(self, step: Step) -> bool:
        """Whether a loop may follow: it reads what the others wrote row by row, and writes nothing that they use."""
        first = self.steps[0][0]
        if step.rows != first.rows or step.size not in (0, first.size) or len(self.steps) == _MOST:
            return False
        made = [each.target for each, _ in self.steps]
        read = [access for each, _ in self.steps for access in each.accesses]
        if self._names([step.target]) & self._names([*made, *read]):
            return False
        others = [access for access in step.accesses if self._made(access) is None]
        return len(others) < len(step.accesses) and not self._names(others) & self._names(made)

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

    def write(self) -> None:
        if len(self.steps) > 1 and any(step.is_reduced for step, _ in self.steps):
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
            head = f"eachTile<{first.size}>({cpp(first.rows)}, [&](const auto tile)"
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
        writer = self.writer
        with writer.braces(f"const auto made_{number} = tile.{step.call}[&]([[maybe_unused]] auto at)", "});"):
            for access in step.accesses:
                writer.line(f"const auto x{access.variable[1:]} = {self._loaded(number, step, access)};")
            for line in (*step.body.statements(), f"return {step.value};"):
                writer.line(line)
        writer.line(f"tile.store(to_{number}, made_{number});")
        if step.target.base in writer.buffers:
            writer.may_drop(step.target.base)

    def _loaded(self, number: int, step: Step, access: Access) -> str:
        made, name = self._made(access), f"{access.variable}_{number}"
        if made is not None:
            return f"at.load(made_{made})" if step.size else f"made_{made}"
        if set(access.index.factors) == {ZERO}:
            return f"filled(*{name})"
        row, *column = access.index.factors
        return f"at.load({name}, Apart<{cpp(row)}, {cpp(column[0])}>{{}})" if column else f"at.load({name})"
