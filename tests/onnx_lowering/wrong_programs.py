"""A quantized transformer, what validation knows of its answers, and files of it that are wrong somewhere.

    FRONTEND/bin/python wrong_programs.py WORKER_PROGRAM FOLDER

FOLDER/NAME has graph.json and tensors.npz of the network (`right`) and of wrong ones, FOLDER/inputs.npz "x", and
FOLDER/answers.npz what the worker's reference writes of `right`.
"""

import logging
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.dirname(__file__))
from quantized_networks import Net, quantize

BLOCKS, TOKENS, WIDTH, ROWS, SIZE = 3, 16, 32, 64, 16


def transformer(net):
    x = "x"
    for _ in range(BLOCKS):
        x = net.add("Add", x, attention(net, normalized(net, x)))
        wide = dense(net, normalized(net, x), WIDTH, 2 * WIDTH)
        gate = net.add("Sigmoid", net.add("Mul", wide, net.constant(1.702)))
        x = net.add("Add", x, dense(net, net.add("Mul", wide, gate), 2 * WIDTH, WIDTH))
    return x


def normalized(net, x):
    scale, shift = net.constant(net.random.uniform(0.5, 1.5, WIDTH)), net.weights(WIDTH, inputs=20)
    return net.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-5, stash_type=1)


def attention(net, x):
    query, key, value = (dense(net, x, WIDTH, WIDTH) for _ in range(3))
    scores = net.add("MatMul", query, net.add("Transpose", key, perm=[0, 2, 1]))
    return dense(net, net.add("MatMul", net.add("Softmax", scores, axis=-1), value), WIDTH, WIDTH)


def dense(net, x, inputs, outputs):
    return net.add(
        "Add", net.add("MatMul", x, net.weights(inputs, outputs, inputs=inputs)), net.weights(outputs, inputs=9)
    )


def dequantized(model, place):
    """Of the nodes that make floats of computed bytes, the one at a place of them all, from 0 to 1."""
    weights = {each.name for each in model.graph.initializer}
    nodes = [each for each in model.graph.node if each.op_type == "DequantizeLinear" and each.input[0] not in weights]
    return nodes[int(place * (len(nodes) - 1))]


def give(model, node, number, change):
    """The node gets a copy of its constant `number`, changed: no other node does."""
    (tensor,) = (each for each in model.graph.initializer if each.name == node.input[number])
    values = np.asarray(change(numpy_helper.to_array(tensor)))
    node.input[number] = f"{tensor.name}/changed"
    model.graph.initializer.append(numpy_helper.from_array(values, node.input[number]))


def scale(place):
    def change(model):
        give(model, dequantized(model, place), 1, lambda each: (each * 1.01).astype("f4"))

    return change


def zero_point(place):
    def change(model):
        give(model, dequantized(model, place), 2, lambda each: (each + 1).astype(each.dtype))

    return change


def bias(place):
    def change(model):
        sums = {name for node in model.graph.node if node.op_type == "Add" for name in node.input}
        known = {each.name: each for each in model.graph.initializer}
        found = [
            node
            for node in model.graph.node
            if node.op_type == "DequantizeLinear" and node.output[0] in sums and node.input[0] in known
        ]
        zero = numpy_helper.to_array(known[found[0].input[2]])
        give(model, found[int(place * (len(found) - 1))], 0, lambda each: np.full_like(each, zero.reshape(-1)[0]))

    return change


WRONG = {
    f"{change.__name__}_{place}": change(place) for change in (scale, zero_point, bias) for place in (0.1, 0.5, 0.9)
}


def main():
    program, folder = sys.argv[1:]
    sys.path.insert(0, program)
    logging.disable(logging.WARNING)
    from from_onnx import reading
    from messages.requests import Reference
    from messages.sources import ReadOnnx
    from reference import reference

    net, plain, file = Net(), os.path.join(folder, "plain.onnx"), os.path.join(folder, "right.onnx")
    onnx.save(net.model(transformer(net), (TOKENS, WIDTH)), plain)
    quantize(plain, file, "qdq", (TOKENS, WIDTH))
    for name, change in {"right": lambda _model: None, **WRONG}.items():
        model, place = onnx.load(file), os.path.join(folder, name)
        change(model)
        os.makedirs(place)
        onnx.save(model, os.path.join(place, "model.onnx"))
        reading.read(ReadOnnx(path=os.path.join(place, "model.onnx"), shapes={}, out=place, qonnx=False), None)
    x = np.random.default_rng(3).standard_normal((ROWS, TOKENS, WIDTH)).astype("f4")
    inputs = os.path.join(folder, "inputs.npz")
    np.savez(inputs, x=x)
    request = Reference(
        tags=(), signature="", folder=file, inputs=inputs, out=os.path.join(folder, "answers.npz"), batch_sizes=(SIZE,),
        batched=("x",), stacked=("y",), perturbed=9, framework="onnx", feeds={"x": "x"}, fetches={"y": "y"},
    )  # fmt: skip
    reference(request, lambda *_: None)


if __name__ == "__main__":
    main()
