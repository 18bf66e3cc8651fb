"""Networks of hls4ml, as the front-end reads them, with the answers of hls4ml's emulator.

    FRONTEND/bin/python hls4ml_networks.py WORKER_PROGRAM FOLDER ROWS NAME...

FOLDER/NAME has NAME.fml, network.json and numbers.npz, and rows.npz with "in/x" and "out/KEY". Networks are those of
MAKERS: layers as hls4ml's converters of Keras and PyTorch describe them, so that neither has to be here. Some of the
rows lie between steps of the input's type, at its limits and beyond, or at those of float32. To compile an emulator
takes 10 to 60 seconds.
"""

import os
import sys

import numpy as np

MAKERS = {}


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

    def dense(self, name, inputs, outputs, **more):
        weights = {"weight_data": self.drawn(inputs, outputs), "bias_data": self.drawn(outputs, scale=0.3)}
        return self.add("Dense", name, n_in=inputs, n_out=outputs, data_format="channels_last", **weights, **more)

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
    from from_hls4ml import reading
    from from_hls4ml.emulator import Hls4mlModel
    from hls4ml.model.graph import ModelGraph
    from hls4ml.utils.serialization import serialize_model
    from messages.requests import Reference
    from messages.sources import ReadHls4ml

    config = {
        "OutputDir": place, "ProjectName": "net", "Backend": "Vitis", "Part": "xcvu13p-flga2577-2-e", "ClockPeriod": 5,
        "ClockUncertainty": "27%", "IOType": net.io, "HLSConfig": {"Model": net.model, "LayerName": net.names},
        "WriterConfig": {"Namespace": None, "WriteWeightsTxt": True, "WriteTar": False},
    }  # fmt: skip
    outputs = net.outputs or [net.layers[-1]["name"]]
    graph = ModelGraph.from_layer_list(config, net.layers, ["x"], outputs)
    file = os.path.join(place, f"{name}.fml")
    serialize_model(graph, file)
    found = reading.read(ReadHls4ml(path=file, out=place), None)
    model = Hls4mlModel(
        Reference(
            folder=file, tags=(), signature="", inputs="", out="", batch_sizes=(), batched=(), stacked=(),
            framework="hls4ml", feeds={each.name: each.key for each in found.inputs},
            fetches={each.name: each.key for each in found.outputs},
        )
    )  # fmt: skip
    (x,) = graph.get_input_variables()
    given = drawn(np.random.default_rng(3), rows, x)
    answers = model.run({"x": given})
    np.savez(os.path.join(place, "rows.npz"), **{"in/x": given}, **{f"out/{k}": v for k, v in answers.items()})


def main():
    program, folder, rows, *names = sys.argv[1:]
    sys.path.insert(0, program)
    for name in names or MAKERS:
        os.makedirs(os.path.join(folder, name))
        write(MAKERS[name](), name, os.path.join(folder, name), int(rows))


if __name__ == "__main__":
    main()
