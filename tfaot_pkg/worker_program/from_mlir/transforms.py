"""Fourier transforms of a module as products of real arrays, because XLA calls a library for them.

messages/fourier_constants.py has the algorithm; JAX writes the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from from_mlir import loading
from messages.fourier_constants import chirp, matrix, radix, twiddles

if TYPE_CHECKING:
    import jax
    from framework_types import Array
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects.func import FuncOp


def replace(module: ir.Module, main: FuncOp) -> None:
    """Replace each `stablehlo.fft` in `main` by a call of a function, which is added to `module`."""
    from jax._src.lib.mlir import ir

    known: dict[tuple[tuple[str, str, str], tuple[int, ...]], str] = {}
    for operation in [each for each in loading.operations_in(main.operation) if each.name == "stablehlo.fft"]:
        kind = (str(operation.operands[0].type), str(operation.results[0].type), str(operation.attributes["fft_type"]))
        lengths = tuple(int(each) for each in np.asarray(operation.attributes["fft_length"]))
        if (kind, lengths) not in known:
            known[kind, lengths] = f"tfaot_fourier_{len(known)}"
            _add(module, known[kind, lengths], operation.operands[0].type, _function(kind[2], lengths))
        with ir.InsertionPoint(operation), operation.location:
            call = ir.Operation.create(
                "func.call", [operation.results[0].type], [operation.operands[0]],
                {"callee": ir.FlatSymbolRefAttr.get(known[kind, lengths])},
            )  # fmt: skip
        operation.results[0].replace_all_uses_with(call.results[0])
        operation.erase()


def _add(module: ir.Module, name: str, kind: ir.Type, function: Callable[[jax.Array], jax.Array]) -> None:
    """Add `function`, of one argument of the type `kind`, to `module`."""
    import jax
    from jax import export
    from jax._src.lib.mlir import ir

    tensor = ir.RankedTensorType(kind)
    sizes = [f"a{axis}" if tensor.is_dynamic_dim(axis) else str(tensor.shape[axis]) for axis in range(tensor.rank)]
    dtype = np.dtype(loading.dtype_of(tensor.element_type))
    jax.config.update("jax_enable_x64", True)  # without it float64 would become float32
    spec = jax.ShapeDtypeStruct(export.symbolic_shape(",".join(sizes)), dtype)
    made = export.export(jax.jit(function), platforms=["cpu"])(spec)
    written = ir.Module.parse(made.mlir_module())
    # Names of its functions may be in the module already.
    for each in [each for each in written.body.operations if each.operation.name == "func.func"]:
        own = each.attributes["sym_name"].value
        each.attributes["sym_name"] = ir.StringAttr.get(name if own == "main" else f"{name}_{own}")
        each.attributes["sym_visibility"] = ir.StringAttr.get("private")
        for inner in loading.operations_in(each.operation):
            if inner.name == "func.call":
                callee = ir.FlatSymbolRefAttr(inner.attributes["callee"]).value
                inner.attributes["callee"] = ir.FlatSymbolRefAttr.get(f"{name}_{callee}")
    for each in list(written.body.operations):
        module.body.append(each.operation.clone())


def _function(kind: str, lengths: tuple[int, ...]) -> Callable[[jax.Array], jax.Array]:
    """The transform along the last axes, of these `lengths`."""
    axes = range(-len(lengths), 0)
    if "IRFFT" in kind:
        return lambda x: _to_real(_along(x, tuple(axes)[:-1], 1), lengths[-1])
    if "RFFT" in kind:
        return lambda x: _along(_of_real(x), tuple(axes)[:-1], -1)
    return lambda x: _along(x, axes, 1 if "IFFT" in kind else -1)


def _along(x: jax.Array, axes: Iterable[int], sign: int) -> jax.Array:
    """The transform of complex `x` along each of the axes; with `sign` 1 the inverse, divided by the lengths."""
    import jax.numpy as jnp
    from jax import lax

    re, im = jnp.real(x), jnp.imag(x)
    for axis in axes:
        re, im = (jnp.moveaxis(each, axis, -1) for each in (re, im))
        size = re.shape[-1]
        re, im = _transformed(re, im, size, sign)
        re, im = (jnp.moveaxis(each / size if sign == 1 else each, -1, axis) for each in (re, im))
    return lax.complex(re, im)


def _of_real(x: jax.Array) -> jax.Array:
    """The first half of the results for real `x`, along its last axis: the others are their conjugates."""
    from jax import lax

    size = x.shape[-1]
    re, im = _transformed(x, None, size, -1)
    return lax.complex(re[..., : size // 2 + 1], _with_real_ends(im[..., : size // 2 + 1], size))


def _to_real(x: jax.Array, size: int) -> jax.Array:
    """The inverse of `_of_real` along the last axis, `size` real numbers."""
    import jax.numpy as jnp

    re, im = jnp.real(x), _with_real_ends(jnp.imag(x), size)
    last = (size + 1) // 2
    re = jnp.concatenate([re, jnp.flip(re[..., 1:last], -1)], -1)
    im = jnp.concatenate([im, -jnp.flip(im[..., 1:last], -1)], -1)
    return _transformed(re, im, size, 1)[0] / size


def _with_real_ends(im: jax.Array, size: int) -> jax.Array:
    """`im` with zeros for the first result, and for the middle one of an even length, which are real."""
    import jax.numpy as jnp

    last = (size + 1) // 2
    zeros = jnp.zeros_like(im[..., :1])
    return jnp.concatenate([zeros, im[..., 1:last], *([] if size % 2 else [zeros])], -1)


def _transformed(re: jax.Array, im: jax.Array | None, size: int, sign: int) -> tuple[jax.Array, jax.Array]:
    """The sums of x[j] exp(sign 2 pi i j k / size) over j, along the last axis; `im` is None for zeros."""
    first = radix(size)
    if first == size:
        return _product(re, im, matrix(size, sign))
    if not first:
        return _bluestein(re, im, size, sign)
    rest = size // first
    # j = rest * j1 + j2, k = k1 + first * k2: first along j1, which is moved to the end.
    rows, columns = (
        None if each is None else _swapped(each.reshape(*each.shape[:-1], first, rest)) for each in (re, im)
    )
    re, im = _scaled(*_product(rows, columns, matrix(first, sign)), twiddles(rest, first, sign))
    re, im = _transformed(_swapped(re), _swapped(im), rest, sign)
    return tuple(_swapped(each).reshape(*each.shape[:-2], size) for each in (re, im))


def _bluestein(re: jax.Array, im: jax.Array | None, size: int, sign: int) -> tuple[jax.Array, jax.Array]:
    import jax.numpy as jnp

    factors = chirp(size, sign)
    length = len(factors.kernel)
    re, im = (
        jnp.pad(each, [(0, 0)] * (each.ndim - 1) + [(0, length - size)]) for each in _scaled(re, im, factors.turns)
    )
    re, im = _scaled(*_transformed(re, im, length, -1), factors.kernel)
    re, im = _transformed(re, im, length, 1)
    return _scaled(re[..., :size], im[..., :size], factors.turns)


def _product(re: jax.Array, im: jax.Array | None, factors: Array) -> tuple[jax.Array, jax.Array]:
    """The products of complex rows with a matrix."""
    cos, sin = _parts(factors, re)
    if im is None:
        # No imaginary part to multiply: zeros times infinities would be NaN.
        return re @ cos, re @ sin
    return re @ cos - im @ sin, re @ sin + im @ cos


def _scaled(re: jax.Array, im: jax.Array | None, factors: Array) -> tuple[jax.Array, jax.Array]:
    """The product with complex constants."""
    cos, sin = _parts(factors, re)
    if im is None:
        return re * cos, re * sin
    return re * cos - im * sin, re * sin + im * cos


def _parts(factors: Array, like: jax.Array) -> tuple[jax.Array, jax.Array]:
    import jax.numpy as jnp

    return jnp.asarray(factors.real, like.dtype), jnp.asarray(factors.imag, like.dtype)


def _swapped(x: jax.Array) -> jax.Array:
    import jax.numpy as jnp

    return jnp.swapaxes(x, -1, -2)
