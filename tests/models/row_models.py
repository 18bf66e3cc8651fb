"""What the models of rows.py and loops.py are written with, and how a model's computation is listed."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

v1 = tf.compat.v1
MODELS = {}


def rows(*shape, dtype=tf.float32, name="x"):
    return tf.TensorSpec([None, *shape], dtype, name=name)


def dependent(name, serve, *specs):
    MODELS[f"dependent-{name}"] = (serve, specs or (rows(4),))


def independent(name, serve, *specs):
    MODELS[f"independent-{name}"] = (serve, specs or (rows(4),))


def batch_size(x):
    return tf.shape(x)[0]


def row_numbers(x):
    return tf.range(batch_size(x))


def in_loop(turns, step, *start):
    """`step(i, *values)` for i below `turns`."""
    carried = tf.while_loop(
        lambda i, *_: i < turns, lambda i, *values: (i + 1, *step(i, *values)), (tf.constant(0), *start)
    )
    return carried[1]


@dataclasses.dataclass(frozen=True)
class of_tensorflow_1:  # noqa: N801 (written before a model's function, as a decorator is)
    """`serve` as TensorFlow 1 exports it: loops and conditions are Enter, Switch, Merge, NextIteration and Exit."""

    serve: Callable

    def concrete(self, specs):
        """As the worker loads it (signatures.py)."""
        graph = tf.Graph()
        with graph.as_default():
            v1.disable_control_flow_v2()
            try:
                feeds = [v1.placeholder(spec.dtype, spec.shape, name=f"feed{i}") for i, spec in enumerate(specs)]
                tf.identity(self.serve(*feeds), name="result")
            finally:
                v1.enable_control_flow_v2()
        graph_def = graph.as_graph_def()
        assert {"Switch", "Merge"} <= {node.op for node in graph_def.node}

        def imported(*values):
            feeds = {f"feed{i}:0": value for i, value in enumerate(values)}
            return tf.graph_util.import_graph_def(graph_def, feeds, ["result:0"], name="")

        return v1.wrap_function(imported, specs)


class Cell:
    """All that tf.compat.v1.nn.dynamic_rnn wants to know of one."""

    output_size = state_size = 5

    def zero_state(self, size, dtype):
        return tf.zeros([size, 5], dtype)

    def __call__(self, x, state, scope=None):
        state = tf.tanh(tf.concat([x, state], 1) @ tf.reshape(tf.sin(tf.range(8.0 * 5)), [8, 5]))
        return state, state


sequences = (rows(6, 3), rows(dtype=tf.int32, name="n"))


def listing(serve, specs) -> str:
    """What `check` answers for the model, as JSON."""
    import freeze
    import hlo
    from messages import graph, wire
    from tensorflow.python.framework import convert_to_constants

    def named(*values):
        results = serve(*values)
        return results if isinstance(results, dict) else {"y": results}

    if isinstance(serve, of_tensorflow_1):
        function, names = serve.concrete(specs), ["y"]
    else:
        function = tf.function(named, input_signature=list(specs)).get_concrete_function()
        names = sorted(function.structured_outputs)
    convert_to_constants.disable_lower_using_switch_merge = freeze._keep_control_flow
    frozen = convert_to_constants.convert_variables_to_constants_v2(function, lower_control_flow=False)
    inputs = [
        graph.Feed(name=spec.name, node=tensor.op.name, dtype=tensor.dtype.name, shape=tuple(spec.shape.as_list()))
        for tensor, spec in zip(frozen.inputs, specs, strict=True)
    ]
    graph_def = frozen.graph.as_graph_def()
    outputs = freeze._fetches(names, frozen.outputs, frozen, inputs, graph_def, symbols=())
    checked = graph.Checked(
        inputs=tuple(map(freeze._tensor, inputs)),
        outputs=tuple(map(freeze._tensor, outputs)),
        warnings=(),
        operations={},
        unsupported=(),
        hlo=hlo.listed(graph_def, inputs, outputs),
    )
    return wire.encoded(checked)
