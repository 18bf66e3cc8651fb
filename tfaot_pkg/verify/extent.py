"""How much of each class of inputs runs: less of models whose rows take long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.corpus import MOST
from tfaot_pkg.verify.inputs import ARRANGED, EXAMPLES, MAIN, ROWS, THRESHOLDS
from tfaot_pkg.verify.rows import arrangement

_OF_MAIN, _OF_CLASS = 1e11, 2e10
"""The most operations of the main class and of each other one, in batches of all sizes: seconds of a framework. One
batch of each size of the main class, and one of the least size of the others, run in any case.
Without a limit, the classes of a ResNet-50 (8e9 operations a row) took 82 % of its build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Batches of each of `sizes`: at most `most`, None for as many as there are rows for."""

    sizes: tuple[int, ...]
    most: int | None = None

    def rows(self, usual: int) -> int:
        """The number of rows that these batches take, of the `usual` ones."""
        return usual if self.most is None else min(usual, self.most * max(self.sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """The extents of the classes of a model that is compiled for `batch_sizes`, a row of which takes `operations`.

    `samples` is the number of rows of the main class that are drawn; None if the author gave rows, which all run.
    """

    batch_sizes: tuple[int, ...]
    operations: float
    samples: int | None = None

    def of(self, name: str) -> Extent:
        """The extent of the class `name`."""
        if name == MAIN:
            return self._main()
        if name == THRESHOLDS:
            return Extent(sizes=self.batch_sizes)
        if name == EXAMPLES:
            return Extent(sizes=self.batch_sizes, most=MOST)
        if name.partition(" ")[0] == ARRANGED:
            return self._arranged()
        return self.within(self.batch_sizes)

    def within(self, sizes: Sequence[int]) -> Extent:
        """At most MOST batches of each of `sizes`: fewer, and then fewer sizes, if they would take too long."""
        ordered, rows = sorted(sizes), max(ROWS, *sizes)
        for most in range(MOST, 0, -1):
            if sum(min(most, rows // size) * size for size in ordered) * self.operations <= _OF_CLASS:
                return Extent(sizes=tuple(sizes), most=most)
        few = [size for place, size in enumerate(ordered) if sum(ordered[: place + 1]) * self.operations <= _OF_CLASS]
        return Extent(sizes=tuple(few or ordered[:1]), most=1)

    @property
    def are_cut(self) -> bool:
        """Whether classes have fewer batches than usual."""
        return self.within(self.batch_sizes) != Extent(sizes=self.batch_sizes, most=MOST)

    @property
    def rows(self) -> int:
        """The number of rows of each class except the main one."""
        usual = self.within(self.batch_sizes)
        return usual.rows(max(ROWS, *self.batch_sizes))

    def _main(self) -> Extent:
        sizes, samples = self.batch_sizes, self.samples
        if samples is None or len(sizes) * samples * self.operations <= _OF_MAIN:
            return Extent(sizes=sizes)
        most = max(1, int(_OF_MAIN / (sum(sizes) * self.operations)))
        # Whole batches of the largest size: all rows of the class have answers at one size.
        return Extent(sizes=sizes, most=most if most * max(sizes) < samples else None)

    def _arranged(self) -> Extent:
        """Rows at all positions of a batch: at all sizes, or in the largest batches alone."""
        sizes = self.batch_sizes
        order = arrangement(max(self._main().rows(self.samples or MOST * max(sizes)), *sizes), sizes)
        is_usual = len(sizes) * len(order) * self.operations <= _OF_MAIN
        return Extent(sizes=sizes if is_usual else (max(sizes),))


def extents_of(spec: ModelSpec, frozen: FrozenModel) -> Extents:
    """Those of the model of `spec`."""
    validation = spec.validation
    return Extents(
        batch_sizes=spec.compilation.batch_sizes,
        operations=frozen.work.operations_per_row,
        samples=None if validation.inputs is not None else validation.samples,
    )
