"""Networks of hls4ml, as the front-end reads them, with the answers of hls4ml's emulator.

    FRONTEND/bin/python hls4ml_networks.py WORKER_PROGRAM FOLDER ROWS NAME...

FOLDER/NAME has NAME.fml, network.json and numbers.npz, and rows.npz with "in/x" and "out/KEY". Networks are those of
MAKERS: layers as hls4ml's converters of Keras and PyTorch describe them, so that neither has to be here; and files of
artifacts/: qkeras.fml is a Sequential of QKeras 0.9 (TensorFlow 2.15) with kernels of quantized_bits, binary, ternary,
quantized_bits with alpha="auto_po2", and quantized_po2, and weights drawn from NumPy's random numbers; hgq_*.fml
are those of hgq_networks.py. Some of the rows lie between steps of the input's type, at its limits and beyond, or at those of float32. To compile an emulator
takes 10 to 60 seconds.
"""

import os
import shutil
import sys

import numpy as np

MAKERS = {}
ARTIFACTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "artifacts")


def network(function):
    MAKERS[function.__name__] = function
    return function


class Net:
    """Layers from x on, each by default behind the last one, and their types in hls4ml's configuration."""

    def __init__(self, *sizes, precision="fixed<16,6>", seed=1, strategy="Latency", reuse=1, io="io_parallel"):
        self.random = np.random.default_rng(seed)
        self.layers, self.names, self.outputs = [], {}, None
        self.model = {"Precision": {"default": precision}, "ReuseFactor": reuse, "Strategy": strategy,
                      "BramFactor": 10**9, "TraceOutput": False}  # fmt: skip
        self.io = io
        self.add("InputLayer", "x", input_shape=list(sizes))

    def drawn(self, *shape, scale=None):
        return self.random.normal(size=shape) * (scale or np.prod(shape[:-1]) ** -0.5)

    def add(self, kind, name, *, types=None, config=None, **attributes):
        """A layer; `types` are those of its numbers, `config` further settings of it."""
        self.layers.append({"name": name, "class_name": kind, **attributes})
        self.names[name] = {**({"Precision": types} if types else {}), **(config or {})}
        return self

    def dense(self, name, taken, made, **more):
        weights = {"weight_data": self.drawn(taken, made), "bias_data": self.drawn(made, scale=0.3)}
        return self.add("Dense", name, n_in=taken, n_out=made, data_format="channels_last", **weights, **more)

    def act(self, name, activation, kind="Activation", **more):
        return self.add(kind, name, activation=activation, **more)

    def softmax(self, name="sm", **more):
        return self.act(name, "softmax", "Softmax", axis=-1, **more)


ROUNDED = {"exp_table": "fixed<18,8,RND,SAT>", "inv_table": "fixed<18,8,RND,SAT>", "accum": "fixed<18,8,RND,SAT>",
           "inv_inp": "fixed<18,8,RND,SAT>"}  # fmt: skip


def classifier(net):
    net.dense("d1", 16, 64).act("r1", "relu").dense("d2", 64, 32).act("r2", "relu").dense("d3", 32, 5)
    return net


@network
def dense():
    """As hls4ml's default type: each product loses bits before it is added."""
    return classifier(Net(16)).softmax(types=ROUNDED)


@network
def resource():
    return classifier(Net(16, strategy="Resource", reuse=8)).softmax(config={"Implementation": "latency"})


@network
def roundings():
    """All modes of rounding and of overflow."""
    net = Net(16)
    net.names["x"] = {"Precision": {"result": "fixed<12,4,RND,SAT>"}}
    net.dense("d1", 16, 32, types={"accum": "fixed<18,8,RND_CONV,WRAP>", "result": "fixed<10,4,RND,SAT_SYM>"})
    net.act("r1", "relu", types={"result": "ufixed<9,3,RND_INF,SAT>"})
    types = {"weight": "fixed<8,2,RND_ZERO,SAT>", "accum": "fixed<24,10>", "result": "fixed<12,5,RND_MIN_INF,SAT_ZERO>"}
    net.dense("d2", 32, 16, types=types)
    return net.dense("d3", 16, 5, types={"accum": "fixed<11,4,RND,SAT>", "result": "fixed<14,5,TRN_ZERO,SAT>"})


