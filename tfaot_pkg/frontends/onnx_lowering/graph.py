"""Graphs of ONNX files, as the front-end's worker writes them (worker_program/from_onnx/graphs.py).

The worker reads hostile files, so nothing here is trusted: a document of another form raises DamagedGraph.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfaot_pkg.ground.arrays import Array

_DEEPEST = 24
"""The limit of graphs within graphs. They are lowered by recursion, which Python limits."""


class DamagedGraph(ValueError):
    """A document that is no graph: the message says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OtherType:
    """A tensor of the element type `dtype`, which NumPy alone does not have, and its elements as integers."""

    dtype: str
    bits: Array


Tensor = Array | OtherType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """Nodes in an order in which each comes after what it reads. `tensors` are its constants by the names of values."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]


Attribute = int | float | str | tuple[int | float, ...] | tuple[str, ...] | Tensor | Graph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """An operator; "" stands for an input that is left out, or an output that nobody needs."""

    op: str
    domain: str
    name: str
    scope: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]


Axis = int | str | None
"""The size of an axis: a number, the name of a symbol ("batch" for the batch), or None if it has no name.

A first axis without a name is the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """`key` is its name in the graph, `name` that in libraries. `axes` is None if the file does not give its rank."""

    name: str
    key: str
    dtype: str
    axes: tuple[Axis, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """A file: the opset of each domain, inputs and outputs in their order, and the graph.

    `by_row`: an axis of size 1 in the file is the batch, so sizes in the file may be those of one row.
    """

    opsets: Mapping[str, int]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    graph: Graph
    by_row: bool


def read(document: bytes, arrays: Mapping[str, Array]) -> Model:
    """The model of the worker's `document` and of the arrays beside it. Raises DamagedGraph."""
    try:
        return _Reader(json.loads(document), arrays).model()
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedGraph(f"it has another form: {type(error).__name__}: {error}") from None
    except json.JSONDecodeError as error:
        raise DamagedGraph(str(error)) from None


def with_sizes(model: Model, sizes: Mapping[str, int]) -> Model:
    """`model` with numbers for the symbols in the axes of its inputs."""

    def sized(axes: tuple[Axis, ...] | None) -> tuple[Axis, ...] | None:
        return axes and tuple(sizes.get(each, each) if isinstance(each, str) else each for each in axes)

    return replace(model, inputs=tuple(replace(each, axes=sized(each.axes)) for each in model.inputs))


class _Reader:
    def __init__(self, document: Any, arrays: Mapping[str, Array]) -> None:
        self._document, self._arrays = document, arrays
        self._dtypes = {_text(name): _text(dtype) for name, dtype in document["dtypes"].items()}
        self._depth = 0

    def model(self) -> Model:
        found = self._document
        return Model(
            opsets={_text(domain): _number(version) for domain, version in found["opsets"].items()},
            inputs=tuple(
                Input(
                    name=_text(each["name"]), key=_text(each["key"]), dtype=_text(each["dtype"]),
                    axes=None if each["axes"] is None else tuple(map(_axis, _list(each["axes"]))),
                )
                for each in _list(found["inputs"])
            ),
            outputs=tuple(Output(name=_text(each["name"]), key=_text(each["key"])) for each in _list(found["outputs"])),
            graph=self._graph(found["graph"]),
            by_row=bool(found["by_row"]),
        )  # fmt: skip

    def _graph(self, found: Any) -> Graph:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise DamagedGraph(f"graphs more than {_DEEPEST} deep")
        made = Graph(
            inputs=_texts(found["inputs"]),
            outputs=_texts(found["outputs"]),
            nodes=tuple(map(self._node, _list(found["nodes"]))),
            tensors={_text(value): self._tensor(name) for value, name in found["tensors"].items()},
        )
        self._depth -= 1
        return made

    def _node(self, found: Any) -> Node:
        return Node(
            op=_text(found["op"]),
            domain=_text(found["domain"]),
            name=_text(found["name"]),
            scope=_text(found["scope"]),
            inputs=_texts(found["inputs"]),
            outputs=_texts(found["outputs"]),
            attributes={_text(name): self._attribute(value) for name, value in found["attributes"].items()},
        )

    def _attribute(self, value: Any) -> Attribute:
        if isinstance(value, dict):
            return self._tensor(value["tensor"]) if "tensor" in value else self._graph(value["graph"])
        if isinstance(value, list):
            if all(isinstance(each, str) for each in value):
                return tuple(value)
            return tuple(map(_any_number, value))
        return value if isinstance(value, str) else _any_number(value)

    def _tensor(self, name: Any) -> Tensor:
        found = self._arrays.get(_text(name))
        if not isinstance(found, np.ndarray):
            raise DamagedGraph(f"there is no array {name!r:.60}")
        return OtherType(dtype=self._dtypes[name], bits=found) if name in self._dtypes else found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DamagedGraph(f"{value!r:.60} is no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise DamagedGraph(f"{value!r:.60} is no integer")
    return value


def _any_number(value: Any) -> int | float:
    if type(value) not in (int, float):
        raise DamagedGraph(f"{value!r:.60} is no number")
    number: int | float = value
    return number


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DamagedGraph(f"{value!r:.60} is no list")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, _list(value)))


def _axis(value: Any) -> Axis:
    if value is not None and not isinstance(value, str) and _number(value) < 0:
        raise DamagedGraph(f"an axis has {value} elements")
    found: Axis = value
    return found
