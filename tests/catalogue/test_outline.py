"""The outline of a model's graph (worker_program/outline.py), and its drawing: what is left out, what is grouped."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfaot_pkg
from tests.kept import saved_models
from tfaot_pkg.frontends.frozen.model import freeze, frozen_key
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.package.drawing import Drawing, draw, nodes_of_document
from tfaot_pkg.spec.source.tree import source_tree
from tfaot_pkg.spec.types import Compilation, FolderSource, ModelInfo, ModelSpec, SavedModelFiles
from tfaot_pkg.worker_program.messages.graph import Feed
from tfaot_pkg.worker_program.messages.wire import plain

MAKER = Path(__file__).parents[1] / "models" / "deep.py"


def _worker_module(name: str) -> ModuleType:
    folder = Path(tfaot_pkg.__file__).parent / "worker_program"
    path = folder / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look it up
    sys.path.insert(0, str(folder))  # its imports are those of a program in this folder
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


outline, scopes = _worker_module("outline.py"), _worker_module("from_onnx/exported.py")


# --- a graph as TensorFlow gives it, made by hand -------------------------------------------------------------------


@dataclass(eq=False)
class Shape:
    rank: int
    dims: list[int | None]

    def as_list(self) -> list[int | None]:
        return self.dims


@dataclass(eq=False)
class Tensor:
    op: Operation
    shape: Shape = field(default_factory=lambda: Shape(2, [None, 4]))

    @property
    def dtype(self) -> Any:
        return type("float32", (), {"name": "float32"})


@dataclass(eq=False)
class Operation:
    name: str
    type: str
    inputs: list[Tensor]
    outputs: list[Tensor] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)

    def get_attr(self, name: str) -> Any:
        return self.functions[name]


class Graph:
    """`graph.add("layer/MatMul", "MatMul", "x", "weights")`: inputs by name, in any order of making."""

    def __init__(self) -> None:
        self.operations: dict[str, Operation] = {}

    def add(self, name: str, kind: str, *inputs: str) -> str:
        made = Operation(name, kind, [self.operations[one].outputs[0] for one in inputs])
        made.outputs.append(Tensor(made))
        self.operations[name] = made
        return name

    def get_operations(self) -> list[Operation]:
        return list(self.operations.values())


def border(name: str, node: str) -> Feed:
    return Feed(name=name, node=node, dtype="float32", shape=(None, 4))


def outlined(
    graph: Graph, inputs: list[str], outputs: list[str], functions: tuple[Any, ...] = ()
) -> list[dict[str, Any]]:
    found = plain(outline.outline(graph, [border(n, n) for n in inputs], [border(n, n) for n in outputs], functions))
    assert found["format"] == 1
    nodes: list[dict[str, Any]] = found["nodes"]
    return nodes


def function(name: str, *kinds: str) -> Any:
    """A function of a library: operations of these kinds."""
    nodes = [SimpleNamespace(name=f"while/{kind}_{n}", op=kind, attr={}) for n, kind in enumerate(kinds)]
    return SimpleNamespace(signature=SimpleNamespace(name=name), node_def=nodes)


def edges(nodes: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(nodes[source]["name"], node["name"]) for node in nodes for source in node["inputs"]}


def layered(layers: int, graph: Graph | None = None) -> tuple[Graph, str]:
    """Dense layers with names as Keras gives them; five operations each, of which three are shown."""
    graph, last = graph or Graph(), "x"
    graph.add("x", "Placeholder")
    for number in range(layers):
        layer = f"model/block_{number}/dense"
        graph.add(f"{layer}/weights", "Const")
        graph.add(f"{layer}/read", "Identity", f"{layer}/weights")
        graph.add(f"{layer}/MatMul", "MatMul", last, f"{layer}/read")
        graph.add(f"{layer}/BiasAdd", "BiasAdd", f"{layer}/MatMul", f"{layer}/weights")
        last = graph.add(f"{layer}/Relu", "Relu", f"{layer}/BiasAdd")
    return graph, last


def test_constants_and_what_only_passes_values_on_are_left_out_and_their_edges_bridged() -> None:
    graph, last = layered(1)
    graph.add("passed", "StopGradient", last)
    graph.add("shape", "Shape", "passed")
    graph.add("flat", "Reshape", "passed", "shape")
    graph.add("y", "Identity", "flat")
    graph.add("unused", "Exp", "x")
    nodes = outlined(graph, ["x"], ["y"])
    dense = "model/block_0/dense"
    assert [node["op"] for node in nodes] == ["input", "MatMul", "BiasAdd", "Relu", "Reshape", "output"]
    assert edges(nodes) == {
        ("x", f"{dense}/MatMul"), (f"{dense}/MatMul", f"{dense}/BiasAdd"), (f"{dense}/BiasAdd", f"{dense}/Relu"),
        (f"{dense}/Relu", "flat"), ("flat", "y"),
    }  # fmt: skip
    assert nodes[1]["shape"] == [None, 4] and nodes[1]["dtype"] == "float32"


def test_an_input_that_is_an_output_is_joined_to_it() -> None:
    graph = Graph()
    graph.add("x", "Placeholder")
    graph.add("y", "Identity", "x")
    assert edges(outlined(graph, ["x"], ["y"])) == {("x", "y")}


def test_what_depends_on_no_input_is_shown_only_where_nothing_else_is() -> None:
    graph, last = layered(1)
    graph.add("c", "Const")
    graph.add("table", "Exp", "c")
    graph.add("y", "AddV2", last, "table")
    assert "table" not in {node["name"] for node in outlined(graph, ["x"], ["y"])}
    constant = Graph()
    constant.add("x", "Placeholder")
    constant.add("c", "Const")
    constant.add("y", "Exp", "c")
    assert edges(outlined(constant, ["x"], ["y"])) == {("y", "y")}


def test_circles_of_a_loop_do_no_harm() -> None:
    graph = Graph()
    graph.add("x", "Placeholder")
    graph.add("loop/Enter", "Enter", "x")
    graph.add("loop/Merge", "Merge", "loop/Enter")
    graph.add("loop/Next", "NextIteration", "loop/Merge")
    graph.operations["loop/Merge"].inputs.append(graph.operations["loop/Next"].outputs[0])
    graph.add("y", "Exit", "loop/Merge")
    nodes = outlined(graph, ["x"], ["y"])
    assert ("loop/Merge", "loop/Next") in edges(nodes) and ("loop/Next", "loop/Merge") in edges(nodes)
    assert_readable(nodes)


GRU = "TensorListGetItem MatMul Sigmoid Split Mul Tanh Mul Sub Mul AddV2 TensorListSetItem".split()


def way(graph: Graph, source: str, number: int, *, reverses: bool) -> str:
    """A loop over steps without a scope of its own."""
    last = graph.add(f"reverse_{number}", "ReverseV2", source) if reverses else source
    last = graph.add(f"product_{number}", "MatMul", last)
    last = graph.add(f"unstack_{number}", "TensorListFromTensor", last)
    last = graph.add(f"while_{number}", "StatelessWhile", last)
    graph.operations[last].functions["body"] = SimpleNamespace(name=f"body_{number}")
    return graph.add(f"stack_{number}", "TensorListStack", last)


def test_loops_are_named_as_the_layers_that_they_compute() -> None:
    graph = Graph()
    graph.add("x", "Placeholder")
    graph.add("pair", "Pack", way(graph, "x", 0, reverses=False), way(graph, "x", 1, reverses=True))
    graph.add("y", "Tanh", way(graph, "pair", 2, reverses=False))
    bodies = [("body_0", GRU), ("body_1", GRU), ("body_2", ["Tanh", "Mul"])]
    nodes = outlined(graph, ["x"], ["y"], tuple(function(name, *kinds) for name, kinds in bodies))
    by_op = {node["op"]: node for node in nodes}
    both = by_op["Bidirectional GRU"]
    assert both["members"] == 7 and [part["op"] for part in both["parts"] if not part["inside"]].count("Loop") == 2
    assert [part["op"] for part in both["parts"] if part["inside"]] == GRU * 2
    assert [part["name"] for part in by_op["Loop"]["parts"]] == ["Tanh_0", "Mul_1"]
    assert not {"GRU", "StatelessWhile"} & by_op.keys()
    assert ("pair", "unstack_2") not in edges(nodes) and both["inputs"] == sorted(both["inputs"])
    assert_readable(nodes)
    alone = outlined(graph, ["x"], ["stack_1"], tuple(function(name, *kinds) for name, kinds in bodies))
    assert "GRU" in {node["op"] for node in alone}


def dense(graph: Graph, scope: str, source: str, weights: str = "") -> str:
    weights = weights or graph.add(f"{scope}/kernel", "Const")
    return graph.add(f"{scope}/Relu", "Relu", graph.add(f"{scope}/MatMul", "MatMul", source, weights))


def test_layers_are_one_block_each_by_the_scopes_of_keras() -> None:
    graph = Graph()
    graph.add("x", "Placeholder")
    last = graph.add("y", "Placeholder")
    graph.add("kernel", "Const")
    for scope in ("f/multi_head_attention_1_2", "f/layer_normalization"):
        last = dense(graph, scope, last)
    last = graph.add("f/mine/Add", "AddV2", last, dense(graph, "f/Encoder/first", "x"))
    # Between the operations of this scope is one that is not in it.
    aside = graph.add("f/aside", "Neg", graph.add("f/layer_normalization_1/a", "Exp", last))
    last = graph.add("f/layer_normalization_1/b", "AddV2", aside, "f/layer_normalization_1/a")
    twins = [dense(graph, f"f/twin_{n}/dense_1", source, "kernel") for n, source in enumerate((last, "x"))]
    graph.add("out", "Sub", *twins)
    nodes = outlined(graph, ["x", "y"], ["out"])
    assert [node["op"] for node in nodes if node["members"] > 1] == [
        "MultiHeadAttention", "LayerNormalization", "twin, shared", "twin, shared",
    ]  # fmt: skip
    assert {"Neg", "Exp", "AddV2", "Sub"} <= {node["op"] for node in nodes}, "scopes of the author stay open"
    assert_readable(nodes)


def test_hundreds_of_operations_are_grouped_by_their_layers() -> None:
    graph, last = layered(60)
    nodes = outlined(graph, ["x"], [last])
    groups = [node for node in nodes if node["kind"] == "operation"]
    assert {node["name"] for node in groups} == {f"model/block_{n}/dense" for n in range(60)}
    assert {node["members"] for node in groups} == {3}
    assert edges(nodes) >= {(f"model/block_{n}/dense", f"model/block_{n + 1}/dense") for n in range(59)}
    assert_readable(nodes)


def members(nodes: list[dict[str, Any]]) -> dict[str, int]:
    return {node["name"]: node["members"] for node in nodes if node["kind"] == "operation"}


def test_a_layer_that_has_too_many_parts_is_cut_in_its_order() -> None:
    graph, last = layered(150)
    for number in range(3):
        last = graph.add(f"head/{number}/Tanh", "Tanh", last)
    nodes = outlined(graph, ["x"], [last])
    assert [node["members"] for node in nodes[-4:-1]] == [1, 1, 1]
    assert sum(node["members"] for node in nodes if node["kind"] == "operation") == 453
    assert_chain(nodes)
    assert_readable(nodes)


def assert_chain(nodes: list[dict[str, Any]]) -> None:
    """Each node takes its values from the one before it: nothing is a source, and no edge is left out."""
    assert [node["inputs"] for node in nodes[1:]] == [[number] for number in range(len(nodes) - 1)]


def test_blocks_of_the_same_size_are_divided_all_or_none() -> None:
    graph, last = layered(30)
    for number in range(10):
        last = graph.add(f"tail_{number}", "Tanh", last)
    nodes = outlined(graph, ["x"], [last])
    assert len([name for name in members(nodes) if name.startswith("tail_")]) == 10
    assert {count for name, count in members(nodes).items() if name.startswith("model/")} == {3}


def test_hundreds_of_operations_without_layers_are_grouped_in_their_order() -> None:
    graph, last = Graph(), "x"
    graph.add("x", "Placeholder")
    for number in range(600):
        last = graph.add(f"op_{number * 7 % 600}", "Relu" if number % 2 else "MatMul", last)
    nodes = outlined(graph, ["x"], [last])
    assert sum(node["members"] for node in nodes if node["kind"] == "operation") == 600
    assert len(nodes) > outline.MOST_NODES / 2
    assert_chain(nodes)
    assert_readable(nodes)


@pytest.mark.slow
@given(st.lists(st.text("ab/", min_size=1, max_size=9), unique=True, min_size=90, max_size=300), st.integers(2, 120))
def test_whatever_the_names_every_operation_has_a_group_and_there_are_no_more_than_fit(
    names: list[str], room: int
) -> None:
    sources = {name: names[max(0, number - 2) : number] for number, name in enumerate(names)}
    groups = outline._groups(sorted(names), sources, room)
    grouped = [name for _, members in groups for name in members]
    assert sorted(grouped) == sorted(names)
    assert len(groups) <= room
    places = {name: place for place, (_, members) in enumerate(groups) for name in members}
    assert all(places[source] <= places[name] for name in names for source in sources[name])


def test_it_is_the_same_in_whatever_order_tensorflow_names_the_operations() -> None:
    graph, last = layered(60)
    expected = outlined(graph, ["x"], [last])
    names = list(graph.operations)
    for seed in range(3):
        random.Random(seed).shuffle(names)
        shuffled = Graph()
        shuffled.operations = {name: graph.operations[name] for name in names}
        assert outlined(shuffled, ["x"], [last]) == expected


def test_a_graph_with_more_inputs_than_boxes_has_none() -> None:
    graph = Graph()
    names = [graph.add(f"x{number}", "Placeholder") for number in range(outline.MOST_NODES)]
    graph.add("y", "AddN", *names)
    assert outline.outline(graph, [border(n, n) for n in names], [border("y", "y")]) is None


def test_long_names_are_cut() -> None:
    graph = Graph()
    graph.add("x", "Placeholder")
    graph.add("n" * 5000, "K" * 5000, "x")
    nodes = outlined(graph, ["x"], ["n" * 5000])
    assert max(len(text) for node in nodes for text in (node["name"], node["op"])) <= 120
    assert_readable(nodes)


def assert_readable(nodes: list[dict[str, Any]]) -> Drawing:
    """The drawing of an outline: few boxes on a sheet of limited size, none on another, all texts fit into theirs."""
    assert len(nodes) <= outline.MOST_NODES
    drawing = draw(nodes_of_document(json.loads(json.dumps({"format": 1, "nodes": nodes}))))
    assert len(drawing.boxes) == len(nodes)
    places = {(box.x // drawing.box_width, box.y) for box in drawing.boxes}
    assert len(places) >= len(nodes) * 0.9
    assert max(len(text) for box in drawing.boxes for text in (box.label, box.detail)) <= 26
    assert drawing.width <= 110 * (drawing.box_width + 20) and drawing.height <= 110 * (drawing.box_height + 34)
    assert sum(map(len, drawing.edges)) < 200_000
    return drawing


def test_each_call_of_a_module_of_pytorch_is_a_scope_of_its_own() -> None:
    """An encoder that is called twice behind another layer, and once more without anything between."""

    def call(number: int) -> list[tuple[list[str], str]]:
        return [(["encoder", "encoder.fc", f"linear_{number}"], "w"), (["encoder", f"relu_{number}"], "")]

    first = [(["first", "linear"], "v")]
    found = scopes.scopes_of([*first, *call(1), *first, *call(2), *call(3), (["cat"], ""), ([], "")])
    assert found == [
        "first/linear", "encoder/fc/linear_1", "encoder/relu_1", "first_1/linear", "encoder_1/fc/linear_2",
        "encoder_1/relu_2", "encoder_2/fc/linear_3", "encoder_2/relu_3", "cat", "",
    ]  # fmt: skip


def test_calls_share_weights_whose_values_are_equal_but_not_those_that_are_still_zero() -> None:
    graph = Graph()
    for call, values in (("enc", b"\1\2"), ("enc_1", b"\1\2"), ("other", bytes(8)), ("other_1", bytes(8))):
        graph.add(f"x_{call}", "Placeholder")
        graph.add(f"{call}/kernel", "Const")
        graph.operations[f"{call}/kernel"].functions["value"] = SimpleNamespace(tensor_content=values)
        graph.add(f"{call}/MatMul", "MatMul", f"x_{call}", f"{call}/kernel")
        graph.add(f"{call}/Relu", "Relu", f"{call}/MatMul")
    graph.add("out", "AddN", *(f"{call}/Relu" for call in ("enc", "enc_1", "other", "other_1")))
    nodes = outlined(graph, ["x_enc", "x_enc_1", "x_other", "x_other_1"], ["out"])
    assert [node["op"] for node in nodes if node["members"] > 1] == ["enc, shared"] * 2


# --- graphs as TensorFlow freezes them ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_outline(
    shared_home_folder: Path, toolchain_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[dict[str, Any]]]:
    """`real_outline(name)`: the nodes of that model of tests/models/deep.py."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    cache = BuildCache(root=tmp_path_factory.mktemp("builds"))

    def find(name: str) -> list[dict[str, Any]]:
        models = saved_models(shared_home_folder, MAKER, toolchain_python, [name])
        spec = ModelSpec(
            path=models / "spec.yaml",
            model=ModelInfo(name=name, version="1.0.0", files=SavedModelFiles(path=name)),
            source=FolderSource(path=models),
            compilation=Compilation(batch_sizes=(1,), targets=("x86-64-v3",), tensorflow=DEFAULT_VERSION),
        )
        source = source_tree(models, Path(name))
        environment = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
        key = frozen_key(spec, source, environment.identity)
        with WorkerPool(environment, scratch_root=cache.root, logs=folders.logs) as pool:
            saved = SavedModel(spec.model, source, pool)
            frozen = freeze(spec, saved, key=key, pool=pool, cache=cache, progress=Silent())
        assert frozen.outline is not None
        nodes: list[dict[str, Any]] = json.loads(json.dumps(frozen.outline))["nodes"]
        return nodes

    return find


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_a_residual_network_of_hundreds_of_operations_is_drawn_block_by_block(
    real_outline: Callable[[str], list[dict[str, Any]]],
) -> None:
    nodes = real_outline("residual")
    groups = [node for node in nodes if node["kind"] == "operation"]
    blocks = {node["name"]: node["members"] for node in groups if "block_" in node["name"]}
    assert len(blocks) == 40, sorted(blocks)
    assert set(blocks.values()) == {8}, "MatMul, BiasAdd, Relu twice, the way around, tanh"
    joined = edges(nodes)
    numbers = sorted(blocks, key=lambda name: int(name.rpartition("_")[2]))
    assert all((one, other) in joined for one, other in pairwise(numbers))
    drawing = assert_readable(nodes)
    rows = {box.node.title.partition(":")[0]: box.y for box in drawing.boxes}
    drawn = [rows[name.removeprefix("PartitionedCall/")] for name in numbers]
    assert drawn == sorted(drawn)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_layers_of_keras_loops_and_conditions_are_named_as_what_they_are(
    real_outline: Callable[[str], list[dict[str, Any]]],
) -> None:
    nodes = real_outline("recurrent")
    assert [node["op"] for node in nodes if node["parts"]] == [
        "GRU", "Bidirectional LSTM", "SimpleRNN", "LSTM", "Loop", "Condition",
    ]  # fmt: skip
    parts = {node["op"]: {part["op"] for part in node["parts"] if part["inside"]} for node in nodes}
    assert {"MatMul", "Sigmoid", "Tanh"} <= parts["Bidirectional LSTM"]
    assert parts["Condition"] == {"Exp", "Mul"}
    assert not {"While", "StatelessWhile", "TensorListStack"} & {node["op"] for node in nodes}
    assert_readable(nodes)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_hundreds_of_operations_without_scopes_are_drawn_in_their_order(
    real_outline: Callable[[str], list[dict[str, Any]]],
) -> None:
    nodes = real_outline("flat")
    assert sum(node["members"] for node in nodes if node["kind"] == "operation") == 300
    assert all(node["inputs"] for node in nodes if node["kind"] == "operation")
    assert_readable(nodes)
