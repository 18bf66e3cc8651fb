"""Quantized operators of com.microsoft, which the reference implementation of the ONNX package lacks, as ONNX Runtime
documents them: computed between DequantizeLinear and QuantizeLinear. And QuantizeLinear itself: the package (1.23)
converts numbers to int32 before it limits them, so that far ones, and NaN, become any bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from from_onnx.operators import windows

if TYPE_CHECKING:
    from framework_types import Array


DOMAIN = "com.microsoft"


def quantized_operators(opset: int) -> list[type]:
    """The classes of all of them for files of `opset`, by the ONNX package's own interface."""
    return [_quantize(opset), *_of_pairs(), *_of_one(), *_of_products(), _lstm()]


def _quantize(opset: int) -> type:
    from onnx.helper import tensor_dtype_to_np_dtype
    from onnx.reference.ops import load_op

    of_package: Any = load_op("", "QuantizeLinear", max(opset, 10))

    class QuantizeLinear(of_package):  # type: ignore[misc]  # its class has no types in tools/stubs
        op_domain = ""

        def _run(self, x: Array, scale: Array, zero: Array | None = None, **more: Any) -> tuple[Array]:
            kind = more.get("output_dtype")
            dtype = zero.dtype if zero is not None else tensor_dtype_to_np_dtype(kind) if kind else np.dtype(np.uint8)
            if more.get("block_size") or dtype not in _QUANTIZED:
                found: tuple[Array] = super()._run(x, scale, zero, **more)
                return found
            axis = more.get("axis", 1) % max(x.ndim, 1)
            sizes = [-1 if place == axis and scale.size > 1 else 1 for place in range(x.ndim)]
            zero = None if zero is None else zero.reshape(sizes)
            return (_bytes(x, scale.reshape(sizes), zero, dtype),)

    return QuantizeLinear


_QUANTIZED = frozenset(np.dtype(each) for each in ("int8", "uint8", "int16", "uint16"))


def _floats(x: Array, scale: Array, zero: Array | None) -> Array:
    whole = x.astype(scale.dtype)
    return (whole if zero is None else whole - zero.astype(scale.dtype)) * scale


def _bytes(x: Array, scale: Array, zero: Array | None, dtype: Any) -> Array:
    ends = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        whole = np.rint(x / scale) + (0 if zero is None else zero.astype(scale.dtype))
        whole = np.where(np.isnan(whole), ends.min, whole)
    made: Array = np.clip(whole, ends.min, ends.max).astype(dtype)
    return made


def _class(name: str, run: Callable[..., Array]) -> type:
    from onnx.reference.op_run import OpRun

    def _run(_self: Any, *given: Any, **attributes: Any) -> tuple[Array]:
        return (run(*given, **attributes),)

    return type(name, (OpRun,), {"op_domain": DOMAIN, "_run": _run})


def _of_pairs() -> list[type]:
    def pair(operation: Callable[[Array, Array], Array]) -> Callable[..., Array]:
        def run(
            x: Array, x_scale: Array, x_zero: Array, y: Array, y_scale: Array, y_zero: Array, *made: Array
        ) -> Array:
            found = operation(_floats(x, x_scale, x_zero), _floats(y, y_scale, y_zero))
            return _bytes(found, made[0], made[1] if len(made) > 1 else None, x.dtype)

        return run

    def concat(scale: Array, zero: Array, *parts: Array, axis: int, **_: Any) -> Array:
        floats = [_floats(*parts[place : place + 3]) for place in range(0, len(parts), 3)]
        return _bytes(np.concatenate(floats, axis), scale, zero, zero.dtype)

    return [
        _class("QLinearAdd", pair(np.add)),
        _class("QLinearMul", pair(np.multiply)),
        _class("QLinearConcat", concat),
    ]


def _of_one() -> list[type]:
    def one(operation: Callable[..., Array]) -> Callable[..., Array]:
        def run(
            x: Array, x_scale: Array, x_zero: Array, scale: Array, zero: Array | None = None, **given: Any
        ) -> Array:
            return _bytes(operation(_floats(x, x_scale, x_zero), **given), scale, zero, x.dtype)

        return run

    def softmax(x: Array, *, axis: int = -1, **_: Any) -> Array:
        with np.errstate(all="ignore"):
            powers = np.exp(x - x.max(axis, keepdims=True))
            return np.asarray(powers / powers.sum(axis, keepdims=True))

    def mean(x: Array, *, axes: Sequence[int] | None = None, keepdims: int = 1, **_: Any) -> Array:
        return np.asarray(x.mean(tuple(axes) if axes else None, keepdims=bool(keepdims)))

    def average(x: Array, *, kernel_shape: Sequence[int], count_include_pad: int = 0, **place: Any) -> Array:
        axes = tuple(range(-len(kernel_shape), 0))
        ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
        count = windows(ones, kernel_shape, float(count_include_pad), **place).sum(axis=axes)
        return np.asarray((windows(x, kernel_shape, 0.0, **place).sum(axis=axes) / count).astype(x.dtype))

    def whole(x: Array, **_: Any) -> Array:
        return np.asarray(x.mean(tuple(range(2, x.ndim)), keepdims=True))

    def sigmoid(x: Array, **_: Any) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-x)))

    def leaky_relu(x: Array, *, alpha: float = 0.01, **_: Any) -> Array:
        return np.where(x < 0, x * np.asarray(alpha, x.dtype), x)

    kinds: dict[str, Callable[..., Array]] = {
        "QLinearAveragePool": average, "QLinearGlobalAveragePool": whole, "QLinearLeakyRelu": leaky_relu,
        "QLinearReduceMean": mean, "QLinearSigmoid": sigmoid, "QLinearSoftmax": softmax,
    }  # fmt: skip
    return [_class(name, one(operation)) for name, operation in kinds.items()]


