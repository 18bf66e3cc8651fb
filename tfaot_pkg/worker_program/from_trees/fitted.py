"""A model of decision trees as data, and the files that pass it from its library's environment to the host."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from messages.forest import ARRAYS, Forest, packed
from messages.sources import ENCODER, FOREST, TREES, FittedTrees, TreesLink
from messages.wire import encoded

if TYPE_CHECKING:
    from framework_types import Array
    from from_trees.categories import Column
    from from_trees.steps import Computed


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A model as data: its trees, and the operations on their sums.

    `links` are names of operations in the host's tree_lowering.py, in the order of their calls, each with a number that
    it may need.
    `output` is the name of the result, of type `dtype`: [batch, outputs], or [batch] if `is_flat`; `margin` is the name
    of the sums, if they are a result too. `library` and `origin` describe what wrote the file. `classes` are labels,
    `features` names of the columns of x, both in order, and may be empty.

    x is of type `input`. First, the forest `encoder` replaces the categories of `columns` (categories.py) by their
    codes; then x is rounded to the type of the trees, and numbers equal to `missing` become NaN. `iterations` are those
    that are computed, and those in the file; zeros if the library's own call cannot choose them. `coded` are the
    columns of categories that contain codes, as Column or by their numbers. `notes` say what the file leaves open.

    If there are steps `before` the trees, these take what they compute of x, in float64; without a forest, this is the
    result.
    """

    forest: Forest | None
    links: tuple[tuple[str, float], ...]
    output: str
    library: str
    origin: str
    margin: str = ""
    dtype: str = "float64"
    is_flat: bool = False
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    input: str = ""
    encoder: Forest | None = None
    columns: tuple[Column, ...] = ()
    coded: tuple[Column | int, ...] = ()
    missing: float | None = None
    iterations: tuple[int, int] = (0, 0)
    notes: tuple[str, ...] = ()
    before: Computed | None = None

    def __post_init__(self) -> None:
        if self.forest is not None:
            object.__setattr__(self, "input", self.input or self.forest.dtype)

    @property
    def trees(self) -> Forest:
        """The forest, of a model that has one."""
        assert self.forest is not None
        return self.forest

    @property
    def width(self) -> int:
        """The number of columns of x."""
        return self.trees.features if self.before is None else self.before.steps.features

    @property
    def outputs(self) -> int:
        """The number of sums, or of columns of the result of steps."""
        if self.before is not None and self.forest is None:
            return self.before.width
        return self.trees.outputs


def reason(error: Exception) -> str:
    """Why a model is damaged, of what reading it raised."""
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


class Trees:
    """Collects the arrays of a forest, tree by tree; `nodes`, `leaves` and `words` count those that were added."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Array]] = {name: [] for name in ARRAYS if name not in ("base", "target")}
        self.nodes = self.leaves = self.words = 0

    def add(self, **parts: Array) -> None:
        """One tree: all arrays of Forest except `base`, `target` and `sets`; children have the forest's numbers."""
        for name, part in parts.items():
            self._parts[name].append(part)
        self.nodes += len(parts["left"])
        self.leaves += len(parts["values"])

    def add_set(self, words: np.ndarray) -> None:
        """A set of categories, whose words begin at `self.words`."""
        self._parts["sets"].append(words)
        self.words += len(words)

    def arrays(self) -> dict[str, Array]:
        return {name: np.concatenate(parts) if parts else np.zeros(0, np.uint32) for name, parts in self._parts.items()}


def write(fitted: Fitted, folder: str) -> None:
    """Write the steps, FittedTrees and the forests for the host, which makes the program of them (tree_lowering.py)."""
    if fitted.before is not None:
        fitted.before.write(fitted.output, folder)
    if fitted.forest is None:
        return
    document = FittedTrees(
        links=tuple(TreesLink(name=name, number=float(number)) for name, number in fitted.links),
        output=fitted.output,
        margin=fitted.margin,
        dtype=fitted.dtype,
        is_flat=fitted.is_flat,
        input=fitted.input if fitted.before is None else "float64",
        missing=None if fitted.missing is None else float(fitted.missing),
    )
    with open(os.path.join(folder, TREES), "w", encoding="utf-8") as file:
        file.write(encoded(document))
    for name, forest in ((FOREST, fitted.forest), (ENCODER, fitted.encoder)):
        if forest is not None:
            np.save(os.path.join(folder, name), packed(forest), allow_pickle=False)
