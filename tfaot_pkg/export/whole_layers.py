"""Recurrent layers and distances that torch.export takes whole."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def whole_layers(torch: Any) -> Iterator[None]:
    """In the block, recurrent layers and `cdist` have sizes alone.

    PyTorch would run layers step by step to know these, and so take the number of steps for a constant; and it computes
    distances of more than 25 points in another way, and so would limit their number.
    """
    aten = torch.ops.aten
    operators = [aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input, aten.cdist.default]
    replaced = ("DispatchKey.CompositeImplicitAutograd", "DispatchKey.Autograd")
    before = [dict(each.py_kernels) for each in operators]
    # Earlier releases know the sizes of Fourier transforms, but not their strides, and so refuse varying sizes (2.6).
    checks: list[Any] = importlib.import_module("torch._subclasses.fake_impls").op_implementations_checks
    all_checks = list(checks)
    table = torch._decomp.decomposition_table  # noqa: SLF001  # which sizes are computed with, too
    functions = {each: table[each] for each in operators if each in table}
    try:
        checks[:] = [each for each in checks if each[0].__name__ != "stride_incorrect_op"]
        for each, function in functions.items():
            table[each] = functools.partial(_sizes(each), torch, function)
        for each, kernels in zip(operators, before, strict=True):
            for key in kernels:
                if str(key) in replaced:
                    each.py_kernels[key] = functools.partial(_sizes(each), torch, kernels[key])
            if not kernels:
                composite = torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001
                each.py_kernels[composite] = functools.partial(_sizes(each), torch, each)
            each._dispatch_cache.clear()  # noqa: SLF001  # PyTorch has no public way
        yield
    finally:
        checks[:] = all_checks
        table.update(functions)
        for each, kernels in zip(operators, before, strict=True):
            each.py_kernels.clear()
            each.py_kernels.update(kernels)
            each._dispatch_cache.clear()  # noqa: SLF001


def _sizes(operator: Any) -> Callable[..., Any]:
    return _sizes_of_distances if str(operator) == "aten.cdist.default" else _sizes_of_layer


def _sizes_of_distances(torch: Any, otherwise: Any, x: Any, y: Any, *more: Any, **named: Any) -> Any:
    if type(x) is torch.Tensor and type(y) is torch.Tensor:
        return otherwise(x, y, *more, **named)
    outer = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return x.new_empty((*outer, x.shape[-2], y.shape[-2]))


def _sizes_of_layer(torch: Any, otherwise: Any, x: Any, states: Any, *more: Any, **named: Any) -> Any:
    """Results without values of a recurrent layer, unless its input is a constant, which has values."""
    if type(x) is torch.Tensor:
        return otherwise(x, states, *more, **named)
    several = list(states) if isinstance(states, list | tuple) else [states]
    # (parameters, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    directions = 2 if (named["bidirectional"] if "bidirectional" in named else more[5]) else 1
    steps = x.new_empty((*x.shape[:-1], directions * several[0].shape[-1]))
    return (steps, *(each.new_empty(each.shape) for each in several))
