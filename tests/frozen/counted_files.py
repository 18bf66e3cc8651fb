"""Write an ONNX file whose outputs have as many rows as values say, and what ONNX Runtime gives, to a folder.

FRONTEND/bin/python counted_files.py FOLDER

In counted.npz: "inputs/NAME" and "outputs/NAME".
"""

import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
BORDER = {
    "inputs": {"x": (FLOAT, [6, 3]), "k": (INT64, [12]), "boxes": (FLOAT, [1, 8, 4]), "scores": (FLOAT, [1, 2, 8])},
    "outputs": {
        "hits": (FLOAT, ["hits"]),
        "kept": (FLOAT, ["rows", 3]),
        "kinds": (INT64, ["kinds"]),
        "number": (INT64, ["kinds"]),
        "inverse": (INT64, [12]),
        "first": (INT64, ["first"]),
        "selected": (INT64, ["boxes", 3]),
    },
}
CONSTANTS = {"limit": np.float32(0.25), "zero": np.int64(0), "most": np.int64([3]), "least": np.float32([-0.5]), "overlap": np.float32([0.3])}  # fmt: skip
NODES = [
    # x[x > 0.25], as PyTorch's exporter writes it.
    ("Greater", ["x", "limit"], ["mask"], {}),
    ("NonZero", ["mask"], ["columns"], {}),
    ("Transpose", ["columns"], ["places"], {"perm": [1, 0]}),
    ("GatherND", ["x", "places"], ["hits"], {}),
    ("Gather", ["mask", "zero"], ["of_rows"], {"axis": 1}),
    ("Compress", ["x", "of_rows"], ["kept"], {"axis": 0}),
    ("Unique", ["k"], ["kinds", "", "inverse", "number"], {}),
    ("Unique", ["k"], ["", "first"], {"sorted": 0}),
    ("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["selected"], {}),
]


def main(folder):
    border = {
        kind: [helper.make_tensor_value_info(name, *each) for name, each in tensors.items()]
        for kind, tensors in BORDER.items()
    }
    nodes = [helper.make_node(op, inputs, outputs, name=f"{op}_{i}", **attributes)
             for i, (op, inputs, outputs, attributes) in enumerate(NODES)]  # fmt: skip
    # ONNX requires Unique's first output.
    nodes[7].output[0] = "unused"
    tensors = [numpy_helper.from_array(np.asarray(values), name) for name, values in CONSTANTS.items()]
    graph = helper.make_graph(nodes, "graph", border["inputs"], border["outputs"], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, f"{folder}/counted.onnx")
    random = np.random.default_rng(3)
    corners = random.uniform(0, 1, (1, 8, 2))
    given = {
        "x": random.standard_normal((6, 3)),
        "k": random.integers(0, 5, 12),
        "boxes": np.concatenate([corners, corners + random.uniform(0.2, 1, (1, 8, 2))], -1),
        "scores": random.standard_normal((1, 2, 8)),
    }
    given = {name: values.astype(np.int64 if name == "k" else np.float32) for name, values in given.items()}
    names = list(BORDER["outputs"])
    answers = onnxruntime.InferenceSession(f"{folder}/counted.onnx").run(names, given)
    found = {f"inputs/{name}": values for name, values in given.items()}
    np.savez(f"{folder}/counted.npz", **found, **{f"outputs/{n}": v for n, v in zip(names, answers, strict=True)})


if __name__ == "__main__":
    main(sys.argv[1])
