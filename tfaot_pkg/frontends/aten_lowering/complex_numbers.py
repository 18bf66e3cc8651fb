"""Operators on complex numbers, which programs hold as real and imaginary parts, and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.frontends.aten_lowering.document import ElementType
from tfaot_pkg.frontends.aten_lowering.elementwise import floating, magnitude
from tfaot_pkg.frontends.aten_lowering.table import OPERATORS, Call, Function, Resolved, Results, axis_of, operator
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.fourier import Parts, mirrored, of_real, swapped_with_last, to_real, transformed
from tfaot_pkg.frontends.onnx_lowering.moving import element, join, stretched

_LINEAR = frozenset(
    "add.Scalar add.Tensor alias cat clone constant_pad_nd contiguous copy cumsum detach diagonal expand flip "
    "flatten.using_ints gather index.Tensor index_add index_put index_select lift_fresh_copy mean mean.dim narrow "
    "neg pad permute repeat reshape roll rsub.Scalar scatter.src scatter_add select.int select_scatter "
    "slice.Tensor slice_scatter split.Tensor split_with_sizes squeeze squeeze.dim squeeze.dims stack sub.Scalar "
    "sub.Tensor sum sum.dim_IntList t transpose.int tril triu unbind.int unflatten.int unfold unsqueeze view "
    "where.self _unsafe_index.Tensor _unsafe_view".split()
)
"""Operators of which each part of the result is the same operator on that part of the operands."""
_SETTINGS = frozenset("alpha condition dim index indices value dims dtype size sizes".split())
"""Arguments that both parts of a result share, as far as they are real."""
_PRODUCTS: Mapping[str, tuple[str, str]] = {
    "bmm": ("self", "mat2"), "dot": ("self", "tensor"), "linear": ("input", "weight"), "matmul": ("self", "other"),
    "mm": ("self", "mat2"), "mul.Scalar": ("self", "other"), "mul.Tensor": ("self", "other"), "mv": ("self", "vec"),
}  # fmt: skip
"""Operators that are linear in each of two operands."""

TYPES = {"f32": "complex64", "f64": "complex128"}
"""The element types of parts -> PyTorch's names of those of the whole."""
_COMPLEX: dict[str, Function] = {}
"""What operators do with complex operands."""


def function_of(op: str, arguments: Sequence[Resolved]) -> Function | None:
    """The function of an operator whose arguments have these values; None if there is none.

    Raises Unsupported if it has one for real numbers alone.
    """
    if not any(map(_is_complex, arguments)):
        return OPERATORS.get(op)
    name = op.removeprefix("aten.").removesuffix(".default")
    if op.startswith("operator."):
        return OPERATORS.get(op)
    if name in _LINEAR:
        return _by_parts(OPERATORS[op])
    if name in _PRODUCTS:
        return _product(OPERATORS[op], *_PRODUCTS[name])
    if (found := _COMPLEX.get(name)) is None:
        raise Unsupported(
            "complex numbers have no lowering here: compute with their real and imaginary parts, torch.view_as_real, "
            "or with their absolute values"
        )
    return found


def _is_complex(argument: Resolved) -> bool:
    if isinstance(argument, tuple):
        return any(map(_is_complex, argument))
    return isinstance(argument, Parts | complex) or (
        isinstance(argument, ElementType) and argument.name.startswith("complex")
    )


def _on(*names: str) -> Callable[[Function], Function]:
    def add(function: Function) -> Function:
        _COMPLEX.update(dict.fromkeys(names, function))
        return function

    return add


# -- parts ---------------------------------------------------------------------------------------------------------


def parts(call: Call, name: str) -> Parts:
    """A tensor or a number with an imaginary part, which is zero for real ones."""
    found = call.get(name)
    if isinstance(found, Parts):
        return found
    if isinstance(found, int | float | complex):
        (dtype, *_) = [each.real.dtype for each in call.arguments.values() if isinstance(each, Parts)] or ["f32"]
        return Parts(*(call.builder.constant(each, dtype) for each in (found.real, found.imag)))
    real = floating(call, name)
    return Parts(real, call.builder.spread(call.builder.constant(0, real.dtype), real.sizes))


