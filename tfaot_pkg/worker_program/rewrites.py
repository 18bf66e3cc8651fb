"""Operations that XLA cannot compile, or not in every toolchain, replaced by others that it can.

TensorFlow's own answers, for validation, come from the original operations. Each rule builds its replacement from
tensors of known shape (static_values.py); the batch size may be unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import cumulative_sums
import data_dependent_rows
import fourier
import gammas
import interpolation
import maximum_rules
import operations
import patches
import philox
import quantiles
import series
import static_values
import tensorflow as tf
from messages.carriers import MADE
from messages.interpolation_windows import windows_of
from messages.requests import ModelFault
from tensorflow.python.framework import op_def_registry
from wiring import control_inputs, data_inputs

if TYPE_CHECKING:
    from framework_types import Array, FunctionDef, GraphDef, NodeDef, Nodes
    from messages.graph import Feed, Symbol
    from tables import Table


# Each pivot takes a dozen operations of the graph: larger matrices would compile slowly.
_MOST_PIVOTS = 64
_DENSE, _DENSE_LEAST = 4, 4096
"""A table of at most 4 elements for each key, or of 4096 in all, is used instead of a search."""


# Not frozen: context managers that the exception passes set its traceback.
@dataclass(eq=False)
class _Cannot(Exception):
    """A rule does not apply: why, and what to do."""

    why: str
    advice: str


Rule: TypeAlias = Callable[..., "tf.Tensor | tuple[tf.Tensor, ...] | None"]
"""The results of a node of its inputs; None if the node stays."""


def rewrite(
    graph_def: GraphDef, inputs: Sequence[Feed], symbols: Sequence[Symbol], tables: Mapping[str, Table]
) -> None:
    """Replace the nodes of `graph_def` for which there are rules; `tables` are the contents of lookup tables.

    A rule that returns None leaves its node unchanged.
    """
    is_bounded = any(node.name.startswith(data_dependent_rows.MARK) for node in graph_def.node)
    places = [("", graph_def.node, {**_RULES, **data_dependent_rows.RULES} if is_bounded else _RULES)]
    places += [(each.signature.name, each.node_def, _RULES) for each in graph_def.library.function]
    wanted = {
        name: [node for node in nodes if node.op in rules or node.op in _OF_TABLES] for name, nodes, rules in places
    }
    if not any(wanted.values()):
        return
    known = static_values.static_values_in(graph_def, inputs, symbols)
    functions = {each.signature.name: each for each in graph_def.library.function}
    for name, nodes, rules in places:
        for node in wanted[name] if name in known else ():
            try:
                _replace(nodes, functions.get(name), node, known[name].inputs_of(node.name), tables, rules)
            except _Cannot as found:
                raise ModelFault(
                    f"{node.op} (node {node.name}) cannot be compiled: {found.why}", found.advice
                ) from found
    if tables and not any(node.op in _OF_TABLES for node in operations.nodes_of(graph_def)):
        _remove_handles(graph_def, tables)


def _replace(
    nodes: Nodes,
    function: FunctionDef | None,
    node: NodeDef,
    known: list[static_values.Input],
    tables: Mapping[str, Table],
    rules: Mapping[str, Rule],
) -> None:
    """Replace `node`, one of `nodes` of a graph or of `function`; `known` describes its inputs."""
    graph, texts = tf.Graph(), data_inputs(node)
    with graph.as_default():
        given = [
            tf.compat.v1.placeholder(dtype, shape, name=f"input_{i}")
            if value is None or dtype == tf.resource
            else tf.constant(value, dtype)
            for i, (dtype, shape, value) in enumerate(known)
        ]
        if node.op in _OF_TABLES:
            results = _OF_TABLES[node.op](_content(known[0][2], tables), *given[1:])
        else:
            results = rules[node.op](node, *given)
        if results is None:
            return
    results = results if isinstance(results, tuple) else (results,)
    prefix = f"{node.name}{MADE}"

    def renamed(tensor: tf.Tensor) -> str:
        if tensor.op.type == "Placeholder":
            return texts[int(tensor.op.name.split("_")[1])]
        if function is not None:
            return prefix + _in_function(tensor)
        # As TensorFlow writes it: a first output has no number.
        return str(prefix + tensor.name.removesuffix(":0"))

    for op in graph.get_operations():
        if op.type != "Placeholder":
            copy = nodes.add()
            copy.CopyFrom(op.node_def)
            copy.name = prefix + op.name
            copy.input[:] = [*map(renamed, op.inputs), *(f"^{prefix}{each.name}" for each in op.control_inputs)]
    if function is not None:
        _rename_results(function, node)
    waits = control_inputs(node)
    types = [tensor.dtype.as_datatype_enum for tensor in results]
    node.op = "IdentityN" if len(types) > 1 else "Identity"
    node.input[:] = [*map(renamed, results), *waits]
    node.attr.clear()
    if len(types) > 1:
        node.attr["T"].list.type.extend(types)
    else:
        node.attr["T"].type = types[0]


def _in_function(tensor: tf.Tensor) -> str:
    """A tensor as function bodies name it: node, output argument, index in that."""
    index = tensor.value_index
    for argument, count in _results(tensor.op.node_def):
        if index < count:
            return f"{tensor.op.name}:{argument}:{index}"
        index -= count
    raise AssertionError(tensor)


def _results(node: NodeDef) -> list[tuple[str, int]]:
    """The output arguments of a node, and how many tensors each has."""
    found = []
    for argument in op_def_registry.get(node.op).output_arg:
        if argument.number_attr:
            found.append((argument.name, node.attr[argument.number_attr].i))
        elif argument.type_list_attr:
            found.append((argument.name, len(node.attr[argument.type_list_attr].list.type)))
        else:
            found.append((argument.name, 1))
    return found


def _rename_results(function: FunctionDef, node: NodeDef) -> None:
    """Make all readers of `node` in `function` read the outputs of the identity that it becomes."""
    tensors = [(argument, index) for argument, count in _results(node) for index in range(count)]
    renamed = {f"{node.name}:{name}:{index}": f"{node.name}:output:{i}" for i, (name, index) in enumerate(tensors)}
    for reader in function.node_def:
        reader.input[:] = [renamed.get(text, text) for text in reader.input]
    for key, text in list(function.ret.items()):
        function.ret[key] = renamed.get(text, text)


def _content(name: str, tables: Mapping[str, Table]) -> Table:
    """The table whose handle is the node `name`; raises _Cannot if that depends on values."""
    if name not in tables:
        raise _Cannot("which table it reads depends on values", "read both tables, and choose among their answers")
    return tables[name]


def _remove_handles(graph_def: GraphDef, tables: Mapping[str, Table]) -> None:
    """Replace the handles of tables, which nothing reads now, by numbers; loops may still carry them."""
    resource, number = tf.resource.as_datatype_enum, tf.int32.as_datatype_enum
    for node in graph_def.node:
        if node.name in tables:
            node.op = "Const"
            node.attr.clear()
            node.attr["dtype"].type = number
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(0, tf.int32))
    for function in graph_def.library.function:
        for argument in (*function.signature.input_arg, *function.signature.output_arg):
            if argument.type == resource:
                argument.type = number
                argument.ClearField("handle_data")
    for node in operations.nodes_of(graph_def):
        for value in node.attr.values():
            if value.type == resource:
                value.type = number
            if resource in value.list.type:
                value.list.type[:] = [number if each == resource else each for each in value.list.type]


def _parts(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.math.real(x), tf.math.imag(x)


def _axis_length(x: tf.Tensor, axis: int) -> int:
    size = None if x.shape.rank is None else x.shape[axis]
    if size is None:
        raise _Cannot("the length of an axis is not known", "give it a number in model.shapes, or in the model")
    return int(size)


def _lengths(value: tf.Tensor, count: int) -> list[int]:
    found = tf.get_static_value(value)
    if found is None:
        raise _Cannot("fft_length is not constant", "make it a constant of the model")
    return [int(each) for each in found][-count:]


def _transformed(re: tf.Tensor, im: tf.Tensor, axis: int, inverse: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Real and imaginary part of the transform along `axis`."""
    re, im = (fourier.swapped_with_last(each, axis) for each in (re, im))
    re, im = fourier.transformed(re, im, inverse)
    return fourier.swapped_with_last(re, axis), fourier.swapped_with_last(im, axis)


