"""Inputs for both sides of a model's branches: found by trying, not by reasoning.

Branches are conditionals, loops and selections of the frozen graph and of its functions (watched.py).
"""

import time

import numpy as np
import specialize
import watched
from reached import node_name

_SCALES = (1.0, 0.01, 0.1, 3.0, 10.0, 100.0, 1e3, 1e4, 1e-4)
_SHIFTS = (0.0, 1.0, -1.0, 5.0, -5.0)
_HALVINGS = 12
_SHARE = 0.5
"""Of the time: what is left is for the last try, and to write what was found."""


def branches(args: dict, report) -> dict:
    """Try inputs of args["rows"] rows, drawn with args["seed"]; write those that took a new side to args["out"].

    args: graph, blob, inputs, outputs and weights as in the frozen model; seconds, half of which the search may take (0
    for none). Returns {"taken", "not_taken": lists of [node, operation, side], "found": whether there is a file}.
    """
    sought = _Search(args)
    if args["seconds"]:
        sought.search(_candidates(args))
    if sought.kept:
        np.savez(
            args["out"],
            **{name: np.concatenate([each[name] for each in sought.kept]) for name in sought.batched},
            **{name: values for name, values in sought.kept[0].items() if name not in sought.batched},
        )
    return {"taken": sought.sides(True), "not_taken": sought.sides(False), "found": bool(sought.kept)}


class _Search:
    """Which sides of which branches were taken; `kept` are the inputs that took one first."""

    def __init__(self, args: dict) -> None:
        self._inputs = args["inputs"]
        self.batched = [each["name"] for each in self._inputs if each["shape"][:1] == [None]]
        self._made, self._function = _runner(args)
        self._end = time.monotonic() + _SHARE * args["seconds"]
        self._taken: set = set()
        self.kept: list = []

    @property
    def _done(self) -> bool:
        sides = sum(len(branch.sides) for branch in self._made.branches)
        return len(self._taken) == sides or time.monotonic() > self._end

    def search(self, candidates) -> None:
        for candidate in candidates:
            if self._done:
                return
            self._look(candidate)
        self._look_between()

    def _look(self, inputs: dict) -> None:
        """Run all branches; keep `inputs` where a side is new."""
        import tensorflow as tf

        feeds = [tf.constant(inputs[each["name"]]) for each in self._inputs]
        try:
            taken = self._made.sides_of(lambda: self._function(*feeds))
        except tf.errors.OpError:  # refused by the model's own checks
            return
        if taken - self._taken:
            self.kept.append(inputs)
        self._taken |= taken

    def _look_between(self) -> None:
        """Halfway between inputs that took other sides: windows that the scales stepped over."""
        for first, second in [(a, b) for a in self.kept[:4] for b in self.kept[:4] if a is not b]:
            for step in range(1, _HALVINGS):
                if self._done:
                    return
                part = step / _HALVINGS
                self._look({name: _between(first[name], second[name], part) for name in first})

    def sides(self, taken: bool) -> list:
        return [
            [branch.node, branch.operation, label]
            for index, branch in enumerate(self._made.branches)
            for side, label in enumerate(branch.sides)
            if ((index, side) in self._taken) == taken
        ]


def _between(first, second, part: float):
    mixed = first.astype(np.float64) * (1 - part) + second.astype(np.float64) * part
    return mixed.astype(first.dtype)


def _candidates(args: dict):
    generator = np.random.default_rng(args["seed"])
    for scale in _SCALES:
        for shift in _SHIFTS:
            yield {each["name"]: _drawn(generator, each, args["rows"], scale, shift) for each in args["inputs"]}
    for constant in (0.0, *(sign * scale for scale in _SCALES for sign in (1, -1))):
        yield {each["name"]: _drawn(None, each, args["rows"], 0.0, constant) for each in args["inputs"]}


def _drawn(generator, tensor: dict, rows: int, scale: float, shift: float):
    from tensorflow.python.framework import dtypes

    dtype = dtypes.as_dtype(tensor["dtype"]).as_numpy_dtype
    shape = [rows if size is None else size for size in tensor["shape"]]
    values = np.full(shape, shift) if generator is None else scale * (generator.standard_normal(shape) + shift)
    if dtype == np.bool_:
        return values > 0
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return np.clip(np.rint(values), max(limits.min, -(2**31)), min(limits.max, 2**31)).astype(dtype)
    return values.astype(dtype)


def _runner(args: dict):
    """(the graph with its branches watched, a function of the inputs that runs what they need)."""
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef()
    with open(args["graph"], "rb") as file:
        graph.ParseFromString(file.read())
    graph = specialize.at_batch_size(graph, args["inputs"], args["rows"])
    made = watched.watched(graph, [each["node"] for each in args["outputs"]])

    def imported(*inputs):
        feeds = {each["node"]: value for each, value in zip(args["inputs"], inputs, strict=True)}
        weights = {each["node"]: tf.constant(_weight(args["blob"], each)) for each in args["weights"]}
        used = {node_name(text) for node in graph.node for text in node.input}
        given = {name: value for name, value in {**feeds, **weights}.items() if name in used}
        wanted = [name for name in made.runs if name not in feeds]
        run = tf.graph_util.import_graph_def(graph, given, return_elements=wanted, name="")
        with tf.control_dependencies(run):
            return tf.constant(0)

    if not made.branches:
        return made, None
    specs = [
        tf.TensorSpec([args["rows"] if size is None else size for size in each["shape"]], each["dtype"])
        for each in args["inputs"]
    ]
    return made, tf.compat.v1.wrap_function(imported, specs)


def _weight(blob: str, weight: dict):
    from tensorflow.python.framework import dtypes

    dtype = dtypes.as_dtype(weight["dtype"]).as_numpy_dtype
    count = int(np.prod(weight["shape"], dtype=np.int64))
    return np.fromfile(blob, dtype, count, offset=weight["offset"]).reshape(weight["shape"])
