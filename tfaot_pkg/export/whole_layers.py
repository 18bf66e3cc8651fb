"""Recurrent layers that torch.export takes whole."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def whole_layers(torch: Any) -> Iterator[None]:
    """In the block, recurrent layers have sizes alone.

    PyTorch would run them step by step to know these, and so take the number of steps for a constant.
    """
    names = (("lstm", "input"), ("gru", "input"), ("rnn_tanh", "input"), ("rnn_relu", "input"))
    operators = [getattr(getattr(torch.ops.aten, name), overload) for name, overload in names]
    replaced = ("DispatchKey.CompositeImplicitAutograd", "DispatchKey.Autograd")
    before = [dict(each.py_kernels) for each in operators]
    table = torch._decomp.decomposition_table  # noqa: SLF001  # which sizes are computed with, too
    functions = {each: table[each] for each in operators if each in table}
    try:
        for each, function in functions.items():
            table[each] = functools.partial(_sizes_of_layer, torch, function)
        for each, kernels in zip(operators, before, strict=True):
            for key in kernels:
                if str(key) in replaced:
                    each.py_kernels[key] = functools.partial(_sizes_of_layer, torch, kernels[key])
            each._dispatch_cache.clear()  # noqa: SLF001  # PyTorch has no public way
        yield
    finally:
        table.update(functions)
        for each, kernels in zip(operators, before, strict=True):
            each.py_kernels.clear()
            each.py_kernels.update(kernels)
            each._dispatch_cache.clear()  # noqa: SLF001


def _sizes_of_layer(torch: Any, otherwise: Any, x: Any, states: Any, *more: Any, **named: Any) -> Any:
    """Results without values of a recurrent layer, unless its input is a constant, which has values."""
    if type(x) is torch.Tensor:
        return otherwise(x, states, *more, **named)
    several = list(states) if isinstance(states, list | tuple) else [states]
    # (parameters, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    directions = 2 if (named["bidirectional"] if "bidirectional" in named else more[5]) else 1
    steps = x.new_empty((*x.shape[:-1], directions * several[0].shape[-1]))
    return (steps, *(each.new_empty(each.shape) for each in several))
