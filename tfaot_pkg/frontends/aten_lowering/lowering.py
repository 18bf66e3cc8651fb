"""Lowers a program of PyTorch's core operators to a program, node by node.

Each node's function (table.py) makes operations, whose types the builder infers; they are compared with those that the
file states. An operator that has no lowering is Unsupported, by its name and its line in the author's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.program import Program, Shape, Symbol, Unsupported
from tfaot_pkg.frontends.aten_lowering import (
    attention,
    complex_numbers,
    convolutions,
    elementwise,
    indexing,
    linear_algebra,
    moving,
    normalizing,
    products,
    recurrent,
    reductions,
    sampling,
    sizes,
    special_functions,
)
from tfaot_pkg.frontends.aten_lowering.document import Argument, Input, Module, Node, Other, Reference, Result
from tfaot_pkg.frontends.aten_lowering.table import SHORT, Call, Resolved, dtype_of
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, sizes_of_axes
from tfaot_pkg.frontends.onnx_lowering.fourier import Parts
from tfaot_pkg.frontends.onnx_lowering.graph import OtherType
from tfaot_pkg.frontends.onnx_lowering.table import constant_of

FILLED_BY = (
    attention, complex_numbers, convolutions, elementwise, indexing, linear_algebra, moving, normalizing, products,
    recurrent, reductions, sampling, sizes, special_functions,
)  # fmt: skip
"""The modules whose functions are in the table of operators."""

_RANDOM = frozenset(
    "bernoulli cauchy dropout exponential geometric log_normal multinomial native_dropout normal normal_functional "
    "poisson rand rand_like randint randint_like randn randn_like randperm uniform".split()
)
_BY_VALUES = frozenset("nonzero masked_select unique unique2 _unique2 unique_dim unique_consecutive item".split())
_TRAINING = frozenset(
    "_batch_norm_with_update _batch_norm_with_update_functional _native_batch_norm_legit "
    "_native_batch_norm_legit_functional native_batch_norm".split()
)
_PACKED = frozenset(("lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data"))
_MOVING = frozenset(
    "_unsafe_view alias clone detach embedding expand flatten flip gather getitem index index_select permute reshape "
    "roll select slice split split_with_sizes squeeze t transpose unbind unfold unsqueeze view".split()
)
"""Operators whose results are elements of one operand: they need no rounding."""
_ASSERTIONS = (
    "aten._assert_scalar.default", "aten._assert_tensor_metadata.default", "aten._assert_async.msg",
    "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
)  # fmt: skip
"""Conditions that torch.export found; the ranges of symbols have them."""


def lower(
    module: Module,
    symbols: Sequence[Symbol] = (),
    *,
    layers: bool = True,
    by_definition: bool = False,
    observe: Callable[[Node, Mapping[str, Resolved]], None] = lambda _node, _arguments: None,
) -> Program:
    """The program of `module`, whose outputs are in the order of the file. It is not verified.

    `symbols` are the open axes of the inputs beside the batch. Raises Unsupported, which names the node. Without
    `layers`, all operations are HLO's (compiler/listing.py). `by_definition`: see Builder. `observe` is called with
    each node and its arguments.
    """
    builder, document = Builder(symbols, layers=layers, by_definition=by_definition), module.document
    _require_ranges(module, symbols)
    names = {each.name for each in symbols}

    def body(given: Sequence[Value]) -> list[Value]:
        values: dict[str, Resolved] = {each.value: value for each, value in zip(document.inputs, given, strict=True)}
        walk = _Walk(module, builder, values)
        for node in document.nodes:
            observe(node, walk.add(node))
        return [walk.tensor(each.value, f"the output {each.name!r}") for each in document.outputs]

    return builder.program([_shape(each, names) for each in document.inputs], body)


def _require_ranges(module: Module, symbols: Sequence[Symbol]) -> None:
    for each in symbols:
        least, most = module.document.symbols.get(each.name, (1, None))
        if each.minimum < least or (most is not None and each.maximum > most):
            ends = f"{least}<={each.name}" + ("" if most is None else f"<={most}")
            raise Unsupported(
                f"the size {each.name} is between {each.minimum} and {each.maximum} in the spec, and the model was "
                f"exported for {ends}: change model.shapes, or export with other limits"
            )


def _shape(given: Input, symbols: set[str]) -> Shape:
    sizes = sizes_of_axes(given.name, given.axes, symbols)
    try:
        if given.dtype in SHORT:
            raise Unsupported(f"the element type {given.dtype}: export the model in float32, model.float()")
        return Shape(dtype_of(given.dtype), sizes)
    except Unsupported as error:
        raise Unsupported(f"the input {given.name!r}: {error}") from None


class _Walk:
    def __init__(self, module: Module, builder: Builder, values: dict[str, Resolved]) -> None:
        self._module, self._builder, self._values = module, builder, values
        self._calls: dict[str, Call] = {}
        self._used: dict[str, set[int]] = {}
        for node in module.document.nodes:
            whole, number = node.arguments.get("0"), node.arguments.get("1")
            if node.op == "operator.getitem" and isinstance(whole, Reference) and isinstance(number, int):
                self._used.setdefault(whole.name, set()).add(number)

    def tensor(self, name: str, what: str) -> Value:
        found = self._value(name)
        if isinstance(found, Parts):
            raise Unsupported(f"{what} has complex numbers: return torch.view_as_real of it")
        if not isinstance(found, Value):
            raise Unsupported(f"{what} is no tensor")
        if found.short:
            raise Unsupported(f"{what} has floats of 16 bits: return float32, {name}.float()")
        return found

    def _value(self, name: str) -> Resolved:
        if name not in self._values:
            array = self._module.weights[name]
            self._values[name] = (
                Parts(*(constant_of(np.ascontiguousarray(each)) for each in (array.real, array.imag)))
                if array.dtype.kind == "c"
                else constant_of(OtherType(dtype="bfloat16", bits=array) if name in self._module.bits else array)
            )
        return self._values[name]

    def _resolved(self, argument: Argument) -> Resolved:
        if isinstance(argument, Reference):
            return self._value(argument.name)
        if isinstance(argument, tuple):
            return tuple(map(self._resolved, argument))
        if isinstance(argument, Other):
            raise Unsupported(f"its argument {argument.text!r:.60} is of a kind that has no lowering")
        return argument

    def add(self, node: Node) -> Mapping[str, Resolved]:
        """Compute the values of `node`; returns its arguments. Raises Unsupported."""
        self._builder.node = node.module
        if node.op in _ASSERTIONS:
            self._values[node.name] = None
            return {}
        try:
            arguments = {name: self._resolved(each) for name, each in node.arguments.items()}
            function = complex_numbers.function_of(node.op, tuple(arguments.values()))
            if function is None:
                raise Unsupported(_without_lowering(node.op))
            call = Call(
                node=node,
                arguments=arguments,
                builder=self._builder,
                used=frozenset(self._used.get(node.name, {0})),
                origins={each.name: self._calls[each.name] for each in node.arguments.values()
                         if isinstance(each, Reference) and each.name in self._calls},
            )  # fmt: skip
            made = _rounded(call, function(call))
            _require_types(made, node.results)
        except Unsupported as error:
            raise Unsupported(f"{_place(node)}: {error}") from None
        # A file is not trusted: arguments may be of any size, and lists of any length.
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError, AssertionError) as error:
            raise Unsupported(f"{_place(node)}: its arguments do not fit: {type(error).__name__}: {error}") from error
        self._calls[node.name] = call
        self._values[node.name] = made
        return call.arguments


def _rounded(call: Call, made: Resolved) -> Resolved:
    """Results as floats of 16 bits, if the file says so: computed in float32, and rounded."""
    stated = call.node.results
    if isinstance(made, tuple):
        pairs = zip(made, (*stated, *[None] * (len(made) - len(stated))), strict=False)
        return tuple(_as_short(call, each, result) for each, result in pairs)
    return _as_short(call, made, next(iter(stated), None))


def _as_short(call: Call, made: Resolved, stated: Result | None) -> Resolved:
    if not isinstance(made, Value) or made.dtype != "f32":
        return made
    short = SHORT.get(stated.dtype, "") if stated is not None else made.short
    if short and made.short != short and call.op.split(".")[1] not in _MOVING:
        made = call.builder.op(f"round-to-{short}", made)
    return made if made.short == short else replace(made, short=short)


def _place(node: Node) -> str:
    """An operator, and where it is in the author's model."""
    where = [f"in {node.module}" if node.module else "", node.line]
    said = ", ".join(each for each in where if each)
    return f"{node.op} ({said})" if said else node.op