def _fitted(x: tf.Tensor, axis: int, length: int) -> tf.Tensor:
    return fourier.swapped_with_last(fourier.fitted(fourier.swapped_with_last(x, axis), length), axis)


def _fft(count: int, inverse: bool) -> Rule:
    def rule(node: NodeDef, x: tf.Tensor) -> tf.Tensor:
        re, im = _parts(x)
        # A transform along several axes is one along each, in any order.
        for axis in range(-1, -count - 1, -1):
            _axis_length(x, axis)
            re, im = _transformed(re, im, axis, inverse)
        return tf.complex(re, im)

    return rule


def _rfft(count: int) -> Rule:
    def rule(node: NodeDef, x: tf.Tensor, fft_length: tf.Tensor) -> tf.Tensor:
        lengths = _lengths(fft_length, count)
        for axis, length in zip(range(-count, 0), lengths, strict=True):
            _axis_length(x, axis)
            x = _fitted(x, axis, length)
        # The last axis first: its input is real, and the other axes then transform half as many columns.
        re, im = fourier.of_real(x, lengths[-1])
        for axis in range(-2, -count - 1, -1):
            re, im = _transformed(re, im, axis, False)
        return tf.complex(re, im)

    return rule


def _irfft(count: int) -> Rule:
    def rule(node: NodeDef, x: tf.Tensor, fft_length: tf.Tensor) -> tf.Tensor:
        # The inverse of _rfft, so the last axis comes last.
        re, im = _parts(x)
        lengths = _lengths(fft_length, count)
        for axis, length in zip(range(-count, -1), lengths, strict=False):
            _axis_length(x, axis)
            re, im = (_fitted(each, axis, length) for each in (re, im))
            re, im = _transformed(re, im, axis, True)
        _axis_length(x, -1)
        return fourier.to_real(re, im, lengths[-1])

    return rule