@_on("full", "full_like", "new_full", "new_zeros", "ones", "ones_like", "zeros", "zeros_like")
def _full(call: Call) -> Results:
    b, like, wanted = call.builder, call.get("self"), call.get("dtype")
    if isinstance(like, Parts) and not isinstance(wanted, ElementType):
        dtype = like.real.dtype
    else:
        names = {name: dtype for dtype, name in TYPES.items()}
        if not isinstance(wanted, ElementType) or wanted.name not in names:
            raise Unsupported("an array of other elements like one of complex numbers")
        dtype = names[wanted.name]
    name = call.op.split(".")[1]
    value = 0.0 if "zeros" in name else 1.0 if "ones" in name else call.get("fill_value")
    if not isinstance(value, int | float | complex):
        raise Unsupported("its number is computed")
    if name.endswith("_like"):
        sizes = list(like.real.sizes if isinstance(like, Parts) else call.value("self").sizes)
    else:
        sizes = call.sizes("size")
    return Parts(*(b.spread(b.constant(each, dtype), sizes) for each in (value.real, value.imag)))


def _imaginary(x: Parts) -> Value:
    assert x.imaginary is not None
    return x.imaginary


def _part(call: Call, name: str, argument: Resolved, *, first: bool) -> Resolved:
    if isinstance(argument, Parts | complex):
        return _halves(argument)[0 if first else 1]
    if name in _SETTINGS and not (isinstance(argument, Value) and argument.is_float):
        return argument
    if isinstance(argument, tuple):
        return tuple(_part(call, name, each, first=first) for each in argument)
    if first or not isinstance(argument, Value):
        # A number beside complex ones has no imaginary part.
        is_number = isinstance(argument, int | float) and not isinstance(argument, bool) and name in ("other", "self")
        return 0.0 if is_number and not first else argument
    return call.builder.spread(call.builder.constant(0, argument.dtype), argument.sizes)


def _halves(argument: Resolved) -> tuple[Resolved, Resolved]:
    """The parts of complex numbers; those of real ones are themselves, for products."""
    if isinstance(argument, complex):
        return argument.real, argument.imag
    return (argument.real, argument.imaginary) if isinstance(argument, Parts) else (argument, argument)


def _by_parts(function: Function) -> Function:
    def run(call: Call) -> Results:
        made = [
            function(replace(call, arguments={n: _part(call, n, a, first=first) for n, a in call.arguments.items()}))
            for first in (True, False)
        ]
        return _joined(made[0], made[1])

    return run


def _joined(real: Results, imaginary: Results) -> Results:
    if isinstance(real, tuple) and isinstance(imaginary, tuple):
        return tuple(_joined(one, other) for one, other in zip(real, imaginary, strict=True))
    assert isinstance(real, Value) and isinstance(imaginary, Value)
    return Parts(real, imaginary)


def _product(function: Function, one: str, other: str) -> Function:
    def run(call: Call) -> Results:
        def of(x: Resolved, y: Resolved) -> Value:
            made = function(replace(call, arguments={**call.arguments, one: x, other: y, "bias": None}))
            assert isinstance(made, Value)
            return made

        x, y, bias = call.get(one), call.get(other), call.get("bias")
        if ".mul." in call.op:
            # PyTorch makes both complex: an infinite part times the zero of a real number is NaN.
            x, y = parts(call, one), parts(call, other)
        (a, b), (c, d), builder = _halves(x), _halves(y), call.builder
        if not _is_complex(x) or not _is_complex(y):
            # Of one that is real, no imaginary part: zeros times infinities would be NaN.
            found = Parts(of(a, c), of(b, d))
        else:
            found = Parts(builder.op("subtract", of(a, c), of(b, d)), builder.op("add", of(a, d), of(b, c)))
        if bias is None:
            return found
        added, plus = parts(call, "bias"), Arithmetic(builder, found.real).add
        return Parts(plus(found.real, added.real), plus(_imaginary(found), _imaginary(added)))

    return run


