"""Arithmetic on shapes while graphs are lowered, and graphs that are not what the worker should write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kept import REPOSITORY
from tests.onnx_lowering.small_graphs import document, model_of, node, run_by_interpreter
from tests.wording import worded
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.program import ROWS, Program, Shape, Size, Symbol, Unsupported
from tfaot_pkg.compiler.text import text_of
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.onnx_lowering import lowering
from tfaot_pkg.frontends.onnx_lowering.graph import DamagedGraph, read
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.frontends.onnx_lowering.table import ONNX, OPERATORS, Refused
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.from_onnx.graphs import FOREST, NATIVE, OWN
from tfaot_pkg.worker_program.messages.forest import LESS_EQUAL, NAN, Forest, forest, packed

N = Symbol("n", 16, 4)


def _lowered(nodes: list[dict[str, object]], **tensors: object) -> Program:
    program = lower(model_of(nodes, (None, "n", 4), tensors), [N])
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
            node("Shape", "x", "s"), node("Gather", "s zero", "rows"), node("Gather", "s one", "n"),
            node("Mul", "n four", "wide"), node("Unsqueeze", "rows axis", "a"), node("Unsqueeze", "wide axis", "b"),
            node("Concat", "a b", "wanted", axis=0), node("Reshape", "x wanted", "y"),
        ],
        zero=0, one=1, four=4, axis=[0],
    )  # fmt: skip
    assert _opcodes(program) == ["parameter", "reshape"]
    assert _result(program) == Shape("f32", (ROWS, Size.symbol("n") * Size(4)))


@pytest.mark.parametrize(("options", "wanted"), [
    ({}, [1, 3, 6, 10, 15]), ({"reverse": 1}, [15, 14, 12, 9, 5]), ({"exclusive": 1}, [0, 1, 3, 6, 10]),
])  # fmt: skip
def test_sums_run_over_an_axis_that_varies(options: dict[str, Any], wanted: list[int]) -> None:
    program = _lowered([node("CumSum", "x axis", "y", **options)], axis=1)
    x = np.broadcast_to(np.arange(1, 6, dtype=np.float32)[:, None], (2, 5, 4))
    (found,) = interpret.run(program, 2, [x], {"n": 5})
    np.testing.assert_array_equal(found, np.broadcast_to(np.array(wanted, np.float32)[:, None], (2, 5, 4)))


@pytest.mark.parametrize("end", [10**9, 2**31 - 1, 2**63 - 1])
def test_what_exporters_write_for_the_end_is_the_end(end: int) -> None:
    nodes = [node("Slice", "x begin end axes steps", "y")]
    program = _lowered(nodes, begin=[0, 1, 3], end=[end, end, -end], axes=[0, 1, 2], steps=[1, 1, -1])
    assert _result(program) == Shape("f32", (ROWS, Size.symbol("n") + Size(-1), Size(4)))


@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_a_window_that_is_longer_than_its_axis_is_rejected(op: str) -> None:
    """ONNX Runtime rejects it, too: no windows are no empty result. N is at least 4."""
    inputs, filters = ("x w", {"w": np.zeros((1, 1, 5), np.float32)}) if op == "Conv" else ("x", {})
    values, read = {**filters, "axis": np.array([1])}, inputs.replace("x", "u")
    nodes = [node("Unsqueeze", "x axis", "u"), node(op, read, "y", kernel_shape=[5], strides=[3])]
    with pytest.raises(Refused, match="a window of 5 elements is longer than an axis of n with its padding") as failed:
        lower(model_of(nodes, (None, "n"), values), [N])
    assert failed.value.hint.startswith("give that axis a number in model.shapes, also if it is the first one")
    nodes[1] = node(op, read, "y", kernel_shape=[5], pads=[0, 1])
    program = lower(model_of(nodes, (None, "n"), values), [N])
    assert _result(program) == Shape("f32", (ROWS, Size(1), Size.symbol("n") + Size(-3)))


def test_conditions_on_sizes_are_decided_by_their_ranges() -> None:
    """N is at least 4: it is never -1, and larger than 3; an If on that takes its branch."""
    branches: dict[str, object] = {
        f"{name}_branch": {
            "graph": {
                "inputs": [], "outputs": [name], "nodes": [node(op, "x", name)], "tensors": {}, "shapes": {},
            }
        }
        for name, op in (("then", "Exp"), ("else", "Neg"))
    }  # fmt: skip
    program = _lowered(
        [
            node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Equal", "n minus", "never"),
            node("Where", "never zero n", "still"), node("Greater", "still three", "always"),
            node("If", "always", "y", then_branch=branches["then_branch"], else_branch=branches["else_branch"]),
        ],
        one=1, minus=-1, zero=0, three=3,
    )  # fmt: skip
    assert _opcodes(program) == ["parameter", "exponential"]


def test_a_branch_that_fits_other_inputs_can_be_left_out() -> None:
    """As that of a voice detector for another sampling rate, which an input chooses: within this file's sizes it is wrong."""
    then, other = (
        {"graph": {"inputs": [], "outputs": ["z"], "nodes": [each], "tensors": {}, "shapes": {}}}
        for each in (node("Transpose", "x", "z", perm=[0, 0, 7]), node("Neg", "x", "z"))
    )
    chosen = node("If", "is", "y", then_branch=then, else_branch=other)
    nodes = [node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m zero", "is"), chosen]
    with pytest.raises(Refused) as error:
        _lowered(nodes, zero=np.float32(0))
    assert "Transpose (node 'Transpose_of_test', opset 18)" in str(error.value)
    worded(f"{error.value}\n{error.value.hint}")
    assert _opcodes(_lowered([{**chosen, "inputs": ["no"]}], no=False)) == ["parameter", "negate"]


@pytest.mark.parametrize("op", ["HardSigmoid", "HardSwish"])
def test_a_hard_sigmoid_of_a_sixth_keeps_its_digits_near_its_zero(op: str) -> None:
    """The sum x / 6 + 1/2 has lost those of x + 3; in units in the last place, against float64."""
    x = np.concatenate([-3 + np.geomspace(1e-6, 6, 5000), np.linspace(-4, 4, 1000)]).astype(np.float32)
    more: dict[str, Any] = {"alpha": float(np.float32(1 / 6)), "beta": 0.5} if op == "HardSigmoid" else {}
    made = run_by_interpreter([node(op, "x", "y", **more)], x)
    wide = x.astype(np.float64)
    exact = np.clip(wide + 3, 0, 6) / 6 * (wide if op == "HardSwish" else 1)
    units = np.abs(made - exact) / np.spacing(np.maximum(np.abs(exact), 2.0**-126).astype(np.float32))
    assert units.max() < 2


def test_a_size_that_is_used_as_a_number_is_computed_from_it() -> None:
    program = _lowered(
        [node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Cast", "n", "f", to=1), node("Div", "x f", "y")],
        one=1,
    )  # fmt: skip
    assert "literal={0 + n*1}" in text_of(program)
    assert _result(program) == Shape("f32", (ROWS, Size.symbol("n"), Size(4)))


_SIZES = (1, 127, 128, 129, 216, 255, 256, 257, 1200)


@pytest.mark.parametrize(
    ("steps", "number"),
    [
        # What wraps around, or is rounded, is computed as the framework computes it.
        (["Cast to=2"], lambda n: n % 256),
        (["Cast to=3"], lambda n: (n + 128) % 256 - 128),
        (["Cast to=6", "Mul", "Mul"], lambda n: (n**4 + 2**31) % 2**32 - 2**31),
        (["Cast to=1", "Mul", "Mul"], lambda n: float(np.float32(np.float32(n * n) * np.float32(n * n)))),
        (["Cast to=9"], lambda n: n > 0),
        (["Mul"], lambda n: n * n),
        (["Mod five"], lambda n: n % 5),
        (["Div five"], lambda n: n // 5),
        (["Min five"], lambda n: min(n, 5)),
        (["Max thousand"], lambda n: max(n, 1000)),
        (["Sub thousand", "Abs"], lambda n: abs(n - 1000)),
        (["Sub thousand", "Sign"], lambda n: (n > 1000) - (n < 1000)),
        (["Greater thousand"], lambda n: n > 1000),
        (["Cast to=1", "Sqrt"], np.sqrt),
        (["Cast to=1", "Log"], np.log),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_is_computed_of_a_size_is_right_at_every_size(steps: list[str], number: Callable[[int], float]) -> None:
    nodes = [node("Shape", "x", "s"), node("Gather", "s zero", "n0")]
    for place, step in enumerate(steps):
        op, *more = step.split()
        attributes = {name: int(value) for name, _, value in (each.partition("=") for each in more) if value}
        operands = [f"n{place}", *(each for each in more if "=" not in each), *([f"n{place}"] if step == "Mul" else [])]
        nodes.append(node(op, " ".join(operands), f"n{place + 1}", domain="ai.onnx", **attributes))
    nodes += [node("Cast", f"n{len(steps)}", "f", to=1), node("Add", "x f", "y")]
    model = model_of(nodes, ["n", 2], {"zero": 0, "five": 5, "thousand": 1000})
    program = lower(model, [Symbol("n", 1200, 1)])
    verify(program)
    for size in _SIZES:
        (found,) = interpret.run(program, 1, [np.zeros((size, 2), np.float32)], {"n": size})
        np.testing.assert_allclose(
            found, np.full((size, 2), number(size), np.float32), rtol=3e-7, err_msg=f"n = {size}"
        )


def test_the_product_of_all_sizes_is_one_of_them() -> None:
    nodes = [
        node("Shape", "x", "s"), node("ReduceProd", "s", "all", keepdims=0), node("Cast", "all", "f", to=1),
        node("Add", "x f", "y"),
    ]  # fmt: skip
    program = lower(model_of(nodes, ["n", 6]), [Symbol("n", 1200, 1)])
    verify(program)
    (found,) = interpret.run(program, 1, [np.zeros((7, 6), np.float32)], {"n": 7})
    assert (found == 42).all()


@pytest.mark.parametrize(
    ("nodes", "tensors"),
    [
        ([node("Nothing", "x", "y")], {}),
        ([node("Reshape", "x x", "y")], {}),
        ([node("Cast", "x", "y", to=8)], {}),
        ([node("Split", "x", "y z", axis=1)], {}),
        ([node("Add", "x z", "y")], {"z": np.zeros((3, 5), np.float32)}),
        ([node("Transpose", "x", "y", perm=[0, 0, 7])], {}),
        ([node("Add", "x nowhere", "y")], {}),
        ([node("Softmax", "x", "y", axis=99)], {}),
        ([node("Conv", "x w", "y", strides="many")], {"w": np.zeros((2, 4, 1), np.float32)}),
        ([node("Slice", "x a a a a", "y")], {"a": np.array([0, 1])}),
        ([node("Resize", "x", "y", mode=[1])], {}),
    ],
    ids=lambda each: each[0]["op"] if isinstance(each, list) else "",
)
def test_what_has_no_lowering_is_refused_by_its_node(nodes: list[dict[str, object]], tensors: dict[str, Array]) -> None:
    with pytest.raises(Unsupported) as error:
        _lowered(nodes, **tensors)
    assert f"(node '{nodes[0]['name']}', opset 18)" in str(error.value)
    worded(str(error.value))


@pytest.mark.parametrize(
    ("nodes", "tensors"),
    [
        ([node("Range", "a b c", "y")], {"a": np.float32(0), "b": np.float32(2**40), "c": np.float32(1)}),
        ([node("Range", "a b c", "y")], {"a": np.int64(0), "b": np.int64(4), "c": np.int64(0)}),
        ([node("Resize", "x  scales sizes", "y")], {"scales": np.zeros(0, np.float32), "sizes": np.array([1, 2**31])}),
    ],
    ids=["range", "step", "resize"],
)  # fmt: skip
def test_arrays_of_any_size_are_not_made_while_a_graph_is_lowered(
    nodes: list[dict[str, object]], tensors: dict[str, Array]
) -> None:
    """Lowering is outside of the sandbox, and a file may ask for more memory than there is."""
    with pytest.raises(Unsupported) as error:
        lower(model_of(nodes, (3, 4), tensors), [])
    worded(str(error.value))


def test_loops_within_loops_are_not_unrolled_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "_MOST_NODES", 2000)
    step = node("Identity", "s0", "t0")
    for depth in range(6):
        names = (f"i{depth}", f"c{depth}", f"s{depth}"), (f"on{depth}", f"t{depth}")
        body = {
            "inputs": [*names[0]], "outputs": [*names[1]], "nodes": [node("Identity", names[0][1], names[1][0]), step],
            "tensors": {}, "shapes": {},
        }  # fmt: skip
        step = node("Loop", f"turns true s{depth + 1}", f"t{depth + 1}", body={"graph": body})
    last = {**step, "inputs": ["turns", "true", "x"], "outputs": ["y"]}
    with pytest.raises(Unsupported, match="more than 2,000 nodes"):
        lower(model_of([last], (None, 3), {"turns": np.int64(30), "true": np.bool_(True)}), [])


def test_open_axes_need_a_range() -> None:
    with pytest.raises(Unsupported) as error:
        lower(model_of([node("Neg", "x", "y")], (None, "other", 4)), [N])
    worded(str(error.value))


def _stump(features: int = 2) -> Forest:
    return forest(
        dtype="float64", total="float64", features=features, outputs=1, roots=[0], target=[0], feature=[1],
        comparison=[LESS_EQUAL], threshold=[0.5], words=[0], missing=[NAN], default=[True], left=[-1], right=[-2],
        sets=[], values=[[3.0], [4.0]], base=[1.0],
    )  # fmt: skip


def test_trees_between_the_steps_of_a_pipeline_are_packed_forests() -> None:
    tree = node(FOREST, "x", "y", domain=OWN, **{FOREST: {"tensor": "t"}})
    x = np.array([[9.0, 0.5], [0.0, 0.6], [0.0, np.nan]])
    assert run_by_interpreter([tree], x, {"t": packed(_stump())}).tolist() == [[4.0], [5.0], [4.0]]
    for content, axes, why in (
        (np.zeros(256, np.uint8), (None, 2), "its trees cannot be read"),
        (packed(_stump(3)), (None, 2), "its trees do not fit its input"),
        (packed(_stump()), (None, 2, 2), "its trees do not fit its input"),
    ):
        with pytest.raises(Unsupported, match=why):
            lower(model_of([tree], axes, {"t": content}, dtype="float64"), [])


_SOUND = document([node("Neg", "x", "y")], {}, (None, "n", 4))


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
    found = json.loads(json.dumps(_SOUND))
    assert read(json.dumps(found).encode(), {}).inputs[0].key == "x"
    change(found)
    with pytest.raises(DamagedGraph):
        read(json.dumps(found).encode(), {})


def test_graphs_that_are_nested_too_deeply_are_damaged() -> None:
    graph: Any = {"inputs": [], "outputs": [], "nodes": [], "tensors": {}, "shapes": {}}
    for _ in range(40):
        chosen = node("If", "x", "y", then_branch={"graph": graph})
        graph = {"inputs": [], "outputs": [], "nodes": [chosen], "tensors": {}, "shapes": {}}
    with pytest.raises(DamagedGraph):
        read(json.dumps({**_SOUND, "graph": graph}).encode(), {})


_NOT_OPSET = "the oldest supported one"
_ROW = re.compile(r"\| `([A-Za-z0-9]+)` \| (\d+) \| \d* \| (.*) \|")
"""An operator of ONNX's own domain on the page: how many tests pass, and why others are refused."""


def test_the_worker_expands_what_has_no_function() -> None:
    assert {name for domain, name in OPERATORS if domain == ONNX} == NATIVE


def test_the_page_of_operators_agrees_with_the_table() -> None:
    page = (REPOSITORY / "docs" / "onnx-coverage.md").read_text()
    rows = {found[1]: (int(found[2]), found[3]) for line in page.splitlines() if (found := _ROW.fullmatch(line))}
    unsupported = {name for name, (_, why) in rows.items() if "this operator is not supported" in why}
    assert unsupported & NATIVE == set()
    # Whose tests all give or take a sequence, or are in a form that is older than all that is read.
    refused = {name: why for name, (passed, why) in rows.items() if name in NATIVE and not passed}
    assert all(why == "sequence values" or _NOT_OPSET in why for why in refused.values()), refused
    assert len(NATIVE & rows.keys() - refused.keys()) > 150