def _eliminated(x: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Pivots of Gaussian elimination with row exchanges, as a list, and the sign of the permutation."""
    size = _axis_length(x, -1)
    if size > _MOST_PIVOTS:
        raise _Cannot(f"of matrices of {size} rows", f"at most {_MOST_PIVOTS} are; compute it from a decomposition")
    sign, pivots = tf.ones(tf.shape(x)[:-2], x.dtype), []
    # The largest pivot of the column, as LAPACK chooses it: a zero on the diagonal must not give NaN.
    for left in range(size, 0, -1):
        chosen = tf.argmax(tf.abs(x[..., 0]), -1)
        mask = tf.one_hot(chosen, left, dtype=x.dtype)
        row = tf.reduce_sum(tf.where(mask[..., None] > 0, x, tf.zeros_like(x)), -2)
        pivot = row[..., 0]
        # The first row replaces the chosen one.
        rest = tf.where(mask[..., None] > 0, x[..., :1, :], x)[..., 1:, :]
        pivots.append(pivot)
        sign = tf.where(tf.equal(chosen, 0), sign, -sign)
        # A singular matrix: the product with this pivot is 0 whatever the remaining rows are.
        safe = tf.where(tf.equal(pivot, 0), tf.ones_like(pivot), pivot)
        x = (rest - rest[..., :1] / safe[..., None, None] * row[..., None, :])[..., 1:]
    return pivots, sign


def _determinant(node: NodeDef, x: tf.Tensor) -> tf.Tensor:
    pivots, product = _eliminated(x)
    for pivot in pivots:
        product = product * pivot
    return product


def _log_determinant(node: NodeDef, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    pivots, sign = _eliminated(x)
    for pivot in pivots:
        sign = sign * tf.sign(pivot)
    return sign, tf.add_n([tf.math.log(tf.abs(pivot)) for pivot in pivots])


def _euclidean_norm(node: NodeDef, x: tf.Tensor, axes: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.reduce_sum(x * tf.math.conj(x), axes, keepdims=node.attr["keep_dims"].b))


def _resized(node: NodeDef, images: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Resizing is linear, one axis after the other: its weights are the results for unit vectors."""
    wanted = tf.get_static_value(size)
    if wanted is None:
        raise _Cannot("the size of the result is not constant", "make it a constant of the model")
    x = tf.cast(images, tf.float32)
    for axis in (1, 2):
        x = interpolation.weighed(x, axis, *_windows(node, _axis_length(images, axis), int(wanted[axis - 1])))
    return x


def _bilinear(node: NodeDef, images: tf.Tensor, size: tf.Tensor) -> tf.Tensor | None:
    """If all sizes are known. XLA's own code multiplies elements that a result does not use by 0, NaN among them."""
    if tf.get_static_value(size) is None or None in images.shape.as_list()[1:3]:
        return None
    return _resized(node, images, size)


def _windows(node: NodeDef, old: int, new: int) -> tuple[Array, Array]:
    import numpy as np

    options = {name: node.attr[name].b for name in ("align_corners", "half_pixel_centers") if name in node.attr}
    # By running TensorFlow's own operation, so that its rounding rules need no copy here.
    run = getattr(tf.raw_ops, node.op)
    units = np.eye(old, dtype=np.float32)[:, :, None, None]
    missing = np.where(units, np.float32(np.nan), np.float32(0))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        numbers, marked = session.run([run(images=each, size=[new, 1], **options) for each in (units, missing)])
    # [element, result]: its weight, and whether it is read, if only to be multiplied by 0.
    return windows_of(numbers[:, :, 0, 0].T, np.isnan(marked[:, :, 0, 0]).T)


def _sparse_product(
    node: NodeDef, indices: tf.Tensor, values: tf.Tensor, shape: tf.Tensor, other: tf.Tensor
) -> tf.Tensor:
    if node.attr["adjoint_b"].b:
        other = tf.linalg.adjoint(other)
    rows, columns = indices[:, 0], indices[:, 1]
    number = shape[0]
    if node.attr["adjoint_a"].b:
        rows, columns, number, values = columns, rows, shape[1], tf.math.conj(values)
    return tf.math.unsorted_segment_sum(values[:, None] * tf.gather(other, columns), rows, number)


def _dense_of_ragged(
    node: NodeDef, shape: tf.Tensor, values: tf.Tensor, default: tf.Tensor, *partitions: tf.Tensor
) -> tf.Tensor:
    kinds = [kind.decode() for kind in node.attr["row_partition_types"].list.s]
    wanted = tf.get_static_value(shape)
    if kinds != ["ROW_SPLITS"] or wanted is None or wanted.size < 2 or wanted[1] < 0:
        raise _Cannot(
            "the length of its rows depends on values",
            "give the longest: to_tensor(shape=[None, 32]); only one ragged axis is known here",
        )
    (splits,) = partitions
    length = int(wanted[1])
    places = splits[:-1, None] + tf.range(length, dtype=splits.dtype)
    inside = places < splits[1:, None]
    count = _axis_length(values, 0)
    # Clipped indices are not used: `inside` chooses the default there.
    found = tf.gather(values, tf.clip_by_value(places, 0, max(count - 1, 0)))
    inner = len(values.shape) - 1
    return tf.where(tf.reshape(inside, tf.concat([tf.shape(inside), [1] * inner], 0)), found, default)


def _bincount(node: NodeDef, values: tf.Tensor, size: tf.Tensor, weights: tf.Tensor) -> tf.Tensor | None:
    """For a known size, whether or not XLA can see it (static_values.py)."""
    if tf.get_static_value(size) is None:
        return None
    return tf.raw_ops.DenseBincount(
        input=values, size=size, weights=weights, binary_output=node.attr["binary_output"].b
    )


def _nth_element(node: NodeDef, x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    direction = "DESCENDING" if node.attr["reverse"].b else "ASCENDING"
    return tf.gather(tf.sort(x, direction=direction), n, axis=-1)


def _with_one_zero(x: tf.Tensor) -> tf.Tensor | None:
    """`x` with 0.0 for -0.0: they are equal in TensorFlow, which takes the lower index first; XLA sorts by the sign."""
    return tf.where(tf.equal(x, 0), tf.zeros([], x.dtype), x) if x.dtype.is_floating else None


def _top_k(node: NodeDef, x: tf.Tensor, k: tf.Tensor) -> tuple[tf.Tensor, ...] | None:
    made = _with_one_zero(x)
    options = {name: tf.as_dtype(node.attr[name].type) for name in ("index_type",) if name in node.attr}
    return None if made is None else tuple(tf.raw_ops.TopKV2(input=made, k=k, **options))


def _boxes(operation: Callable[..., Any], *options: str) -> Rule:
    """A rule for a suppression of boxes, which takes the first of those with equal scores."""

    def rule(
        node: NodeDef, boxes: tf.Tensor, scores: tf.Tensor, *limits: tf.Tensor
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor] | None:
        made = _with_one_zero(scores)
        if made is None:
            return None
        names = ("max_output_size", "iou_threshold", "score_threshold")
        flags = {name: node.attr[name].b for name in options}
        found = operation(boxes=boxes, scores=made, **dict(zip(names, limits, strict=True)), **flags)
        if not isinstance(found, tuple):
            return found
        # Behind the chosen boxes XLA leaves others, TensorFlow 0.
        indices, count = found
        chosen = tf.range(tf.size(indices)) < count
        return tf.where(chosen, indices, 0), count

    return rule


def _shuffled(node: NodeDef, x: tf.Tensor) -> tf.Tensor:
    """XLA of 2.17 rejects the sort that its own kernel makes."""
    return tf.gather(x, tf.argsort(tf.random.uniform(tf.shape(x)[:1])))


def _random(make: Callable[..., tf.Tensor | None], *, seeded: bool) -> Rule:
    """A rule for one kind of random numbers, from a seed or from a key and counter."""

    def rule(node: NodeDef, shape: tf.Tensor, *rest: tf.Tensor) -> tf.Tensor | None:
        if seeded:
            (key, counter), limits = tf.raw_ops.StatelessRandomGetKeyCounter(seed=rest[0]), rest[1:]
        else:
            key, counter, algorithm, *others = rest
            limits = tuple(others)
            if not philox.is_known(tf.get_static_value(algorithm)):
                return None
        return make(shape, key, counter, tf.as_dtype(node.attr["dtype"].type), *limits)

    return rule


def _uniform(shape: tf.Tensor, key: tf.Tensor, counter: tf.Tensor, dtype: tf.DType) -> tf.Tensor | None:
    return philox.uniform(shape, key, counter, dtype) if dtype.name in ("float32", "float64") else None


def _normal(shape: tf.Tensor, key: tf.Tensor, counter: tf.Tensor, dtype: tf.DType) -> tf.Tensor | None:
    return philox.normal(shape, key, counter) if dtype.name == "float32" else None


def _integers(shape: tf.Tensor, key: tf.Tensor, counter: tf.Tensor, dtype: tf.DType, *limits: tf.Tensor) -> tf.Tensor:
    unsigned = tf.uint32 if dtype.size == 4 else tf.uint64
    found = philox.integers(shape, key, counter, unsigned)
    if not limits:
        return tf.bitcast(found, dtype)
    low, high = limits
    # Unsigned, because the span of signed limits may be larger than their type. The remainder favours small numbers a
    # little, as TensorFlow's own integers do.
    span = tf.bitcast(high, unsigned) - tf.bitcast(low, unsigned)
    return tf.bitcast(tf.bitcast(low, unsigned) + found % span, dtype)


def _looked_up(table: Table, keys: tf.Tensor, default: tf.Tensor) -> tf.Tensor:
    """Look up `keys` in a table of all keys from the smallest to the largest, or else by binary search."""
    known = table.keys
    # As Python integers: a span of int64 keys may not fit into int64.
    span = int(known[-1]) - int(known[0]) + 1
    if span <= max(_DENSE * len(known), _DENSE_LEAST):
        return _dense(table, keys, default, span)
    place = tf.zeros_like(keys, tf.int32)
    # The largest power of two that is at most the last position.
    step = 1 << (len(known) - 1).bit_length() >> 1
    last = len(known) - 1
    while step:  # the last known key that is not larger
        further = tf.minimum(place + step, last)
        place = tf.where(tf.gather(known, further) <= keys, further, place)
        step >>= 1
    return tf.where(tf.equal(tf.gather(known, place), keys), tf.gather(table.values, place), default)


def _dense(table: Table, keys: tf.Tensor, default: tf.Tensor, span: int) -> tf.Tensor:
    import numpy as np

    least, most = table.keys[0], table.keys[-1]
    # A second table tells which keys exist: any value may be a value of the table.
    values, held = np.zeros(span, table.values.dtype), np.zeros(span, bool)
    places = (table.keys - least).astype(np.int64)
    values[places], held[places] = table.values, True
    inside = (keys >= least) & (keys <= most)
    place = tf.where(inside, keys, tf.constant(least)) - tf.constant(least)
    return tf.where(inside & tf.gather(held, place), tf.gather(values, place), default)


def _table_size(table: Table) -> tf.Tensor:
    return tf.constant(len(table.keys), tf.int64)


_KINDS: dict[str, Callable[..., tf.Tensor | None]] = {
    "Normal": _normal,
    "Uniform": _uniform,
    "UniformFullInt": _integers,
    "UniformInt": _integers,
}
_OF_TABLES: dict[str, Callable[..., tf.Tensor]] = {"LookupTableFindV2": _looked_up, "LookupTableSizeV2": _table_size}
_AXES = {"": 1, "2D": 2, "3D": 3}
_RULES: dict[str, Rule] = {
    **{f"FFT{axes}": _fft(count, False) for axes, count in _AXES.items()},
    **{f"IFFT{axes}": _fft(count, True) for axes, count in _AXES.items()},
    **{f"RFFT{axes}": _rfft(count) for axes, count in _AXES.items()},
    **{f"IRFFT{axes}": _irfft(count) for axes, count in _AXES.items()},
    **maximum_rules.RULES,
    **series.RULES,
    "Cumprod": cumulative_sums.cumulative(tf.math.cumprod),
    "Cumsum": cumulative_sums.cumulative(tf.cumsum),
    "DenseBincount": _bincount,
    "Digamma": gammas.digamma,
    "Erfinv": quantiles.erfinv,
    "EuclideanNorm": _euclidean_norm,
    "ExtractImagePatches": patches.patches,
    "Lgamma": gammas.log_gamma,
    "LogMatrixDeterminant": _log_determinant,
    "MatrixDeterminant": _determinant,
    "Ndtri": quantiles.ndtri,
    "NonMaxSuppressionV3": _boxes(tf.raw_ops.NonMaxSuppressionV3),
    "NonMaxSuppressionV4": _boxes(tf.raw_ops.NonMaxSuppressionV4, "pad_to_max_output_size"),
    "NthElement": _nth_element,
    "RaggedTensorToTensor": _dense_of_ragged,
    "RandomShuffle": _shuffled,
    "ResizeArea": _resized,
    "ResizeBicubic": _resized,
    "ResizeBilinear": _bilinear,
    **{
        f"Segment{kind}": cumulative_sums.of_segments(kind, empty)
        for kind, empty in {"Max": 0, "Mean": 0, "Min": 0, "Prod": 1, "Sum": 0}.items()
    },
    "SparseTensorDenseMatMul": _sparse_product,
    "TopKV2": _top_k,
    **{f"StatelessRandom{kind}": _random(make, seeded=True) for kind, make in _KINDS.items()},
    **{f"StatelessRandom{kind}V2": _random(make, seeded=False) for kind, make in _KINDS.items()},
}
