"""Memory that the kernel library's convolutions work in, in floats."""

from __future__ import annotations

from collections.abc import Mapping

# kRowsAtATime and kFloats of tfaot_kernels/scratch.h: generated code compares both results by a static_assert.
_ROWS_AT_A_TIME = 64
_FLOATS_AT_A_TIME = 16384

_Operation = Mapping[str, int]


def conv2d_scratch(conv: _Operation) -> int:
    """conv2dScratch: a copy of some lines of the input between zeros, if windows see padding."""
    lines, columns = _reach(conv, "height", 1), _reach(conv, "width", conv["out_width"])
    whole = _reach(conv, "height", conv["out_height"])
    inside = columns <= conv["in_width"] and whole <= conv["in_height"]
    if inside and not conv["pad_top"] and not conv["pad_left"]:
        return 0
    most = _FLOATS_AT_A_TIME // (columns * conv["channels"])
    fitting = (most - lines) // conv["stride_height"] + 1 if most > lines else 1
    at_a_time = min(max(fitting, -(-_ROWS_AT_A_TIME // conv["out_width"])), conv["out_height"])
    return ((at_a_time - 1) * conv["stride_height"] + lines) * columns * conv["channels"]


def conv2d_max_pool_scratch(conv: _Operation, pool: _Operation) -> int:
    """conv2dMaxPoolScratch: that, and the lines of the convolution that wait for their pooling."""
    at_a_time = min(1 + _ROWS_AT_A_TIME // (pool["stride_height"] * conv["out_width"]), pool["out_height"])
    return conv2d_scratch(conv) + _reach(pool, "height", at_a_time) * conv["out_width"] * conv["filters"]


def _reach(operation: _Operation, axis: str, windows: int) -> int:
    """Elements along an axis that `windows` successive windows cover."""
    kernel = (operation[axis] - 1) * operation[f"dilation_{axis}"] + 1
    return (windows - 1) * operation[f"stride_{axis}"] + kernel
