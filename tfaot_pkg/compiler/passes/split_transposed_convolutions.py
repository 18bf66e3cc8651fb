"""Transposed convolutions as plain ones, for the phases of their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Conv2d, Dimensions, Layer, Slices, TransposedConv2d
from tfaot_pkg.compiler.image_windows import Phase, is_placed, phases, places, window_of
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, ONE, Attributes, Operation, Shape, Size
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

_PANEL = 16
"""Filters that the kernel library computes together, or the half or the quarter of them (kPanel of kernels.h)."""
_MOVING = 8
"""What it costs to bring a phase to its place, in multiply-adds of each panel of its result."""
_ANY_SIZE = 32
"""For a size that is a symbol."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Phases of one axis that one convolution computes, with the filters of all of them side by side.

    They have as many taps. Their windows are the same, or those of the next place: then the convolution has one place
    more, and the first phases of `phases` are in it at the next place.
    """

    phases: tuple[Phase, ...]
    ahead: int = 0

    @property
    def window(self) -> Phase:
        """The phase whose windows come first."""
        return self.phases[-1]

    @property
    def extra(self) -> int:
        return 1 if self.ahead else 0


def woven(look: Look, operation: Operation) -> Operation | None:
    """A transposed convolution as plain ones, unless the kernel library computes it as a whole."""
    if operation.opcode != "transposed_conv2d":
        return None
    found, filters = phases(TransposedConv2d.of(operation).sides), look.constant(operation.operands[1])
    if found is None or filters is None:
        raise AssertionError("what `conv2d` made has phases and constant filters")
    if is_placed(filters.shape, TransposedConv2d.of(operation).groups, (len(found[0]), len(found[1]))):
        return None
    batch, height, width, channels = operation.shape.sizes
    down, right = (places(size, len(each)) for size, each in zip((height, width), found, strict=True))
    if down is None or right is None:
        raise AssertionError("what `conv2d` made has as many places of each phase")
    weaver = _Weaver(look, operation, filters, found, (batch, down, right, channels))
    image = weaver.of_one_convolution() or weaver.of_rows()
    look.new.remove(image)  # the result takes its place
    return replace(image, id=operation.id, type=operation.type)


def _of_one_window(found: Sequence[Phase]) -> _Group | None:
    """All phases of an axis as one group, if they read the same windows."""
    return _Group(tuple(found)) if len({(each.taps, each.padding) for each in found}) == 1 else None


def _of_neighbours(found: Sequence[Phase]) -> _Group | None:
    """All phases of an axis as one group, if they have as many taps: the order is that of the pixels."""
    if len({each.taps for each in found}) > 1:
        return None
    first = [each for each in found if each.padding == found[0].padding]
    ahead = [each for each in found if each.padding == found[0].padding - 1]
    return _Group((*ahead, *first), len(ahead)) if [*first, *ahead] == [*found] else None


@dataclass(frozen=True, slots=True)
class _Weaver:
    """Adds the operations that replace `whole`; `sizes` are those of its phases, all but the channels smaller."""

    look: Look
    whole: Operation
    filters: Array
    found: Sequence[Sequence[Phase]]
    sizes: tuple[Size, Size, Size, Size]

    @property
    def _is_grouped(self) -> bool:
        """Whether filters see some channels only: then those of several phases would not lie group by group."""
        return TransposedConv2d.of(self.whole).groups > 1

    def of_one_convolution(self) -> Operation | None:
        """Phases of both axes as filters of one convolution: of the same windows, or if they do not fill a panel."""
        (rows, columns), (batch, down, right, channels) = self.found, self.sizes
        if self._is_grouped:
            return None
        groups = [_of_one_window(each) for each in self.found]
        if None in groups and len(rows) > 1 and len(rows) * len(columns) * channels.constant <= _PANEL:
            groups = [_of_neighbours(each) for each in self.found]
        above, beside = groups
        if above is None or beside is None:
            return None
        image = self._convolved(above, beside)
        tall, wide = down + Size(above.extra), right + Size(beside.extra)
        by_phase = (batch, tall, wide, Size(len(rows)), Size(len(columns)), channels)
        image = self._added("reshape", by_phase, image)
        in_place = (batch, tall, by_phase[3], wide, by_phase[4], channels)
        image = self._added("transpose", in_place, image, attributes=Dimensions(dimensions=(0, 1, 3, 2, 4, 5)))
        return self._cut(image, (tall * by_phase[3], wide * by_phase[4]), (above.ahead, beside.ahead))

    def of_rows(self) -> Operation:
        """The lines of each phase, one below the other."""
        (rows, columns), (batch, down, right, channels) = self.found, self.sizes
        beside, width = self._beside(), self.whole.shape.sizes[2]
        lines = []
        for above in rows:
            parts = [self._convolved(_Group((above,)), group) for group in beside]
            if len(parts) == 1:
                (group,) = beside
                across = (right + Size(group.extra)) * Size(len(columns))
                line = self._added("reshape", (batch, down, ONE, across, channels), parts[0])
                line = self._sliced(line, (batch, down, ONE, width, channels), (0, 0, 0, group.ahead, 0))
            else:
                apart = [
                    self._added("reshape", (batch, down, right, Size(len(group.phases)), channels), part)
                    for part, group in zip(parts, beside, strict=True)
                ]
                line = self._joined((batch, down, right, Size(len(columns)), channels), 3, apart)
                line = self._added("reshape", (batch, down, ONE, right, Size(len(columns)), channels), line)
            lines.append(line)
        sizes = lines[0].shape.sizes
        image = self._joined((*sizes[:2], Size(len(rows)), *sizes[3:]), 2, lines)
        across = right * Size(len(columns)) if len(sizes) == 6 else width
        return self._cut(image, (down * Size(len(rows)), across), (0, 0))

    def _beside(self) -> list[_Group]:
        """The phases of a line: all together if that costs less, else neighbours with the same windows."""
        columns = self.found[1]
        if self._is_grouped:
            return [_Group((each,)) for each in columns]
        together = _of_neighbours(columns)
        if together is not None:
            inputs = self.filters.shape[2] * columns[0].taps * self.found[0][0].taps
            channels, right = self.sizes[3].constant, self.sizes[2]
            across = right.constant if right.is_constant else _ANY_SIZE
            alone = len(columns) * _panels(channels) * across * (inputs + _MOVING)
            if _panels(len(columns) * channels) * (across + together.extra) * inputs <= alone:
                return [together]
        groups: list[_Group] = []
        for each in columns:
            last = groups[-1].phases if groups else ()
            if last and (last[0].taps, last[0].padding) == (each.taps, each.padding):
                groups[-1] = _Group((*last, each))
            else:
                groups.append(_Group((each,)))
        return groups

    def _convolved(self, above: _Group, beside: _Group) -> Operation:
        """The results of all phases of two groups, side by side as channels."""
        look, whole, (rows, columns) = self.look, self.whole, self.found
        kernels = [
            self.filters[one.first :: len(rows), other.first :: len(columns)]
            for one, other in product(above.phases, beside.phases)
        ]
        kernel = np.ascontiguousarray(np.concatenate(kernels, axis=3))
        batch, down, right, _ = self.sizes
        made = Shape("f32", (batch, down + Size(above.extra), right + Size(beside.extra), Size(kernel.shape[3])))
        operands = [whole.operands[0], look.add_constant(kernel, whole)]
        bias = look.constant(whole.operands[2]) if len(whole.operands) > 2 else None
        if bias is not None:
            operands.append(look.add_constant(np.tile(bias, len(kernels)), whole))
        sides = [(each.window.taps, 1, each.window.padding, 0, 1, 1) for each in (above, beside)]
        window = window_of(look.known[whole.operands[0]].shape, made, sides)
        if window is None:
            raise AssertionError("what `conv2d` made has phases that are windows of the kernel library")
        groups = TransposedConv2d.of(whole).groups
        attributes = Conv2d(window=window, groups=groups, activation=Layer.of(whole).activation)
        return look.add(
            replace(whole, id=look.fresh(), opcode="conv2d", type=made, operands=tuple(operands), attributes=attributes)
        )

    def _cut(self, image: Operation, given: tuple[Size, Size], begins: tuple[int, int]) -> Operation:
        """The last operation: `image`, whose lines and columns are `given`, without what no pixel of the result is."""
        batch, height, width, channels = self.whole.shape.sizes
        image = self._added("reshape", (batch, *given, channels), image)
        return self._sliced(image, (batch, height, width, channels), (0, *begins, 0))

    def _sliced(self, image: Operation, sizes: tuple[Size, ...], begins: Sequence[int]) -> Operation:
        if image.shape.sizes == sizes:
            return image
        slices = tuple((begin, plain(Size(begin) + size), 1) for begin, size in zip(begins, sizes, strict=True))
        return self._added("slice", sizes, image, attributes=Slices(slices=slices))

    def _joined(self, sizes: tuple[Size, ...], axis: int, images: Sequence[Operation]) -> Operation:
        if len(images) == 1:
            return images[0]
        return self._added("concatenate", sizes, *images, attributes=Dimensions(dimensions=(axis,)))

    def _added(
        self, opcode: str, sizes: tuple[Size, ...], *operands: Operation, attributes: Attributes = NO_ATTRIBUTES
    ) -> Operation:
        ids, node = tuple(each.id for each in operands), self.whole.node
        type_ = Shape("f32", sizes)
        if opcode == "reshape" and operands[0].type == type_:
            return operands[0]
        made = Operation(
            id=self.look.fresh(), opcode=opcode, type=type_, operands=ids, attributes=attributes, node=node
        )
        return self.look.add(made)


def _panels(filters: int) -> int:
    return -(-filters // _PANEL)