# -- from parts, and to them ---------------------------------------------------------------------------------------


@operator("complex")
def _complex(call: Call) -> Results:
    sizes = call.builder.together(call.value("real"), call.value("imag"))
    return Parts(*(call.builder.spread(call.value(name), sizes) for name in ("real", "imag")))


@operator("polar")
def _polar(call: Call) -> Results:
    length, angle = call.value("abs"), call.value("angle")
    b = call.builder
    return Parts(*(b.map("multiply", length, b.op(opcode, angle)) for opcode in ("cosine", "sine")))


@operator("view_as_complex")
def _view_as_complex(call: Call) -> Results:
    x = call.value("self")
    return Parts(*(element(call.builder, x, x.rank - 1, place) for place in (0, 1)))


@_on("view_as_real")
def _view_as_real(call: Call) -> Results:
    x, b = parts(call, "self"), call.builder
    rank = x.real.rank
    return join(b, [stretched(b, each, [rank]) for each in (x.real, _imaginary(x))], rank)


@_on("real")
def _real(call: Call) -> Results:
    return parts(call, "self").real


@_on("imag")
def _imag(call: Call) -> Results:
    return parts(call, "self").imaginary


@_on("_to_copy", "to.dtype")
def _to(call: Call) -> Results:
    x, wanted = parts(call, "self"), call.get("dtype")
    if not isinstance(wanted, ElementType):
        return x
    if not wanted.name.startswith("complex"):
        return OPERATORS[call.op](replace(call, arguments={**call.arguments, "self": x.real}))
    dtypes = [dtype for dtype, name in TYPES.items() if name == wanted.name]
    if not dtypes:
        raise Unsupported(f"the element type {wanted.name}: use complex64")
    return Parts(*(call.builder.convert(each, dtypes[0]) for each in (x.real, _imaginary(x))))


# -- functions -----------------------------------------------------------------------------------------------------


@_on("conj", "_conj", "_conj_physical", "conj_physical", "resolve_conj")
def _conj(call: Call) -> Results:
    x = parts(call, "self")
    return x if "resolve" in call.op else Parts(x.real, call.builder.op("negate", _imaginary(x)))


operator("_conj", "conj", "resolve_conj", "_conj_physical")(lambda call: call.value("self"))  # of real numbers


@_on("abs")
def _abs(call: Call) -> Results:
    x = parts(call, "self")
    return magnitude(call.builder, x.real, _imaginary(x))


@_on("angle")
def _angle(call: Call) -> Results:
    x = parts(call, "self")
    return call.builder.map("atan2", _imaginary(x), x.real)


@_on("exp")
def _exp(call: Call) -> Results:
    x, b = parts(call, "self"), call.builder
    length = b.op("exponential", x.real)
    return Parts(*(b.map("multiply", length, b.op(opcode, _imaginary(x))) for opcode in ("cosine", "sine")))


@_on("log")
def _log(call: Call) -> Results:
    x, b = parts(call, "self"), call.builder
    return Parts(b.op("log", magnitude(b, x.real, _imaginary(x))), b.map("atan2", _imaginary(x), x.real))


@_on("pow.Tensor_Scalar", "square")
def _pow(call: Call) -> Results:
    x, power = parts(call, "self"), call.real("exponent", 2)
    if power not in (1, 2, 3):
        raise Unsupported(f"complex numbers to the power {power:g}: write it with torch.exp and torch.log")
    a, made = Arithmetic(call.builder, x.real), x
    for _ in range(int(power) - 1):
        made = _times(a, made, x)
    return made


def _times(a: Arithmetic, x: Parts, y: Parts) -> Parts:
    real = a.sub(a.mul(x.real, y.real), a.mul(_imaginary(x), _imaginary(y)))
    return Parts(real, a.add(a.mul(x.real, _imaginary(y)), a.mul(_imaginary(x), y.real)))


