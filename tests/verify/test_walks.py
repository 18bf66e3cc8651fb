"""What a run node by node tells: rows in which an operation's result is open, and answers in float64."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tfaot_pkg
from tests.commands import run_command
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

_WALKED = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from from_onnx.interpreter import Walk
from onnx import TensorProto, helper
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 3) for name in "xy")
numbers = [helper.make_tensor(name, TensorProto.FLOAT, [3], [value] * 3) for name, value in
           (("scale", 2), ("shift", 1), ("mean", 3), ("variance", 3))]
nodes = [
    helper.make_node("BatchNormalization", ["x", *(each.name for each in numbers)], ["z"], momentum=0.5, epsilon=1.0),
    helper.make_node("GlobalMaxPool", ["z"], ["y"]),
]
graph = helper.make_graph(nodes, "g", [x], [y], numbers)
walk = Walk(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]))
values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
(found,) = walk.run(["y"], {"x": values}, double=True, observe=lambda node: None)
assert found.shape == (2, 3, 1) and (found[..., 0] == values[..., 3] - 3 + 1).all(), found
"""
_WINDOWS = """
import itertools, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, onnxruntime
from from_onnx.interpreter import Walk
from onnx import TensorProto, helper
generator = np.random.default_rng(0)
x = generator.standard_normal((2, 4, 9, 8)).astype(np.float32)
w, b = generator.standard_normal((8, 2, 3, 2)).astype(np.float32), np.arange(8, dtype=np.float32)
places = [{}, {"pads": [1, 0, 2, 1]}, {"auto_pad": "SAME_LOWER"}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "VALID"}]
kinds = [
    ("Conv", {"x": x, "w": w, "b": b}, {"group": 2}), ("MaxPool", {"x": x}, {}), ("AveragePool", {"x": x}, {}),
    ("AveragePool", {"x": x}, {"count_include_pad": 1}), ("MaxPool", {"x": x}, {"dilations": [2, 3]}),
    ("Conv", {"x": x, "w": w, "b": b}, {"group": 2, "dilations": [2, 3]}),
]
for (kind, given, more), place, strides in itertools.product(kinds, places, ([1, 1], [2, 1])):
    if "dilations" in more and "auto_pad" in place:
        continue  # ONNX Runtime does not compute it
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape) for name, each in given.items()]
    node = helper.make_node(kind, list(given), ["y"], kernel_shape=[3, 2], strides=strides, **place, **more)
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)[0]
    (found,) = Walk(model).run(["y"], given, double=False, observe=lambda node: None)
    assert found.shape == right.shape and np.abs(found - right).max() < 1e-5, (kind, place, strides, more)
"""
_NORMALIZED = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from from_onnx.interpreter import Walk
from onnx import TensorProto, helper, numpy_helper
x = np.random.default_rng(0).standard_normal((2, 3, 64)).astype(np.float32) + 1000
scale = np.linspace(1, 2, 64, dtype=np.float32)
wide = x.astype(np.float64)
off = wide - wide.mean(-1, keepdims=True)
wanted = {
    ("LayerNormalization", 17): off / np.sqrt((off**2).mean(-1, keepdims=True) + 1e-3) * scale.astype(np.float64),
    ("RMSNormalization", 23): wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-3) * scale.astype(np.float64),
}
for (kind, opset), right in wanted.items():
    for more in ({}, {"stash_type": 1}):
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 3) for name in "xy"]
        node = helper.make_node(kind, ["x", "scale"], ["y"], epsilon=1e-3, **more)
        graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(scale, "scale")])
        walk = Walk(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
        for double, most in ((False, 1e-2), (True, 1e-6)):
            (found,) = walk.run(["y"], {"x": x}, double=double, observe=lambda node: None)
            assert found.dtype == (np.float64 if double else np.float32)
            assert np.abs(found - right).max() < most, (kind, more, double)
"""
_QUANTIZED = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np, onnxruntime
from from_onnx.interpreter import Walk
from onnx import TensorProto, helper, numpy_helper
x = np.array([[0.3, -0.3, 1e3, -1e3], [1e10, -1e10, 3e38, -3e38], [np.inf, -np.inf, np.nan, 0.25]], np.float32)
scales = np.array([0.5, 0.001, 2.0, 0.1], np.float32)
for opset in (13, 19, 21):
    for dtype, kind in (("int8", TensorProto.INT8), ("uint8", TensorProto.UINT8)):
        for scale in (scales[:1].reshape(()), scales):
            zero = np.full(scale.shape, 7, dtype)
            values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4]),
                      helper.make_tensor_value_info("y", kind, [None, 4])]
            constants = [numpy_helper.from_array(each, name) for name, each in (("scale", scale), ("zero", zero))]
            node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], axis=1)
            graph = helper.make_graph([node], "g", values[:1], values[1:], constants)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
            right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
            for double in (False, True):
                (found,) = Walk(model).run(["y"], {"x": x}, double=double, observe=lambda node: None)
                assert found.dtype == right.dtype and (found == right).all(), (opset, dtype, found, right)
"""
pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
_FILES = Path(__file__).resolve().parents[1] / "models" / "open_results.py"


@pytest.mark.sweep("tokens*", "largest_of_five*", night=["quantized*", "converted*", "squeezed*"])
@pytest.mark.parametrize(
    ("name", "class_name", "rule"),
    [
        ("tokens", "main", "error of the framework"),
        ("largest_of_five", "nonfinite", "NaN in a maximum"),
        ("converted", "main", "conversion out of range"),
        ("quantized", "main", ""),
        ("squeezed", "main", ""),
    ],
)
def test_onnx_files_build_where_onnx_runtime_leaves_the_result_open(
    name: str, class_name: str, rule: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    toolchain = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python)
    run([frontend.python, "-I", _FILES, tmp_path / f"{name}.onnx", name], timeout=120)
    (tmp_path / "spec.yaml").write_text(
        f"model: {{name: {name}, version: 1.0.0, onnx: {name}.onnx}}\n"
        "compilation: {batch_sizes: [1, 4], targets: [x86-64-v3]}\n"
    )
    variables = {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    built = run_command(["build", "spec.yaml", "-o", "prefix"], cwd=tmp_path, env=variables)
    assert built.returncode == 0, built.stderr
    document = json.loads(next((tmp_path / "prefix" / "share").glob("*/validation.json")).read_text())
    (found,) = [each for each in document["classes"] if each["name"] == class_name]
    rules = {each["rule"] for each in found["differences"]}
    assert rules == ({rule} if rule else rules) and not any(each["is_fault"] for each in found["differences"])


@pytest.mark.parametrize(
    "program",
    [_WALKED, _WINDOWS, _NORMALIZED, _QUANTIZED],
    ids=["normalization and pooling", "windows", "normalization in a type that files name", "far numbers and bytes"],
)
def test_walks_compute_what_onnx_defines(program: str, shared_home_folder: Path) -> None:
    """The package's own operators (1.23) are wrong: with a momentum, for sequences, for windows that it places, for
    normalizations in float64, and for bytes of far numbers.
    """
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    toolchain = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python)
    run([frontend.python, "-I", "-c", program, Path(tfaot_pkg.__file__).parent / "worker_program"], timeout=120)


_BELIEVED = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from float64_reference import Walks
from messages.open_results import Node
from messages.requests import Reference

right = np.linspace(-1, 1, 256, dtype=np.float32).reshape(4, 64)
request = Reference(
    tags=(), signature="", folder="", inputs="", out="", batch_sizes=(4,), batched=("x",), stacked=("y",)
)


class Model:
    not_walked = ()

    def __init__(self, operation, off, x):
        self.operation, self.off, self.x = operation, off, x

    def walk(self, feeds, *, double, observe):
        value = self.x.astype(np.float64) * (1 + 1e-6) if double else self.x
        observe(Node(name="q", operation=self.operation, operands=(value, np.asarray(0.5, value.dtype))))
        return {"y": right + np.asarray(self.off, np.float32)}


at_step, far = np.full((4, 1), 0.75, np.float32), np.full((4, 1), 0.5, np.float32)
quantized, compared = "ai.onnx.QuantizeLinear", "ai.onnx.Greater"
cases = {
    (quantized, 0.03, "at a step"): True, (quantized, 0.03, "far"): False, (quantized, 0.04, "at a step"): False,
    (compared, 0.03, "at a step"): False, (quantized, 0.009, "far"): True,
}
for (operation, off, place), believed in cases.items():
    walks = Walks(Model(operation, off, at_step if place == "at a step" else far), request)
    found = walks.of({"x": right}, {"y": right}, 4)
    assert ("y/exact" in found) == believed, (operation, off, place, list(found))
"""


def test_walks_whose_bytes_are_nearly_at_a_step_are_believed_if_they_differ_by_some_steps(
    shared_home_folder: Path,
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"])
    run([frontend.python, "-I", "-c", _BELIEVED, Path(tfaot_pkg.__file__).parent / "worker_program"], timeout=120)
