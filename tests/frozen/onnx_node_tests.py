"""ONNX's own tests of its operators, as the front-end reads them.

    FRONTEND/bin/python onnx_node_tests.py read WORKER_PROGRAM FOLDER all|one     writes graphs, inputs and answers

`one`: the first test of each operator only.
"""

import json
import os
import sys
import warnings

import numpy as np


def operator_of(model) -> str:
    node = next((each for each in model.graph.node if each.op_type not in ("Constant", "Cast")), model.graph.node[0])
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def read(folder: str, which: str) -> None:
    """NAME/graph.json and tensors.npz, NAME/data.npz with inputs by name and answers in their order; index.json."""
    import onnx
    from from_onnx import reading
    from messages.requests import ModelFault
    from messages.sources import ReadOnnx
    from onnx.backend.test.case import collect_snippets  # noqa: F401 (imports every case)
    from onnx.backend.test.case.node import collect_testcases

    index, seen = {}, set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        operator = operator_of(case.model)
        if case.kind != "node" or (which == "one" and operator in seen):
            continue
        seen.add(operator)
        place = os.path.join(folder, case.name)
        os.makedirs(place, exist_ok=True)
        file = os.path.join(place, "model.onnx")
        onnx.save(case.model, file)
        try:
            found = reading.read(ReadOnnx(path=file, shapes={}, out=place), None)
            inputs, outputs = case.data_sets[0]
            names = [each.name for each in case.model.graph.input]
            arrays = {f"in/{key}": value for key, value in zip(names, inputs, strict=False)}
            kept = [each.name for each in case.model.graph.output]
            arrays.update({f"out/{key}": value for key, value in zip(kept, outputs, strict=False)})
            np.savez(os.path.join(place, "data.npz"), **{key: array(value) for key, value in arrays.items()})
            index[case.name] = [operator, "", case.rtol, case.atol, [each.key for each in found.inputs]]
        except ModelFault as fault:
            index[case.name] = [operator, fault.message, 0, 0, []]
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
        json.dump(index, file)


def array(value):
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def agree(ours, theirs, rtol: float, atol: float) -> bool:
    if theirs.dtype.kind not in "fc":
        return bool((ours == theirs).all())
    if theirs.dtype == np.float16:
        rtol = max(rtol, 2.0**-9)  # two roundings
    # Sums are as exact as their largest terms.
    finite = np.abs(theirs[np.isfinite(theirs)])
    return bool(np.allclose(ours, theirs, rtol=rtol, atol=max(atol, 2.0**-22 * finite.max(initial=0)), equal_nan=True))


def main() -> None:
    what, program, folder, which = sys.argv[1:]
    sys.path.insert(0, program)
    assert what == "read"
    read(folder, which)


if __name__ == "__main__":
    main()
