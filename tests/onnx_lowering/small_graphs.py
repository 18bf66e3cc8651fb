"""Graphs of a few nodes, as the front-end's worker would write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.onnx_lowering.graph import Model, read
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array

Node = dict[str, object]


def node(op: str, inputs: str, outputs: str, *, domain: str = "ai.onnx", **attributes: object) -> Node:
    return {
        "op": op, "domain": domain, "name": f"{op}_of_test", "scope": op, "inputs": inputs.split(),
        "outputs": outputs.split(), "attributes": attributes,
    }  # fmt: skip


def document(
    nodes: Sequence[Node], tensors: Mapping[str, Array], axes: Sequence[object], *, dtype: str = "float32",
    dtypes: Mapping[str, str] | None = None, by_row: bool = False,
) -> Any:  # fmt: skip
    """A graph from x to y. `dtypes` are the types of tensors that NumPy alone does not have."""
    return {
        "opsets": {"ai.onnx": 18, "ai.onnx.ml": 3},
        "inputs": [{"name": "x", "key": "x", "dtype": dtype, "shape": None, "axes": list(axes)}],
        "outputs": [{"name": "y", "key": "y"}],
        "by_row": by_row,
        "dtypes": dict(dtypes or {}),
        "graph": {
            "inputs": ["x"], "outputs": ["y"], "nodes": nodes, "tensors": {name: name for name in tensors}, "shapes": {},
        },
    }  # fmt: skip


def model_of(
    nodes: Sequence[Node], axes: Sequence[object], tensors: Mapping[str, object] | None = None, *,
    dtype: str = "float32", dtypes: Mapping[str, str] | None = None, by_row: bool = False,
) -> Model:  # fmt: skip
    arrays = {name: np.asarray(values) for name, values in (tensors or {}).items()}
    return read(json.dumps(document(nodes, arrays, axes, dtype=dtype, dtypes=dtypes, by_row=by_row)).encode(), arrays)


def run_by_interpreter(
    nodes: Sequence[Node], x: Array, tensors: Mapping[str, object] | None = None, *,
    dtypes: Mapping[str, str] | None = None,
) -> Array:  # fmt: skip
    """What the graph gives for x, whose sizes are all known."""
    program = lower(model_of(nodes, x.shape, tensors, dtype=x.dtype.name, dtypes=dtypes))
    verify(program)
    (made,) = interpret.run(program, 1, [x], {})
    return np.asarray(made)