def _without_lowering(op: str) -> str:
    name = op.split(".")[1] if op.count(".") else op
    if name in _RANDOM or name.rstrip("_") in _RANDOM:
        return (
            "its results are random, and those of a package are not: give the numbers as an input, or export the "
            "model in evaluation mode"
        )
    if name in _TRAINING:
        return "it is in training mode: export the model in evaluation mode, model.eval()"
    if name in _BY_VALUES:
        return (
            "the number of its results depends on the values of the model's inputs: use a mask and torch.where, or "
            "torch.topk with a fixed number"
        )
    if op.removeprefix("aten.") in _PACKED:
        return "packed sequences: run the layer on the padded tensor, and take step `lengths - 1` of it with gather"
    return "this operator has no lowering to a program: write it with others, or export the model as an .onnx file"


def _require_types(made: Resolved, stated: Sequence[Result | None]) -> None:
    """Raise Unsupported if a result has another type than the file states: the types are inferred, never believed."""
    tensors = made if isinstance(made, tuple) else (made,)
    for value, result in zip(tensors, stated, strict=False):
        if not isinstance(value, Value | Parts) or result is None:
            continue
        is_complex = isinstance(value, Parts)
        sizes = value.real.sizes if isinstance(value, Parts) else value.sizes
        dtype = complex_numbers.TYPES[value.real.dtype] if isinstance(value, Parts) else value.dtype
        stated_dtype = result.dtype if is_complex else dtype_of(result.dtype)
        fits = len(sizes) == len(result.sizes) and all(
            wanted is None or wanted == size for size, wanted in zip(sizes, result.sizes, strict=True)
        )
        if not fits or dtype != stated_dtype:
            wanted = ", ".join("?" if each is None else str(each) for each in result.sizes)
            raise Unsupported(
                f"its result is {dtype}[{', '.join(map(str, sizes))}], and the file says {stated_dtype}[{wanted}]"
            )
