"""Inputs for both sides of a model's branches: found by trying, not by reasoning.

Predicates are those of conditionals and loops, and of selections, of the frozen graph; those inside of functions (the
bodies of loops, say) are not looked at.
"""

import numpy as np
import specialize

_SELECTIONS = frozenset("Select SelectV2".split())
_CONDITIONALS = frozenset("If StatelessIf Case StatelessCase".split())
_LOOPS = frozenset("While StatelessWhile".split())
_MOST = 64
_SCALES = (1.0, 0.01, 0.1, 3.0, 10.0, 100.0, 1e3, 1e4, 1e-4)
_SHIFTS = (0.0, 1.0, -1.0, 5.0, -5.0)
_HALVINGS = 12


def branches(args: dict, report) -> dict:
    """Try inputs of args["rows"] rows, drawn with args["seed"]; write those that took a new side to args["out"].

    args: graph, blob, inputs and weights as in the frozen model. Returns {"taken", "not_taken": lists of
    [node, operation, side], "found": whether there is a file}.
    """
    sought = _Search(args)
    if not sought.predicates:
        return {"taken": [], "not_taken": [], "found": False}
    for candidate in _candidates(args):
        sought.look(candidate)
        if sought.done:
            break
    sought.look_between()
    if sought.kept:
        np.savez(
            args["out"],
            **{name: np.concatenate([each[name] for each in sought.kept]) for name in sought.batched},
            **{name: values for name, values in sought.kept[0].items() if name not in sought.batched},
        )
    return {"taken": sought.sides(True), "not_taken": sought.sides(False), "found": bool(sought.kept)}


class _Search:
    """Which sides of which predicates were seen; `kept` are the inputs that showed one first."""

    def __init__(self, args: dict) -> None:
        self._inputs = args["inputs"]
        self.batched = [each["name"] for each in self._inputs if each["shape"][:1] == [None]]
        self._function, self.predicates = _predicates(args)
        self._seen: dict = {}
        self._tried: list = []
        self.kept: list = []

    @property
    def done(self) -> bool:
        return len(self._seen) == sum(len(sides) for _, _, sides in self.predicates)

    def look(self, inputs: dict) -> None:
        """Evaluate all predicates; keep `inputs` where a side is new."""
        import tensorflow as tf

        try:
            values = self._function(*[tf.constant(inputs[each["name"]]) for each in self._inputs])
        except tf.errors.OpError:  # refused by the model's own checks
            return
        new = False
        for (name, _, sides), value in zip(self.predicates, values, strict=True):
            for side in {min(max(int(v), 0), len(sides) - 1) for v in np.unique(value.numpy())}:
                if (name, side) not in self._seen:
                    self._seen[name, side] = new = True
        self._tried.append(inputs)
        if new:
            self.kept.append(inputs)

    def look_between(self) -> None:
        """Halfway between inputs that took other sides: windows that the scales stepped over."""
        for first, second in [(a, b) for a in self.kept[:4] for b in self.kept[:4] if a is not b]:
            for step in range(1, _HALVINGS):
                if self.done:
                    return
                part = step / _HALVINGS
                self.look({name: _between(first[name], second[name], part) for name in first})

    def sides(self, taken: bool) -> list:
        return [
            [name, op, label]
            for name, op, sides in self.predicates
            for side, label in enumerate(sides)
            if ((name, side) in self._seen) == taken
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


def _predicates(args: dict):
    """(a function of the inputs that gives all predicates, [(node, operation, labels of the sides)])."""
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef()
    with open(args["graph"], "rb") as file:
        graph.ParseFromString(file.read())
    graph = specialize.at_batch_size(graph, args["inputs"], args["rows"])
    found = [_predicate(graph, node) for node in list(graph.node)]
    found = [each for each in found if each is not None][:_MOST]

    def imported(*inputs):
        feeds = {each["node"]: value for each, value in zip(args["inputs"], inputs, strict=True)}
        weights = {each["node"]: tf.constant(_weight(args["blob"], each)) for each in args["weights"]}
        tensors = [tensor for _, _, _, tensor in found]
        return tf.graph_util.import_graph_def(graph, {**feeds, **weights}, return_elements=tensors, name="")

    if not found:
        return None, []
    specs = [
        tf.TensorSpec([args["rows"] if size is None else size for size in each["shape"]], each["dtype"])
        for each in args["inputs"]
    ]
    function = tf.compat.v1.wrap_function(imported, specs)
    return function, [each[:3] for each in found]


def _predicate(graph, node):
    """(node, operation, sides, the tensor that chooses) of `node` where it is a branch, else None."""
    if node.op in _LOOPS:
        return node.name, node.op, ["no step", "a step"], _condition(graph, node)
    if node.op in ("Case", "StatelessCase"):
        sides = [f"branch {index}" for index in range(len(node.attr["branches"].list.func))]
    elif node.op in _CONDITIONALS | _SELECTIONS:
        sides = ["false", "true"]
    else:
        return None
    tensor = node.input[0]
    return node.name, node.op, sides, tensor if ":" in tensor else f"{tensor}:0"


def _condition(graph, node) -> str:
    """Add a call of a loop's condition with the loop's first values; the tensor that it gives."""
    from tensorflow.core.framework import types_pb2

    call = graph.node.add(name=f"{node.name}/tfaot_condition", op="PartitionedCall")
    call.input.extend(text for text in node.input if not text.startswith("^"))
    call.attr["Tin"].CopyFrom(node.attr["T"])
    call.attr["Tout"].list.type.append(types_pb2.DT_BOOL)
    call.attr["f"].func.CopyFrom(node.attr["cond"].func)
    return f"{call.name}:0"


def _weight(blob: str, weight: dict):
    from tensorflow.python.framework import dtypes

    dtype = dtypes.as_dtype(weight["dtype"]).as_numpy_dtype
    count = int(np.prod(weight["shape"], dtype=np.int64))
    return np.fromfile(blob, dtype, count, offset=weight["offset"]).reshape(weight["shape"])
