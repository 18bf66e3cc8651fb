"""Random models, several in one graph: as the worker lists them, and what TensorFlow computes for them, op by op.

    TOOLCHAIN/bin/python draws.py KIND SEED COUNT FOLDER WORKER_PROGRAM

FOLDER/N has `listing.json` and `weights.bin` of a graph with one output for each of its models, and `answers.npz`:
`in_NAME` for each input, in their order, and for each output, in their order, `got_OUTPUT`, `real_OUTPUT` in float64,
and `moved_OUTPUT` in float64 of inputs that differ by a rounding. FOLDER/models.json: {"texts": {output: operations},
"refused": {text: reason}, "broken": {text: traceback}}.

Graphs are made and lowered directly, at two batch sizes: SavedModels, freezing and other sizes have tests of their own,
and took two thirds of the time.
"""

import importlib
import json
import os
import shutil
import sys
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import tensorflow as tf

TOGETHER = 25
ROWS = 17
_TRIES = 3


class Refused(Exception):
    """The worker does not take the graph: why."""


class Draw:
    """Models by the names of their outputs. Those that write one may fail, each for one model, or for several."""

    def __init__(self, inputs, folder):
        self.inputs, self.folder, self.groups = inputs, folder, 0
        self.found = {"texts": {}, "refused": {}, "broken": {}}

    def write(self, models, graph_of, answers_of):
        """`models`, texts by name, as one graph; a graph of which something fails is halved, to know which model it was."""
        out = os.path.join(self.folder, str(self.groups))
        self.groups += 1
        os.makedirs(out)
        try:
            _list(graph_of([*models]), [*self.inputs], [*models], out)
        except Exception as error:  # noqa: BLE001 (whatever it is, the test reports it)
            shutil.rmtree(out)
            if len(models) > 1:
                names = [*models]
                for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                    self.write({name: models[name] for name in half}, graph_of, answers_of)
                return
            is_known = isinstance(error, (Refused, _fault_type()))
            self.found["refused" if is_known else "broken"].update(
                dict.fromkeys(models.values(), str(error) if is_known else traceback.format_exc()[-2000:])
            )
            return
        self.found["texts"].update(models)
        answers = {f"{kind}_{name}": value for name in models for kind, value in answers_of(name).items()}
        np.savez(os.path.join(out, "answers.npz"), **{f"in_{k}": v for k, v in self.inputs.items()}, **answers)

    def close(self):
        with open(os.path.join(self.folder, "models.json"), "w") as file:
            json.dump(self.found, file)


def _fault_type():
    from messages.requests import ModelFault

    return ModelFault


def of_tensorflow(kind, seed, count, folder):
    maker = importlib.import_module(f"drawn_{kind}")
    random = np.random.default_rng(int(seed))
    inputs = maker.inputs(random, ROWS)
    drawn = {f"y{number}": maker.drawn(random) for number in range(int(count))}
    given = [tf.constant(value) for value in inputs.values()]
    moved = [tf.constant(_moved(value)) for value in inputs.values()]

    def graph_of(names):
        with tf.Graph().as_default() as graph:
            feeds = [tf.compat.v1.placeholder(v.dtype, [None, *v.shape[1:]], name) for name, v in inputs.items()]
            for name in names:
                tf.identity(drawn[name].run(list(feeds), tf.float32), name=name)
        return graph

    def answers_of(name):
        runs = {"got": (given, tf.float32), "real": (given, tf.float64), "moved": (moved, tf.float64)}
        return {kind: drawn[name].run(list(values), real).numpy() for kind, (values, real) in runs.items()}

    draw, names = Draw(inputs, folder), [*drawn]
    for start in range(0, len(names), TOGETHER):
        group = names[start : start + TOGETHER]
        draw.write({name: drawn[name].text for name in group}, graph_of, answers_of)
    draw.close()


def _list(graph, inputs, outputs, out):
    """Write the listing of a graph and its constants. Raises Refused."""
    import carriers
    import complex_arithmetic
    import hlo
    import operations
    import rewrites
    import segments
    import specialize
    import weights
    from messages import listing, wire
    from messages.graph import Feed, Fetch

    def sizes(name):
        return tuple(graph.get_tensor_by_name(f"{name}:0").shape.as_list())

    def dtype(name):
        return graph.get_tensor_by_name(f"{name}:0").dtype.name

    graph_def = graph.as_graph_def()
    feeds = [Feed(name=name, node=name, dtype=dtype(name), shape=sizes(name)) for name in inputs]
    fetches = [Fetch(name=name, node=name, index=0, dtype=dtype(name), shape=sizes(name)) for name in outputs]
    rewrites.rewrite(graph_def, feeds, (), {})
    operations.require_compilable(graph_def)
    feeds, fetches = carriers.carried(graph_def, feeds, fetches)
    complex_arithmetic.split(graph_def, fetches)
    if pieces := segments.cut(graph_def, feeds, fetches):
        raise Refused(f"left to XLA: {pieces.segments[0].reason}")
    lowered, large = specialize.without_weights(graph_def)
    modules = _alike(lambda batch: hlo._module(lowered, [*feeds, *large], fetches, hlo._Point(batch, ())))
    with open(os.path.join(out, "weights.bin"), "wb") as file:
        hlo._append_constants(graph_def, large, weights.Blob(file))
    with open(os.path.join(out, "listing.json"), "w") as file:
        file.write(wire.encoded(listing.HloListing(modules=tuple(modules), samples=(), fault="")))


def _alike(trace):
    """The modules at both batch sizes: the bridge now and then gives other instructions for the same graph."""
    import hlo
    import specialize

    for _ in range(_TRIES):
        modules = [trace(batch) for batch in specialize.PROBES]
        if len({hlo._kind(module) for module in modules}) == 1:
            break
    return modules


def _moved(value):
    if value.dtype.kind != "f":
        return value
    signs = np.where(np.random.default_rng(5).random(value.shape) < 0.5, -1, 1)
    return (value.astype(np.float64) * (1 + signs * 2.0**-22)).astype(value.dtype)


if __name__ == "__main__":
    *arguments, worker_program = sys.argv[1:]
    sys.path.insert(0, worker_program)
    of_tensorflow(*arguments)