@_on("div.Tensor", "div.Scalar", "reciprocal")
def _div(call: Call) -> Results:
    b, is_reciprocal = call.builder, "reciprocal" in call.op
    divisor = call.get("self" if is_reciprocal else "other")
    if not isinstance(divisor, Parts):
        divisor = parts(call, "other")
    x = (
        Parts(b.constant(1, divisor.real.dtype), b.constant(0, divisor.real.dtype))
        if is_reciprocal
        else parts(call, "self")
    )
    a = Arithmetic(b, divisor.real)
    # Divided by the larger part first: squares of it would overflow.
    scale = a.max(b.op("abs", divisor.real), b.op("abs", _imaginary(divisor)))
    real, imaginary = a.div(divisor.real, scale), a.div(_imaginary(divisor), scale)
    square = a.mul(a.add(a.mul(real, real), a.mul(imaginary, imaginary)), scale)
    made = _times(a, x, Parts(real, b.op("negate", imaginary)))
    return Parts(a.div(made.real, square), a.div(_imaginary(made), square))


@_on("linalg_vector_norm", "norm.ScalarOpt_dim")
def _norm(call: Call) -> Results:
    return OPERATORS[call.op](replace(call, arguments={**call.arguments, "self": _abs(call)}))


# -- Fourier transforms --------------------------------------------------------------------------------------------


def _axes(call: Call, rank: int) -> list[int]:
    return [axis_of(each, rank) for each in call.wholes("dim")]


def _normalized(call: Call, x: Parts, sizes: Sequence[int]) -> Parts:
    """PyTorch's `normalization`: 1 divides by the root of the number of elements, 2 by the number."""
    count = math.prod(sizes)
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[call.whole("normalization")]
    if factor == 1:
        return x
    a = Arithmetic(call.builder, x.real)
    return Parts(a.mul(x.real, factor), None if x.imaginary is None else a.mul(x.imaginary, factor))


def _lengths(x: Parts, axes: Sequence[int], call: Call) -> list[int]:
    return [call.number(x.real.sizes[axis], "the length of a Fourier transform") for axis in axes]


def _along(b: Builder, x: Parts, axis: int, function: Callable[[Parts], Parts]) -> Parts:
    return swapped_with_last(b, function(swapped_with_last(b, x, axis)), axis)


@operator("_fft_r2c")
def _fft_r2c(call: Call) -> Results:
    b, x = call.builder, Parts(floating(call), None)
    axes = _axes(call, x.real.rank)
    lengths = _lengths(x, axes, call)
    # The last axis first: its input is real, and with `onesided` the others then transform half as many columns.

    def first(part: Parts) -> Parts:
        half = of_real(b, part.real)
        return half if call.flag("onesided") else mirrored(b, half, lengths[-1])

    made = _along(b, x, axes[-1], first)
    for axis in axes[:-1]:
        made = _along(b, made, axis, lambda part: transformed(b, part, -1))
    return _normalized(call, made, lengths)


@_on("_fft_c2c")
def _fft_c2c(call: Call) -> Results:
    b, x, sign = call.builder, parts(call, "self"), -1 if call.flag("forward") else 1
    axes = _axes(call, x.real.rank)
    made = x
    for axis in axes:
        made = _along(b, made, axis, lambda part: transformed(b, part, sign))
    return _normalized(call, made, _lengths(x, axes, call))


@_on("_fft_c2r")
def _fft_c2r(call: Call) -> Results:
    b, x = call.builder, parts(call, "self")
    axes, size = _axes(call, x.real.rank), call.whole("last_dim_size")
    lengths = [*_lengths(x, axes[:-1], call), size]
    for axis in axes[:-1]:
        x = _along(b, x, axis, lambda part: transformed(b, part, 1))
    made = _along(b, x, axes[-1], lambda part: Parts(to_real(b, part, size), None))
    return _normalized(call, made, lengths).real
