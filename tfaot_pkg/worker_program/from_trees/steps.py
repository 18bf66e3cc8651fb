"""Steps before trees, or instead of any: a graph in the form of those of ONNX files (from_onnx/graphs.py)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from from_onnx.graphs import FOREST, GRAPH, OWN, TENSORS
from from_trees.categories import Column
from messages import elements
from messages.forest import Forest, packed
from messages.requests import ModelFault
from messages.sources import INPUT

if TYPE_CHECKING:
    from framework_types import Array

SINGLE, INTEGER, DOUBLE = 1, 6, 11  # of ONNX's TensorProto.DataType
_MOST_COLUMNS = 1 << 16
_OPSET = 21


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns during the computation: `value` [batch, width]. `sources` are the columns of x that they still are, or
    None. `texts` are those that missing texts count as, by column; empty if there are none. If it `is_sparse`,
    scikit-learn has a sparse matrix there, which leaves zeros out.
    """

    value: str
    sources: tuple[int | None, ...]
    texts: tuple[str | None, ...] = ()
    is_sparse: bool = False

    @property
    def width(self) -> int:
        return len(self.sources)

    def text(self, place: int) -> str | None:
        return self.texts[place] if self.texts else None


class Steps:
    """Nodes and constants under construction, in float64, and what validation should know of the columns of x.

    `columns` are compared with categories. `usual` are the center and the width of usual numbers, by column. If
    `is_rounded`, there are sums whose order other implementations may choose. `compared` are columns that are compared
    with single numbers. `nones` are columns of texts in which None is the missing one.
    """

    def __init__(self, features: int, dtype: str) -> None:
        if not 0 < features <= _MOST_COLUMNS:
            raise ModelFault(
                f"{features} columns of x are not supported", f"from 1 to {_MOST_COLUMNS} are: choose columns"
            )
        self.features, self.dtype = features, dtype
        self.columns: dict[int, Column] = {}
        self.usual: dict[int, tuple[float, float]] = {}
        self.compared: set[int] = set()
        self.nones: set[int] = set()
        self.is_rounded = False
        self._nodes: list[dict[str, Any]] = []
        self._tensors: dict[str, Array] = {}

    def start(self) -> Table:
        """The columns of x, in float64."""
        value = INPUT if self.dtype == "float64" else self.op("Cast", INPUT, to=DOUBLE)
        return Table(value=value, sources=tuple(range(self.features)))

    def op(self, op: str, *inputs: Any, **attributes: int) -> str:
        """The result of an operator of ONNX; inputs that are numbers or arrays become constants, in float64 if they
        are no integers, truths or float32.
        """
        return self._node("ai.onnx", op, inputs, attributes)

    def sums(self, value: str, forest: Forest) -> str:
        """The sums of trees over `value`, [batch, outputs], which has the type of the forest's input."""
        tensor = {"tensor": self._constant(packed(forest))}
        return self._node(OWN, FOREST, (value,), {FOREST: tensor})

    def _node(
        self, domain: str, op: str, inputs: Sequence[Any], attributes: Mapping[str, Any], *, outputs: int = 1
    ) -> str:
        """The first of its outputs; the others are called NAME_1 and so on."""
        name = f"v{len(self._nodes)}"
        given = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        self._nodes.append({
            "op": op, "domain": domain, "name": name, "scope": "", "attributes": dict(attributes),
            "outputs": [name, *(f"{name}_{place}" for place in range(1, outputs))],
            "inputs": given,
        })  # fmt: skip
        return name

    def _constant(self, value: Any) -> str:
        array = np.asarray(value)
        name = f"c{len(self._tensors)}"
        is_kept = array.dtype.kind in "iub" or array.dtype == np.float32
        self._tensors[name] = array if is_kept else array.astype(np.float64)
        return name

    def product(self, value: str, weights: Any) -> str:
        self.is_rounded = True
        return self.op("MatMul", value, np.asarray(weights, np.float64))

    def affine(self, value: str, weights: Any, bias: Any) -> str:
        """Value @ weights + bias."""
        return self.op("Add", self.product(value, weights), np.asarray(bias, np.float64))

    def squared_distances(self, value: str, points: Any, *, far: bool = False) -> str:
        """From each row to each of the points, [batch, points]; NaN of rows whose squares are infinite.

        As in scikit-learn's metrics.pairwise. If points may be `far`, these are infinite, as sums of squares of
        differences are.
        """
        points = np.asarray(points, np.float64)
        # Around their mean, so that products are small; roundings must not make distances negative.
        center = points.mean(0)
        value, points = self.op("Sub", value, center), points - center
        squares = self.op("Add", self.row_sum(self.op("Mul", value, value)), (points * points).sum(1))
        found = self.op("Max", self.op("Sub", squares, self.product(value, 2 * points.T)), 0.0)
        return self.op("Where", self.op("Equal", squares, np.inf), squares, found) if far else found

    def differences(self, value: str, points: Any) -> str:
        """Of each row and each of the points, [batch, points, width]."""
        return self.op("Sub", self.op("Unsqueeze", value, np.array([1], np.int64)), np.asarray(points)[None])

    def nearness(self, differences: str) -> str:
        """Their sums over the columns, [batch, points]."""
        self.is_rounded = True
        return self.op("ReduceSum", differences, np.array([2], np.int64), keepdims=0)

    def lowest(self, value: str, count: int) -> tuple[str, str]:
        """The `count` lowest numbers of each row, which rise, and their columns; of equal ones the first columns."""
        found = self._node(
            "ai.onnx", "TopK", (value, np.array([count], np.int64)), {"axis": 1, "largest": 0}, outputs=2
        )
        return found, f"{found}_1"

    def row_sum(self, value: str) -> str:
        self.is_rounded = True
        return self.count(value)

    def count(self, flags: str) -> str:
        """The sum of zeros and ones, [batch, 1]."""
        return self.op("ReduceSum", flags, np.array([1], np.int64), keepdims=1)

    def numbers(self, truths: str) -> str:
        """0.0 and 1.0."""
        return self.op("Cast", truths, to=DOUBLE)

    def columns_of(self, value: str, places: Sequence[int]) -> str:
        return self.op("Gather", value, np.array(places, np.int64), axis=1)

    def part(self, table: Table, places: Sequence[int]) -> Table:
        """Some columns, by their positions."""
        chosen = [int(each) for each in places]
        if chosen == list(range(table.width)):
            return table
        if not chosen:
            return Table(value="", sources=())
        sources, texts = tuple(table.sources[each] for each in chosen), tuple(map(table.text, chosen))
        return made(self.columns_of(table.value, chosen), sources=sources, texts=texts)

    def beside(self, tables: Sequence[Table]) -> Table:
        kept = [each for each in tables if each.width]
        if not kept:
            raise ModelFault("a transformer leaves no columns", "remove it")
        if len(kept) == 1:
            return kept[0]
        value = self.op("Concat", *(each.value for each in kept), axis=1)
        texts = tuple(each.text(place) for each in kept for place in range(each.width))
        return made(value, sources=sum((each.sources for each in kept), ()), texts=texts)

    def expect(self, table: Table, center: Any, width: Any) -> None:
        """Rows for validation shall have such numbers, in columns of which nothing was said before."""
        for place, source in enumerate(table.sources):
            if source is not None:
                low, high = (float(np.broadcast_to(each, table.width)[place]) for each in (center, width))
                self.usual.setdefault(source, (low, abs(high)) if np.isfinite([low, high]).all() else (0.0, 1.0))

    def compare(self, table: Table) -> None:
        self.compared.update(each for each in table.sources if each is not None)

    def document(self, output: str, result: str) -> dict[str, Any]:
        """GRAPH (from_onnx/graphs.py), whose one output is called `output`."""
        return {
            "opsets": {"ai.onnx": _OPSET, OWN: 1},
            "inputs": [
                {"name": INPUT, "key": INPUT, "dtype": self.dtype, "axes": [None, self.features], "shape": None}
            ],
            "outputs": [{"name": output, "key": result}],
            "by_row": False,
            "dtypes": {},
            "graph": {
                "inputs": [INPUT],
                "outputs": [result],
                "nodes": self._nodes,
                "tensors": {name: name for name in self._tensors},
                "shapes": {},
            },
        }

    def arrays(self) -> dict[str, Array]:
        return self._tensors


