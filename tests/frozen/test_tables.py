"""Lookup tables: what is read of a file, and what is refused because it is not known before the model runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(300)]

_PROGRAM = resources.templates().parent / "tfaot_pkg" / "worker_program"
_SCRIPT = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, sys.argv[1])
import numpy as np, tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
import reachability, saved_model, tables

def saved(name, make):
    folder = os.path.join(sys.argv[2], name)
    module = tf.Module()
    module.table = make()
    module.body = tf.function(lambda i: {"y": module.table.lookup(i)})
    spec = tf.TensorSpec([None], module.table.key_dtype, name="i")
    tf.saved_model.save(module, folder, signatures=module.body.get_concrete_function(i=spec))
    graph = saved_model.meta_graph(saved_model.read(folder), ["serve"])
    return graph, reachability.reached_by(graph, "serving_default", graph.signature_def["serving_default"])

def of(keys, values, dtypes=(None, None), default=-1):
    return lambda: tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values, *dtypes), default)

def file():
    path = os.path.join(sys.argv[2], "words.txt")
    open(path, "w").write("3\\n5\\n")
    whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    return tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(path, tf.int64, whole, tf.int64, number), -1)

told = {}
graph, found = saved("numbers", of([7, -2, 7], [1., 2., 1.]))
(table,) = found.tables.values()
told["numbers"] = [table.keys.tolist(), table.values.tolist(), found.faults]
# A file in which the table is filled twice, or by what is computed.
calls = [node for node in graph.graph_def.node if len(node.input) == 3]
graph.graph_def.node.add().CopyFrom(calls[-1])
graph.graph_def.node[-1].name = "again"
told["twice"] = reachability.reached_by(graph, "serving_default", graph.signature_def["serving_default"]).faults
graph, _ = saved("computed", of([1], [2]))
for node in graph.graph_def.node:
    if node.op == "Const":
        node.op = "Placeholder"
try:
    told["computed"] = reachability.reached_by(graph, "serving_default", graph.signature_def["serving_default"]).faults
except Exception as error:
    told["computed"] = [["", "", str(error)]]
graph, _ = saved("endless", of([1, 2], [3, 4]))
for node in graph.graph_def.node:
    if node.op == "Const" and node.attr["value"].tensor.tensor_shape.dim:
        node.attr["value"].tensor.tensor_shape.dim[0].size = 1 << 40
told["endless"] = reachability.reached_by(graph, "serving_default", graph.signature_def["serving_default"]).faults
told["words"] = saved("words", of(["a"], [1], (tf.string, tf.int64)))[1].faults
told["file"] = saved("file", file)[1].faults
json.dump(told, open(os.path.join(sys.argv[2], "told.json"), "w"))
"""


def test_constant_numbers_are_read_and_everything_else_is_a_fault(toolchain_python: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(_SCRIPT)
    run([toolchain_python, "-I", "-B", tmp_path / "script.py", _PROGRAM, tmp_path], timeout=250)
    told = json.loads((tmp_path / "told.json").read_text())
    assert told.pop("numbers") == [[-2, 7], [2.0, 1.0], []]
    says = {
        "twice": "filled 2 times",
        "computed": "not constant",
        "endless": "more than 16,777,216 entries",
        "words": "look them up in the calling program",
        "file": "nothing in the file fills it with constants",
    }
    for name, text in says.items():
        assert any(text in why for _, _, why in told[name]), (name, told[name])
