"""Random quantized networks in QONNX, as the front-end reads them, with the answers of QONNX's executor.

    FRONTEND/bin/python drawn_qonnx.py SEED COUNT FOLDER WORKER_PROGRAM

FOLDER/N has the network as the front-end reads it, and rows.npz with "in/x" and "out/KEY"; FOLDER/index.json names the
operators of each, those that are refused, and those that the executor does not run.

Scales are powers of two, and sums have less than 2**24 steps, so that the executor's floats are exact, and answers have
its bits. One network of four has any scales, and no sums: each of its operations rounds as the executor does.
"""

import json
import os
import sys
import traceback

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

DOMAIN = "qonnx.custom_op.general"
ROWS = 24
MOST_STEPS = 2.0**23
MODES = ("ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN", "round")
LARGEST = 3000


class Value:
    """A result: its sizes without the batch, 2**-places as the step of its numbers, and the largest of them in steps."""

    def __init__(self, name, sizes, places, most, scale=None):
        self.name, self.sizes, self.places, self.most = name, tuple(sizes), places, most
        self.scale = scale  # that of the quantizer which made it, if it has one for all


class Network:
    def __init__(self, random, number):
        self.random, self.number = random, number
        self.exact = random.random() < 0.7
        self.version = int(random.integers(1, 3))
        self.nodes, self.tensors, self.weighty = [], [], 0
        self.sizes = self.few((6,), (9,), (3, 8), (4, 5), (2, 6, 6), (3, 5, 5))
        self.values = [self.quant(Value("x", self.sizes, 0, np.inf))]
        length, tries = random.integers(2, 9), 0
        while len(self.values) < length and tries < 60:
            tries += 1
            self.step()
        self.results = list({each.name: each for each in (self.values[-1], self.any())}.values())
        self.text = f"{number}, {self.version}: " + " ".join(node.op_type for node in self.nodes)

    def few(self, *choices):
        return choices[self.random.integers(len(choices))]

    def likely(self, share):
        return self.random.random() < share

    def constant(self, values, dtype="f4"):
        from onnx import numpy_helper

        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def add(self, op, *inputs, domain="", **attributes):
        from onnx import helper

        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"n{name}", domain=domain, **attributes))
        return name

    def any(self, *ranks):
        fits = [each for each in self.values if not ranks or len(each.sizes) in ranks]
        return fits[-1 - min(int(self.random.exponential(0.7)), len(fits) - 1)] if fits else None

    # -- quantizers ----------------------------------------------------------------------------------------------------

    def scales(self, count, shape, least=-1, most=6):
        """One scale, or `count` of them in this shape; the step of numbers by them, and the largest scale in steps."""
        few = () if shape is None or self.likely(0.6) else shape
        if self.exact:
            exponents = self.random.integers(least, most + 1, few)
            return 2.0 ** -np.asarray(exponents, float), int(np.max(exponents)), 2.0 ** np.ptp(exponents)
        return self.random.uniform(0.03, 0.7, few), 0, np.inf

    def quant(self, x, *, layer=False):
        """A quantizer of x: along channels, if there are any."""
        shape = None if layer else (x.sizes[0], *[1] * (len(x.sizes) - 1))
        usual = self.likely(0.6)
        if usual:
            shape = None
        elif shape is not None and self.likely(0.3):
            shape = (1, *shape)
        if self.likely(0.12):
            scale, places, wide = self.scales(x.sizes[0], shape)
            made = self.add("BipolarQuant", x.name, self.formed(scale), domain=DOMAIN)
            return Value(made, x.sizes, places, wide)
        scale, places, wide = self.scales(x.sizes[0], shape)
        bits = self.few(2, 3, 4, 6, 8) if usual else self.few(1, 2, 3, 5, 7, 8, 9, 10, 2.5, 4.25)
        zero = 0.0 if self.likely(0.7) else float(self.random.integers(-6, 7))
        zeros = zero if shape is None or self.likely(0.8) else self.random.integers(-6, 7, shape)
        if not usual and self.likely(0.08):
            zeros, places, wide = np.asarray(zeros) + 0.5, places + 1, wide * 2
        signed = int(self.likely(0.6))
        attributes = {"signed": signed, "narrow": int(self.likely(0.4)), "rounding_mode": self.few(*MODES)}
        parts = [self.formed(each) for each in (scale, zeros)]
        parts.append(self.constant(float(bits) if self.likely(0.7) else [float(bits)]))
        op = "IntQuant" if self.likely(0.1) else "Quant"
        name = self.add(op, x.name, *parts, domain=DOMAIN, **attributes)
        largest = (2.0 ** (bits - signed) + 6 * bool(np.any(zeros))) * wide
        one = (
            None
            if np.size(scale) > 1 or np.size(zeros) > 1
            else (float(np.reshape(scale, ())), float(np.reshape(zeros, ())), float(bits), signed)
        )
        return Value(name, x.sizes, places, largest, one)

    def formed(self, values):
        """A constant of one number or several, as exporters write it, or as a graph computes it."""
        values = np.asarray(values, float)
        if values.size == 1 and self.likely(0.4):
            values = values.reshape(self.few((), (1,), (1, 1)))
        if self.likely(0.1):
            return self.add("Mul", self.constant(values * 2), self.constant(0.5))
        return self.constant(values)

    def trunc(self):
        x = self.any()
        if x is None or x.scale is None:
            return None
        scale, zero, bits, signed = x.scale
        lost = self.few(0, 1, 2, 3)
        mode = self.few("FLOOR", "CEIL", "ROUND", "DOWN", "UP", "HALF_UP", "HALF_DOWN")
        parts = [self.constant(each) for each in (scale, zero, bits)]
        if self.version < 2:
            parts.append(self.constant(max(1.0, bits - lost)))
            name = self.add("Trunc", x.name, *parts, domain=DOMAIN, rounding_mode=mode)
            return Value(name, x.sizes, x.places + 6, x.most * 64)
        parts += [self.constant(scale * 2.0**lost), self.constant(max(1.0, bits - lost))]
        name = self.add("Trunc", x.name, *parts, domain=DOMAIN, rounding_mode=mode, signed=signed,
                        narrow=int(self.likely(0.3)))  # fmt: skip
        return Value(name, x.sizes, x.places + 6, x.most * 64)

    # -- layers --------------------------------------------------------------------------------------------------------

    def weights(self, shape, axis):
        """Constants as weights: quantized ones, mostly; steps of 2**-places, at most `most` of them."""
        bits = int(self.few(1, 2, 3, 4, 6, 8))
        along = [1] * len(shape)
        along[axis] = shape[axis]
        scale, places, wide = self.scales(shape[axis], tuple(along), 0, 5)
        drawn = self.random.normal(size=shape) * (np.asarray(scale) * 2.0 ** max(bits - 2, 0))
        kind = self.random.random()
        if kind < 0.12:
            return self.add("BipolarQuant", self.constant(drawn), self.constant(scale), domain=DOMAIN), places, wide
        if kind < 0.2:
            whole = np.rint(drawn * 2.0**places)
            return self.constant(whole / 2.0**places), places, np.abs(whole).max() + 1
        zero = 0.0 if self.likely(0.85) else float(self.random.integers(-2, 3))
        attributes = {
            "signed": int(self.likely(0.85)),
            "narrow": int(self.likely(0.6)),
            "rounding_mode": self.few(*MODES),
        }
        parts = [self.constant(each) for each in (scale, zero, float(bits))]
        made = self.add("Quant", self.constant(drawn), *parts, domain=DOMAIN, **attributes)
        return made, places, (2.0**bits + abs(zero)) * wide

    def summed(self, x, terms, places, most):
        """Whether sums of so many products are exact."""
        return self.exact and x.most * most * terms < MOST_STEPS and len(self.tensors) < 60

    def sums(self, name, sizes, places, most):
        """Of products of such steps, and biases of up to 80 * 2**-6, or half of both."""
        made = max(places + 1, 7)
        return Value(name, sizes, made, most * 2.0 ** (made - places) + 160 * 2.0 ** (made - 6))

    def bias(self, name, shape):
        if not self.likely(0.5):
            return name
        values = self.random.integers(-40, 41, shape) * 2.0**-6
        operands = [name, self.constant(values)]
        return self.add("Add", *(operands if self.likely(0.7) else operands[::-1]))

    def taken(self, *ranks):
        """An input of a layer: numbers of few bits, mostly."""
        x = self.any(*ranks)
        return x if x is None or x.scale is not None or self.likely(0.2) else self.quant(x, layer=True)

    def dense(self):
        x = self.taken(1, 2)
        if x is None:
            return None
        width, made = x.sizes[-1], int(self.few(3, 4, 8))
        turned = self.likely(0.3)
        weights, places, most = self.weights((made, width) if turned else (width, made), 0 if turned else 1)
        if not self.summed(x, width, places, most):
            return None
        sizes = (*x.sizes[:-1], made)
        if len(x.sizes) == 2 and self.likely(0.25):
            return self.left(x)
        if len(x.sizes) == 1 and self.likely(0.4):
            bias = [self.constant(self.random.integers(-40, 41, made) * 2.0**-6)] if self.likely(0.6) else []
            name = self.add(
                "Gemm",
                x.name,
                weights,
                *bias,
                transB=int(turned),
                alpha=self.few(1.0, 1.0, 0.5),
                beta=self.few(1.0, 1.0, 2.0),
            )
        else:
            if turned:
                weights = self.add("Transpose", weights, perm=[1, 0])
            name = self.bias(self.add("MatMul", x.name, weights), made)
        return self.sums(name, sizes, x.places + places, x.most * most * width)

    def left(self, x):
        """Weights by activations."""
        weights, places, most = self.weights((4, x.sizes[0]), 0)
        if not self.summed(x, x.sizes[0], places, most):
            return None
        name = self.add("MatMul", weights, x.name)
        return Value(name, (4, x.sizes[1]), x.places + places, x.most * most * x.sizes[0])

    def normalized(self):
        """A batch normalization by powers of two."""
        x = self.any()
        if not self.exact or x.most * 2**12 >= MOST_STEPS:
            return None
        count = x.sizes[0]
        scale, var = 2.0 ** self.random.integers(-2, 2, count), 4.0 ** self.random.integers(-1, 2, count)
        bias, mean = (self.random.integers(-8, 9, count) / 8 for _ in range(2))
        name = self.add("BatchNormalization", x.name, *map(self.constant, (scale, bias, mean, var)), epsilon=0.0)
        return Value(name, x.sizes, x.places + 6, (x.most + 2.0**x.places) * 2**9)

    def conv(self):
        x = self.taken(2, 3)
        if x is None:
            return None
        space, channels = x.sizes[1:], x.sizes[0]
        window = [int(self.random.integers(1, min(3, size) + 1)) for size in space]
        group = channels if self.likely(0.2) else 1
        filters = channels * int(self.few(1, 2)) if group > 1 else int(self.few(2, 4, 5))
        weights, places, most = self.weights((filters, channels // group, *window), 0)
        terms = channels // group * int(np.prod(window))
        if not self.summed(x, terms, places, most):
            return None
        strides = [int(self.few(1, 1, 2)) for _ in space]
        pads = [int(self.few(0, 0, 1)) for _ in range(2 * len(space))]
        rank = len(space)
        dilations = [int(self.few(1, 1, 1, 2)) for _ in space]
        reach = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
        found = [(s + pads[i] + pads[i + rank] - reach[i]) // strides[i] + 1 for i, s in enumerate(space)]
        if any(s + pads[i] + pads[i + rank] < reach[i] for i, s in enumerate(space)):
            return None
        bias = [self.constant(self.random.integers(-40, 41, filters) * 2.0**-6)] if self.likely(0.3) else []
        name = self.add(
            "Conv",
            x.name,
            weights,
            *bias,
            kernel_shape=window,
            strides=strides,
            pads=pads,
            group=group,
            dilations=dilations,
        )
        shape = (filters, *[1] * rank)
        if not bias:
            name = self.bias(name, shape)
        return self.sums(name, (filters, *found), x.places + places, x.most * most * terms)

    def product(self):
        """Of two activations, as in attention."""
        x = self.any(2)
        if x is None or not self.exact or x.most * x.most * max(x.sizes) >= MOST_STEPS:
            return None
        turned = self.add("Transpose", x.name, perm=[0, 2, 1])
        name = self.add("MatMul", x.name, turned)
        return Value(name, (x.sizes[0], x.sizes[0]), 2 * x.places, x.most * x.most * x.sizes[1])

    # -- between layers ------------------------------------------------------------------------------------------------

    def merge(self):
        x = self.any()
        others = [each for each in self.values if each.sizes == x.sizes]
        y = self.few(*others)
        op = self.few("Add", "Sub", "Concat", "Concat", "Max", "Min", "Mul")
        if op == "Concat":
            axis = int(self.random.integers(1, len(x.sizes) + 1))
            sizes = [*x.sizes]
            sizes[axis - 1] *= 2
            name = self.add("Concat", x.name, y.name, axis=axis if self.likely(0.7) else axis - len(x.sizes) - 1)
            return Value(name, sizes, max(x.places, y.places), self.most_of(x, y))
        if op == "Mul":
            most = x.most * y.most
            return None if self.exact and not most < MOST_STEPS else Value(
                self.add("Mul", x.name, y.name), x.sizes, x.places + y.places, most
            )  # fmt: skip
        most = 2 * self.most_of(x, y)
        if self.exact and not most < MOST_STEPS:
            return None
        return Value(self.add(op, x.name, y.name), x.sizes, max(x.places, y.places), most)

    def most_of(self, x, y):
        places = max(x.places, y.places)
        return max(x.most * 2.0 ** (places - x.places), y.most * 2.0 ** (places - y.places))

    def unary(self):
        x = self.any()
        op = self.few(
            "Relu", "Relu", "Neg", "Clip", "Identity", "Mul", "Div", "Abs", "Sign", "LeakyRelu", "PRelu", "Where"
        )
        if op == "Clip":
            ends = sorted(self.random.integers(-3, 4, 2) * 1.0)
            return Value(
                self.add("Clip", x.name, *map(self.constant, ends)), x.sizes, x.places, x.most + 4 * 2.0**x.places
            )
        if op in ("Mul", "Div"):
            name = self.add(op, x.name, self.constant(2.0 ** self.random.integers(-2, 3)))
            return Value(name, x.sizes, x.places + 2, x.most * 16)
        if op == "PRelu":
            slopes = 2.0 ** -self.random.integers(0, 4, (x.sizes[0], *[1] * (len(x.sizes) - 1))).astype(float)
            return Value(self.add(op, x.name, self.constant(slopes)), x.sizes, x.places + 3, x.most * 8)
        if op == "Where":
            chosen = self.add("Greater", x.name, self.constant(0.25))
            name = self.add(op, chosen, x.name, self.constant(-0.5))
            return Value(name, x.sizes, max(x.places, 1), x.most * 2 + 2.0 ** (x.places + 1))
        if op == "LeakyRelu":
            return Value(self.add(op, x.name, alpha=0.125), x.sizes, x.places + 3, x.most * 8)
        name = self.add(op, x.name)
        return Value(name, x.sizes, x.places, x.most + 2.0**x.places, x.scale if op == "Identity" else None)

    def pool(self):
        x = self.any(2, 3)
        if x is None:
            return None
        rank = len(x.sizes) - 1
        if self.likely(0.25):
            if not self.exact or x.most * 64 >= MOST_STEPS or any(s & (s - 1) for s in x.sizes[1:]):
                return Value(self.add("GlobalMaxPool", x.name), (x.sizes[0], *[1] * rank), x.places, x.most)
            return Value(self.add("GlobalAveragePool", x.name), (x.sizes[0], *[1] * rank), x.places + 6, x.most * 64)
        if min(x.sizes[1:]) < 2:
            return None
        if self.likely(0.6):
            window = [int(self.random.integers(1, min(3, s) + 1)) for s in x.sizes[1:]]
            strides = [int(self.few(1, 2)) for _ in window]
            pads = [int(self.few(0, 1)) if window[i % rank] > 1 else 0 for i in range(2 * rank)]
            found = [(s + pads[i] + pads[i + rank] - window[i]) // strides[i] + 1 for i, s in enumerate(x.sizes[1:])]
            name = self.add("MaxPool", x.name, kernel_shape=window, strides=strides, pads=pads)
            return Value(name, (x.sizes[0], *found), x.places, x.most, x.scale)
        if not self.exact or x.most * 4**rank >= MOST_STEPS:
            return None
        found = [s // 2 for s in x.sizes[1:]]
        name = self.add("AveragePool", x.name, kernel_shape=[2] * rank, strides=[2] * rank)
        return Value(name, (x.sizes[0], *found), x.places + rank, x.most * 4**rank)

    def move(self):
        x = self.any()
        rank = len(x.sizes)
        kind = self.few("flat", "turn", "slice", "pad", "split", "gather", "squeeze")
        if kind == "flat" and rank > 1:
            flat = int(np.prod(x.sizes))
            name = (
                self.add("Flatten", x.name) if self.likely(0.5)
                else self.add("Reshape", x.name, self.constant([0 if self.likely(0.5) else -1, flat], "i8"))
            )  # fmt: skip
            return Value(name, (flat,), x.places, x.most, x.scale)
        if kind == "turn" and rank > 1:
            order = self.random.permutation(rank)
            name = self.add("Transpose", x.name, perm=[0, *(int(each) + 1 for each in order)])
            return Value(name, [x.sizes[each] for each in order], x.places, x.most, x.scale)
        axis = int(self.random.integers(rank))
        if kind == "slice" and x.sizes[axis] > 2:
            name = self.add("Slice", x.name, *(self.constant([each], "i8") for each in (1, 100, axis + 1)))
            return Value(name, [s - (i == axis) for i, s in enumerate(x.sizes)], x.places, x.most, x.scale)
        if kind == "pad":
            before = [0, *(int(i == axis) for i in range(rank))]
            parts = [self.constant([*before, *[0] * (rank + 1)], "i8")]
            if self.likely(0.3):
                parts.append(self.constant(0.5))
            name = self.add("Pad", x.name, *parts, mode="constant")
            return Value(
                name, [s + (i == axis) for i, s in enumerate(x.sizes)], x.places + 1, x.most * 2 + 2.0**x.places
            )
        if kind == "gather":
            chosen = self.random.integers(0, x.sizes[axis], 3)
            name = self.add("Gather", x.name, self.constant(chosen, "i8"), axis=axis + 1)
            return Value(name, [3 if i == axis else s for i, s in enumerate(x.sizes)], x.places, x.most, x.scale)
        return None

    def total(self):
        x = self.any(2, 3)
        if x is None or not self.exact or x.most * int(np.prod(x.sizes[1:])) >= MOST_STEPS:
            return None
        axes = [*range(2, len(x.sizes) + 1)]
        if self.likely(0.3):
            return Value(
                self.add(self.few("ReduceMax", "ReduceMin"), x.name, axes=axes, keepdims=0),
                x.sizes[:1],
                x.places,
                x.most,
            )
        name = self.add("ReduceSum", x.name, self.constant(axes, "i8"), keepdims=0)
        return Value(name, x.sizes[:1], x.places, x.most * int(np.prod(x.sizes[1:])))

    def step(self):
        kinds = (*[self.again] * 4, *[self.dense] * 5, *[self.conv] * 5, self.merge, self.merge,
                 self.unary, self.unary, self.pool, self.move, self.total, self.product, self.trunc, self.normalized, self.other, self.parts)  # fmt: skip
        if self.exact and self.values[-1].most >= MOST_STEPS:
            kinds = (self.again,)
        nodes, tensors = len(self.nodes), len(self.tensors)
        made = self.few(*kinds)()
        if made is None or not made.sizes or np.prod(made.sizes) > LARGEST or min(made.sizes) < 1:
            del self.nodes[nodes:], self.tensors[tensors:]
        else:
            self.values.append(made)

    def other(self):
        """Another quantizer of the input itself."""
        return self.quant(Value("x", self.sizes, 0, np.inf))

    def parts(self):
        """One of two halves."""
        x = self.any()
        if x.sizes[0] % 2:
            return None
        from onnx import helper

        names = [f"v{len(self.nodes)}_{place}" for place in range(2)]
        sizes = [self.constant([x.sizes[0] // 2] * 2, "i8")]
        self.nodes.append(helper.make_node("Split", [x.name, *sizes], names, name=f"n{names[0]}", axis=1))
        return Value(self.few(*names), (x.sizes[0] // 2, *x.sizes[1:]), x.places, x.most, x.scale)

    def again(self):
        return self.quant(self.any())

    def model(self):
        from onnx import TensorProto, helper

        values = [helper.make_tensor_value_info(each.name, TensorProto.FLOAT, None) for each in self.results]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *self.sizes])
        graph = helper.make_graph(self.nodes, "g", [x], values, self.tensors)
        imports = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, self.version)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def rows_of(random, sizes):
    x = (random.normal(size=(ROWS, *sizes)) * 2).astype("f4")
    third = ROWS // 3
    x[:third] = np.rint(random.normal(size=(third, *sizes)) * 60) * np.float32(2.0**-6)
    special = np.array([0, -0.0, 1e-45, -1e-38, 1e38, -3e38, np.inf, -np.inf, 0.5, -0.5, 1.5, 7.96875, -8.03125])
    mask = random.random(x.shape) < 0.1
    mask[third:-third] = False
    x[mask] = random.choice(special, np.count_nonzero(mask))
    return x.astype("f4")


def main(seed, count, folder, worker_program):
    sys.path.insert(0, worker_program)
    import onnx
    from from_onnx import reading
    from from_onnx.executed import QonnxModel
    from messages.requests import ModelFault, Reference
    from messages.sources import ReadOnnx

    index = {"texts": {}, "refused": {}, "broken": {}, "not_run": {}, "exact": {}}
    for number in range(int(count)):
        random = np.random.default_rng([int(seed), number])
        network = Network(random, number)
        place = os.path.join(folder, str(number))
        os.makedirs(place)
        file = os.path.join(place, "model.onnx")
        onnx.save(network.model(), file)
        try:
            found = reading.read(ReadOnnx(path=file, shapes={}, out=place, qonnx=True), None)
        except ModelFault as error:
            index["refused"][network.text] = error.message
            continue
        except Exception:  # noqa: BLE001 (whatever it is, the test reports it)
            index["broken"][network.text] = traceback.format_exc()[-2000:]
            continue
        x = rows_of(random, network.sizes)
        try:
            answers = QonnxModel(
                Reference(
                    folder=file, tags=(), signature="", inputs="", out="", batch_sizes=(), batched=(), stacked=(),
                    framework="qonnx", feeds={each.name: each.key for each in found.inputs},
                    fetches={each.name: each.key for each in found.outputs},
                )
            ).run({"x": x})  # fmt: skip
        except Exception as error:  # noqa: BLE001 (the executor raises Exception itself)
            index["not_run"][network.text] = f"{type(error).__name__}: {error}"[:300]
            continue
        np.savez(os.path.join(place, "rows.npz"), **{"in/x": x}, **{f"out/{k}": v for k, v in answers.items()})
        index["texts"][str(number)] = network.text
    with open(os.path.join(folder, "index.json"), "w") as file:
        json.dump(index, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