def numbers_of(model: Any, name: str, *shape: int | None) -> Array:
    """An attribute as float64, which has this shape; None stands for any size but 0.

    Raises ValueError for another shape, NaN and infinity, and AttributeError if there is none.
    """
    found = np.asarray(getattr(model, name), np.float64)
    fits = len(shape) == found.ndim and all(
        size > 0 if each is None else size == each for size, each in zip(found.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if each is None else str(each) for each in shape)
        raise ValueError(f"{name} has the shape {found.shape} in place of ({wanted})")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} has NaN or infinity")
    return found


def made(
    value: str,
    width: int = 0,
    *,
    sources: tuple[int | None, ...] | None = None,
    texts: tuple[str | None, ...] = (),
) -> Table:
    """Columns that are no longer those of x, or are `sources` still."""
    return Table(value=value, sources=(None,) * width if sources is None else sources, texts=texts)


@dataclass(frozen=True, kw_only=True)
class Computed:
    """The value `result` of `steps`, with `width` columns: those of trees that follow, or the model's answer."""

    steps: Steps
    result: str
    width: int

    def write(self, output: str, folder: str) -> None:
        with open(os.path.join(folder, GRAPH), "w", encoding="utf-8") as file:
            json.dump(self.steps.document(output, self.result), file)
        elements.write_arrays(os.path.join(folder, TENSORS), self.steps.arrays())