def _of_products() -> list[type]:
    def gemm(
        x: Array, x_scale: Array, x_zero: Array, y: Array, y_scale: Array, y_zero: Array, *more: Array | None,
        transA: int = 0, transB: int = 0, alpha: float = 1.0, **_: Any,  # noqa: N803 - ONNX's names
    ) -> Array:  # fmt: skip
        left, right = x.astype(np.int64) - int(x_zero), y.astype(np.int64)
        right = right - (y_zero.astype(np.int64).reshape((-1, 1) if transB else (1, -1)))
        total = (left.T if transA else left) @ (right.T if transB else right)
        bias, scale, zero = (*more, None, None, None)[:3]
        total = total if bias is None else total + bias
        factor = x_scale * y_scale.reshape(-1) * np.asarray(alpha, x_scale.dtype)
        if scale is None or zero is None:
            return np.asarray(total.astype(x_scale.dtype) * factor)
        return _bytes(total.astype(x_scale.dtype) * (factor / scale), np.ones((), scale.dtype), zero, zero.dtype)

    def to_float(
        x: Array, y: Array, x_scale: Array, y_scale: Array, x_zero: Array | None = None, y_zero: Array | None = None,
        bias: Array | None = None, **_: Any,
    ) -> Array:  # fmt: skip
        left = x.astype(np.int64) - (0 if x_zero is None else x_zero.astype(np.int64))
        right = y.astype(np.int64) - (0 if y_zero is None else y_zero.astype(np.int64))
        made = (left @ right).astype(x_scale.dtype) * (x_scale * y_scale)
        return np.asarray(made if bias is None else made + bias)

    def dynamic(
        x: Array, y: Array, y_scale: Array, y_zero: Array | None = None, bias: Array | None = None, **_: Any
    ) -> Array:
        found, scale, zero = by_range(x)
        return to_float(found, y, scale, y_scale, zero, y_zero, bias)

    return [_class("QGemm", gemm), _class("MatMulIntegerToFloat", to_float), _class("DynamicQuantizeMatMul", dynamic)]


def by_range(x: Array) -> tuple[Array, Array, Array]:
    """As DynamicQuantizeLinear."""
    low, high = np.minimum(x.min(), 0), np.maximum(x.max(), 0)
    scale = np.asarray((high - low) / np.asarray(255, x.dtype) if high > low else 1, x.dtype)
    zero = np.asarray(np.clip(np.rint(-low / scale), 0, 255), np.uint8)
    return _bytes(x, scale, zero, np.uint8), scale, zero


def _lstm() -> type:
    from onnx.reference.op_run import OpRun

    class DynamicQuantizeLSTM(OpRun):  # type: ignore[misc]  # its class has no types in tools/stubs
        op_domain = DOMAIN

        def _run(
            self, x: Array, w: Array, r: Array, bias: Array | None = None, lengths: Array | None = None,
            *more: Array | None, direction: str = "forward", hidden_size: int = 0, **given: Any,
        ) -> tuple[Array, ...]:  # fmt: skip
            hidden, cell, peepholes, *scales = more
            if lengths is not None or peepholes is not None or given.get("activations") or given.get("clip"):
                raise NotImplementedError("this form of DynamicQuantizeLSTM")
            made = []
            for place, backward in enumerate({"forward": [0], "reverse": [1]}.get(direction, [0, 1])):
                start = [
                    np.zeros((x.shape[1], hidden_size), x.dtype) if each is None else each[place]
                    for each in (hidden, cell)
                ]
                added = np.zeros(4 * hidden_size, x.dtype)
                added = added if bias is None else bias[place].reshape(2, -1).sum(0)
                weights = [(w[place], *(_of(each, place) for each in scales[:2]))]
                weights.append((r[place], *(_of(each, place) for each in scales[2:])))
                made.append(_direction(x[::-1] if backward else x, weights, added, start))
                if backward:
                    made[-1] = (made[-1][0][::-1], *made[-1][1:])
            steps, last, cells = zip(*made, strict=True)
            return np.stack(steps, 1), np.stack(last), np.stack(cells)

    return DynamicQuantizeLSTM


def _of(values: Array | None, place: int) -> Array | None:
    return None if values is None else values[place]


def _direction(
    x: Array, weights: Sequence[tuple[Array, Array | None, Array | None]], bias: Array, start: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """The states of all steps, and the last ones."""

    def product(values: Array, matrix: Array, scale: Array | None, zero: Array | None) -> Array:
        found, own, point = by_range(values)
        left, right = found.astype(np.int64) - int(point), matrix.astype(np.int64)
        right = right if zero is None else right - zero.astype(np.int64)
        return np.asarray((left @ right).astype(x.dtype) * (own * scale))

    def sigmoid(values: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-values)))

    (hidden, cell), states = start, []
    with np.errstate(all="ignore"):
        for given in product(x, *weights[0]):
            gates = np.split(given + product(hidden, *weights[1]) + bias, 4, axis=-1)
            enter, leave, forget = map(sigmoid, gates[:3])
            cell = forget * cell + enter * np.tanh(gates[3])
            hidden = leave * np.tanh(cell)
            states.append(hidden)
    return np.stack(states), hidden, cell