def conv(net, name, sizes, channels, filters, window, *, kind="Conv", stride=1, pad=0, **more):
    """A convolution of a line or an image, with the same window and stride along each side."""
    names = ["height", "width"][2 - len(sizes) :]
    found = [(size + 2 * pad - window) // stride + 1 for size in sizes]
    edges = ["top", "bottom", "left", "right"][4 - 2 * len(sizes) :]
    attributes = {
        **{f"in_{each}": size for each, size in zip(names, sizes, strict=True)},
        **{f"out_{each}": size for each, size in zip(names, found, strict=True)},
        **{f"filt_{each}": window for each in names},
        **{f"stride_{each}": stride for each in names},
        **{f"pad_{each}": pad for each in edges},
    }
    shape = [window] * len(sizes)
    weights = {"weight_data": net.drawn(*shape, channels, filters)}
    if kind == "DepthwiseConv":
        weights = {"depthwise_data": net.drawn(*shape, channels, 1), "depth_multiplier": 1}
    return net.add(
        f"{kind}{len(sizes)}D", name, n_chan=channels, n_filt=filters, data_format="channels_last", use_bias=True,
        padding="same" if pad else "valid", bias_data=net.drawn(filters, scale=0.3), **attributes, **weights, **more,
    )  # fmt: skip


def pool(net, name, kind, sizes, filters, window, stride, **more):
    names = ["height", "width"][2 - len(sizes) :]
    found = [(size - window) // stride + 1 for size in sizes]
    ends = {"n_in": sizes[0], "n_out": found[0]} if len(sizes) == 1 else {}
    attributes = {
        **ends,
        **{f"in_{each}": size for each, size in zip(names, sizes, strict=True)},
        **{f"out_{each}": size for each, size in zip(names, found, strict=True)},
        **{f"pool_{each}": window for each in names},
        **{f"stride_{each}": stride for each in names},
        **{f"pad_{each}": 0 for each in ["top", "bottom", "left", "right"]},
    }
    return net.add(
        f"{kind}Pooling{len(sizes)}D", name, n_filt=filters, data_format="channels_last", padding="valid",
        count_pad=False, **attributes, **more,
    )  # fmt: skip


@network
def conv1d():
    net = conv(Net(20, 4), "c1", [20], 4, 8, 3, pad=1, dilation_width=1).act("r1", "relu")
    pool(net, "p1", "Max", [20], 8, 2, 2)
    conv(net, "c2", [10], 8, 8, 3, stride=2, dilation_width=1).act("r2", "relu")
    pool(net, "p2", "Average", [4], 8, 2, 2).add("Reshape", "f", target_shape=[16])
    return net.dense("d", 16, 5).softmax(types=ROUNDED)


@network
def conv2d():
    """Of few bits, with accumulators that lose none."""
    net, wide = Net(8, 8, 2, precision="fixed<8,3>"), {"accum": "fixed<24,10>"}
    conv(net, "c1", [8, 8], 2, 4, 3, pad=1, types=wide).act("r1", "relu")
    pool(net, "p1", "Max", [8, 8], 4, 2, 2)
    conv(net, "dw", [4, 4], 4, 4, 3, kind="DepthwiseConv", pad=1).act("r2", "relu")
    pool(net, "p2", "Average", [4, 4], 4, 2, 2).add("Reshape", "f", target_shape=[16])
    return net.dense("d", 16, 3, types=wide)


@network
def deep_sets():
    net = conv(Net(6, 4), "c1", [6], 4, 8, 1, dilation_width=1).act("r1", "relu")
    conv(net, "c2", [6], 8, 8, 1, dilation_width=1).act("r2", "relu")
    net.add(
        "GlobalAveragePooling1D", "g", n_in=6, n_filt=8, data_format="channels_last", types={"accum": "fixed<20,9>"}
    )
    return net.dense("d", 8, 8).act("t", "tanh").dense("e", 8, 3)


@network
def merges():
    net = Net(8).dense("a", 8, 8).dense("b", 8, 8, inputs=["x"])
    net.add("Merge", "add", op="add", inputs=["a", "b"]).add("Merge", "sub", op="subtract", inputs=["a", "b"])
    net.add("Merge", "mul", op="multiply", inputs=["add", "sub"]).add("Merge", "avg", op="average", inputs=["mul", "a"])
    net.add("Merge", "max", op="maximum", inputs=["avg", "b"]).add("Merge", "min", op="minimum", inputs=["max", "add"])
    net.add("Concatenate", "cat", op="concatenate1d", axis=1, inputs=["min", "sub"])
    scale = {"scale_data": net.drawn(16, scale=1.0), "bias_data": net.drawn(16, scale=0.5)}
    net.add("BatchNormalization", "bn", n_in=16, n_filt=-1, use_gamma=True, use_beta=True, inputs=["cat"], **scale)
    return net.act("s", "sigmoid").dense("out", 16, 4)


def recurrent(net, kind, name, steps, inputs, state, sequences):
    gates = {"GRU": 3, "LSTM": 4}[kind]
    bias = np.zeros(gates * state) if kind == "LSTM" else net.drawn(gates * state, scale=0.2)
    return net.add(
        kind, name, n_timesteps=steps, n_in=inputs, n_out=state, activation="tanh", recurrent_activation="sigmoid",
        return_sequences=sequences, return_state=False, pass_initial_states=False, direction="forward",
        time_major=False, apply_reset_gate="after", weight_data=net.drawn(inputs, gates * state),
        recurrent_weight_data=net.drawn(state, gates * state), bias_data=net.drawn(gates * state, scale=0.2),
        recurrent_bias_data=bias, data_format="channels_last",
    )  # fmt: skip


@network
def gru():
    return recurrent(Net(5, 3), "GRU", "g", 5, 3, 6, False).dense("d", 6, 3)


@network
def lstm():
    return recurrent(recurrent(Net(4, 3), "LSTM", "l", 4, 3, 4, True), "GRU", "g", 4, 4, 4, False)


@network
def attention():
    """Two heads over six inputs, with what it adds to."""
    net = Net(6, 8)

    def project(name, equation, given, made, kernel, inputs):
        net.add("EinsumDense", name, equation=equation, inp_shape=given, out_shape=made, inputs=inputs,
                weight_data=net.drawn(*kernel), bias_data=net.drawn(*made, scale=0.2), data_format="channels_last")  # fmt: skip

    def product(name, equation, first, second, made, inputs):
        net.add("Einsum", name, equation=equation, inp0_shape=first, inp1_shape=second, out_shape=made, inputs=inputs,
                data_format="channels_last")  # fmt: skip

    for each in "qkv":
        project(each, "tc,chd->thd", (6, 8), (6, 2, 4), (8, 2, 4), ["x"])
    product("s", "thd,shd->hts", (6, 2, 4), (6, 2, 4), (2, 6, 6), ["q", "k"])
    net.softmax("p", n_outer=12, n_inner=1, inputs=["s"], types=ROUNDED)
    product("a", "hts,shd->thd", (2, 6, 6), (6, 2, 4), (6, 2, 4), ["p", "v"])
    project("o", "thd,hdc->tc", (6, 2, 4), (6, 8), (2, 4, 8), ["a"])
    return net.add("Merge", "add", op="add", inputs=["x", "o"])


@network
def layer_norm():
    """As encoders of transformers have it."""
    net = Net(4, 8)

    def normalized(name, **types):
        parts = {"gamma_data": net.drawn(8, scale=1.0), "beta_data": net.drawn(8, scale=0.4)}
        net.add("LayerNormalization", name, n_in=32, n_out=32, seq_len=4, axis=2, epsilon_power_of_10=3,
                data_format="channels_last", types=types, **parts)  # fmt: skip

    normalized("n1", accum="fixed<14,4,RND_CONV,SAT>", table="ufixed<8,5,RND_CONV,SAT>", result="fixed<16,6>")
    conv(net, "c1", [4], 8, 8, 1, dilation_width=1).act("r1", "relu")
    normalized("n2", accum="fixed<22,9>", table="fixed<18,8>", result="fixed<12,5,RND,SAT>")
    return net


@network
def integers():
    """ap_int, to which Xilinx's headers convert floats and fixed-point numbers in ways of its own."""
    net = Net(12)
    net.names["x"] = {"Precision": {"result": "int<8>"}}
    net.dense("a", 12, 10, types={"weight": "int<4>", "bias": "uint<5>", "accum": "int<18>", "result": "fixed<9,6>"})
    net.layers[-1]["weight_data"] *= 8
    net.act("t", "tanh", types={"table": "fixed<12,3>", "result": "fixed<8,4>"})
    net.dense("b", 10, 8, types={"weight": "fixed<2,2>", "accum": "fixed<16,8>", "result": "int<6>"})
    net.layers[-1]["weight_data"] *= 4
    return net.dense("c", 8, 4, types={"weight": "int<2>", "accum": "int<14>", "result": "uint<5>"})


@network
def saturating():
    """Depthwise sums, and those of an average, that end at the limits of their type, or are unsigned."""
    net, outputs = Net(8, 3), []
    for place, accum in enumerate(
        ("fixed<9,4,RND,SAT>", "ufixed<10,4,TRN,SAT>", "ufixed<9,5>", "fixed<8,3,RND,SAT_ZERO>")
    ):
        conv(
            net, f"c{place}", [8], 3, 3, 3, kind="DepthwiseConv", dilation_width=1, types={"accum": accum}, inputs=["x"]
        )
        outputs.append(f"c{place}")
    # More places than the input has: the sum's limits are reached in steps of its own.
    pool(net, "p", "Average", [8], 3, 2, 2, inputs=["x"], types={"accum": "fixed<18,3,TRN,SAT>"})
    net.outputs = [*outputs, "p"]
    return net


def drawn(random, rows, variable):
    """Rows of which most lie in the range of the input's type; some on halves of steps, or far outside."""
    shape, precision = variable.shape, variable.type.precision
    step, limit = 2.0**-precision.fractional, 2.0 ** (precision.integer - 1)
    x = random.normal(size=(rows, *shape))
    part = max(1, rows // 8)
    x[:part] *= limit
    x[part : 2 * part] = np.round(x[part : 2 * part] / step * 2) * step / 2
    x[2 * part : 3 * part] *= 10.0 ** random.uniform(-3, 30, (len(x[2 * part : 3 * part]), *[1] * len(shape)))
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 3e38, -3e38, 1e-40, -0.0, limit, -limit, limit - step])
    mask = random.random(x.shape) < 0.2
    mask[: 3 * part] = mask[4 * part :] = False
    x[mask] = random.choice(special, np.count_nonzero(mask))
    return x.astype("f4")


def write(net, name, place, rows):
    from hls4ml.model.graph import ModelGraph
    from hls4ml.utils.serialization import serialize_model

    config = {
        "OutputDir": place, "ProjectName": "net", "Backend": "Vitis", "Part": "xcvu13p-flga2577-2-e", "ClockPeriod": 5,
        "ClockUncertainty": "27%", "IOType": net.io, "HLSConfig": {"Model": net.model, "LayerName": net.names},
        "WriterConfig": {"Namespace": None, "WriteWeightsTxt": True, "WriteTar": False},
    }  # fmt: skip
    outputs = net.outputs or [net.layers[-1]["name"]]
    graph = ModelGraph.from_layer_list(config, net.layers, ["x"], outputs)
    for layer in graph.get_layers():
        # A function, which keeps hls4ml from writing the network.
        layer.attributes.attributes.pop("to_original_kernel", None)
    file = os.path.join(place, f"{name}.fml")
    serialize_model(graph, file)
    answer(file, place, rows)


def answer(file, place, rows):
    """The network as the front-end reads it, and the answers of its emulator to some rows."""
    from from_hls4ml import reading
    from from_hls4ml.emulator import Hls4mlModel
    from messages.requests import Reference
    from messages.sources import ReadHls4ml

    found = reading.read(ReadHls4ml(path=file, out=place), None)
    model = Hls4mlModel(
        Reference(
            folder=file, tags=(), signature="", inputs="", out="", batch_sizes=(), batched=(), stacked=(),
            framework="hls4ml", feeds={each.name: each.key for each in found.inputs},
            fetches={each.name: each.key for each in found.outputs},
        )
    )  # fmt: skip
    (x,) = model._model.get_input_variables()
    given = drawn(np.random.default_rng(3), rows, x)
    answers = model.run({"x": given})
    np.savez(os.path.join(place, "rows.npz"), **{"in/x": given}, **{f"out/{k}": v for k, v in answers.items()})


def main():
    program, folder, rows, *names = sys.argv[1:]
    sys.path.insert(0, program)
    for name in names or MAKERS:
        os.makedirs(os.path.join(folder, name))
        place = os.path.join(folder, name)
        if name in MAKERS:
            write(MAKERS[name](), name, place, int(rows))
        else:
            answer(shutil.copy(os.path.join(ARTIFACTS, f"{name}.fml"), place), place, int(rows))


if __name__ == "__main__":
    main()
