"""Arithmetic on shapes while graphs are lowered, and graphs that are not what the worker should write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.wording import worded
from tfaot_pkg.compiler.program import ROWS, Program, Shape, Size, Symbol, Unsupported
from tfaot_pkg.compiler.text import text_of
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.onnx_lowering.graph import DamagedGraph, Model, read
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array

N = Symbol("n", 16, 4)


def _node(op: str, inputs: str, outputs: str, **attributes: object) -> dict[str, object]:
    return {
        "op": op, "domain": "ai.onnx", "name": f"{op}_of_test", "scope": op, "inputs": inputs.split(),
        "outputs": outputs.split(), "attributes": attributes,
    }  # fmt: skip


def _document(nodes: list[dict[str, object]], tensors: Mapping[str, Array], axes: object = (None, "n", 4)) -> Any:
    return {
        "opsets": {"ai.onnx": 18},
        "inputs": [{"name": "x", "key": "x", "dtype": "float32", "shape": None, "axes": list(axes)}],  # type: ignore[call-overload]
        "outputs": [{"name": "y", "key": "y"}],
        "by_row": False,
        "dtypes": {},
        "graph": {
            "inputs": ["x"], "outputs": ["y"], "nodes": nodes, "tensors": {name: name for name in tensors}, "shapes": {},
        },
    }  # fmt: skip


def _model(nodes: list[dict[str, object]], axes: object = (None, "n", 4), **tensors: object) -> Model:
    arrays = {name: np.asarray(values) for name, values in tensors.items()}
    return read(json.dumps(_document(nodes, arrays, axes)).encode(), arrays)


def _lowered(nodes: list[dict[str, object]], **tensors: object) -> Program:
    program = lower(_model(nodes, **tensors), [N])
    verify(program)
    return program


def _opcodes(program: Program) -> list[str]:
    return [each.opcode for each in program.entry.operations]


def _result(program: Program) -> Shape:
    return program.entry.by_id()[program.entry.results[0]].shape


def test_arithmetic_on_shapes_costs_no_operation() -> None:
    """x.reshape(batch, n * 4), with sizes cut out of the shape, multiplied, and packed again."""
    program = _lowered(
        [
            _node("Shape", "x", "s"), _node("Gather", "s zero", "rows"), _node("Gather", "s one", "n"),
            _node("Mul", "n four", "wide"), _node("Unsqueeze", "rows axis", "a"), _node("Unsqueeze", "wide axis", "b"),
            _node("Concat", "a b", "wanted", axis=0), _node("Reshape", "x wanted", "y"),
        ],
        zero=0, one=1, four=4, axis=[0],
    )  # fmt: skip
    assert _opcodes(program) == ["parameter", "reshape"]
    assert _result(program) == Shape("f32", (ROWS, Size.symbol("n") * Size(4)))


def test_conditions_on_sizes_are_decided_by_their_ranges() -> None:
    """N is at least 4: it is never -1, and larger than 3; an If on that takes its branch."""
    branches = {
        f"{name}_branch": {
            "graph": {
                "inputs": [], "outputs": [name], "nodes": [_node(op, "x", name)], "tensors": {}, "shapes": {},
            }
        }
        for name, op in (("then", "Exp"), ("else", "Neg"))
    }  # fmt: skip
    program = _lowered(
        [
            _node("Shape", "x", "s"), _node("Gather", "s one", "n"), _node("Equal", "n minus", "never"),
            _node("Where", "never zero n", "still"), _node("Greater", "still three", "always"),
            _node("If", "always", "y", **branches),
        ],
        one=1, minus=-1, zero=0, three=3,
    )  # fmt: skip
    assert _opcodes(program) == ["parameter", "exponential"]


def test_a_size_that_is_used_as_a_number_is_computed_from_it() -> None:
    program = _lowered(
        [_node("Shape", "x", "s"), _node("Gather", "s one", "n"), _node("Cast", "n", "f", to=1), _node("Div", "x f", "y")],
        one=1,
    )  # fmt: skip
    assert "literal={0 + n*1}" in text_of(program)
    assert _result(program) == Shape("f32", (ROWS, Size.symbol("n"), Size(4)))


@pytest.mark.parametrize(
    ("nodes", "tensors"),
    [
        ([_node("Nothing", "x", "y")], {}),
        ([_node("Reshape", "x x", "y")], {}),
        ([_node("Cast", "x", "y", to=16)], {}),
        ([_node("Split", "x", "y z", axis=1)], {}),
        ([_node("Add", "x z", "y")], {"z": np.zeros((3, 5), np.float32)}),
        ([_node("Transpose", "x", "y", perm=[0, 0, 7])], {}),
        ([_node("Add", "x nowhere", "y")], {}),
        ([_node("Softmax", "x", "y", axis=99)], {}),
        ([_node("Conv", "x w", "y", strides="many")], {"w": np.zeros((2, 4, 1), np.float32)}),
        ([_node("Slice", "x a a a a", "y")], {"a": np.array([0, 1])}),
        ([_node("Resize", "x", "y", mode=[1])], {}),
    ],
    ids=lambda each: each[0]["op"] if isinstance(each, list) else "",
)
def test_what_has_no_lowering_is_refused_by_its_node(nodes: list[dict[str, object]], tensors: dict[str, Array]) -> None:
    with pytest.raises(Unsupported) as error:
        _lowered(nodes, **tensors)
    assert f"(node '{nodes[0]['name']}', opset 18)" in str(error.value)
    worded(str(error.value))


def test_open_axes_need_a_range() -> None:
    with pytest.raises(Unsupported) as error:
        lower(_model([_node("Neg", "x", "y")], axes=(None, "other", 4)), [N])
    worded(str(error.value))


_SOUND = _document([_node("Neg", "x", "y")], {})


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("graph"),
        lambda d: d["graph"].update(nodes={}),
        lambda d: d["graph"]["nodes"].append(7),
        lambda d: d["graph"]["nodes"][0].update(inputs=[7]),
        lambda d: d["graph"]["nodes"][0].update(attributes={"axis": [[1]]}),
        lambda d: d["graph"]["nodes"][0].update(attributes={"value": {"tensor": "missing"}}),
        lambda d: d["graph"]["nodes"][0].update(attributes={"value": {"other": 1}}),
        lambda d: d["graph"].update(tensors={"z": "missing"}),
        lambda d: d["inputs"][0].update(axes=[-1]),
        lambda d: d["inputs"][0].update(axes=7),
        lambda d: d["opsets"].update({"ai.onnx": True}),
        lambda d: d.update(dtypes=[]),
    ],
)
def test_documents_of_another_form_are_damaged(change: Any) -> None:
    document = json.loads(json.dumps(_SOUND))
    assert read(json.dumps(document).encode(), {}).inputs[0].key == "x"
    change(document)
    with pytest.raises(DamagedGraph):
        read(json.dumps(document).encode(), {})


def test_graphs_that_are_nested_too_deeply_are_damaged() -> None:
    graph: Any = {"inputs": [], "outputs": [], "nodes": [], "tensors": {}, "shapes": {}}
    for _ in range(40):
        node = _node("If", "x", "y", then_branch={"graph": graph})
        graph = {"inputs": [], "outputs": [], "nodes": [node], "tensors": {}, "shapes": {}}
    with pytest.raises(DamagedGraph):
        read(json.dumps({**_SOUND, "graph": graph}).encode(), {})
