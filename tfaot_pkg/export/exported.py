"""Programs of torch.export, in core operators."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
from collections.abc import Iterator
from typing import Any

from .axes import Axes, Limits, at_least_two
from .errors import ExportError, said
from .known_buffers import known_buffers

_MOST = 1 << 31
"""What the sizes of unlimited axes are below, for releases that name the largest integer as a size that they may not be
(2.6, 2.7)."""
_LARGEST_INTEGER = str((1 << 63) - 1)


def exported(torch: Any, model: Any, names: list[str], examples: list[Any], axes: list[Axes], limits: Limits) -> Any:
    given = tuple(at_least_two(examples, axes))
    try:
        with _quiet():
            return _by_torch(torch, model, given, axes, limits)
    except Exception as error:
        # It runs the author's code with tensors without numbers; both raise whatever they like.
        given_axes = ", ".join(f"{name}={','.join(map(str, each))}" for name, each in zip(names, axes, strict=True))
        raise ExportError(
            f"torch.export does not take the model: {said(error)}\n(inputs: {given_axes}; write a number for an axis "
            "that cannot vary, or export torch.jit.trace(model, inputs) or what torch.onnx.export(..., dynamo=False) "
            "writes)"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch prints, or logs, the program up to the fault, hundreds of lines, also if another attempt is made."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def _by_torch(torch: Any, model: Any, examples: tuple[Any, ...], axes: list[Axes], limits: Limits) -> Any:
    options = {"dynamic_shapes": _dynamic(torch, axes, limits, None), "strict": False}
    try:
        return torch.export.export(model, examples, **options)
    except Exception as error:  # noqa: BLE001  # raised below, if no other attempt helps
        first = error
    # The text tells: releases raise several private types for it.
    if "data-dependent" in str(first):
        with contextlib.suppress(Exception), known_buffers(torch, model):
            return torch.export.export(model, examples, **options)
    if not any(each in str(first) for each in ("Constraints violated", "Specializations unexpectedly required")):
        raise first
    deferred, attempts = "prefer_deferred_runtime_asserts_over_guards", []
    if _LARGEST_INTEGER in str(first):
        options["dynamic_shapes"] = _dynamic(torch, axes, limits, _MOST)
        attempts.append(options)
    elif deferred in inspect.signature(torch.export.export).parameters:
        # Conditions that hold at all sizes, which PyTorch cannot see, become assertions.
        attempts.append({**options, deferred: True})
    # Python's own functions, such as len(x), give numbers; what reads the bytecode sees sizes there, too.
    attempts.append({**options, "strict": True})
    for each in attempts:
        with contextlib.suppress(Exception):  # the author's code raises whatever it likes; the first error tells most
            made = torch.export.export(model, examples, **each)
            # A constant without values cannot be stored.
            if not any(type(constant).__name__ == "FakeTensor" for constant in made.constants.values()):
                return made
    raise first


def _dynamic(torch: Any, axes: list[Axes], limits: Limits, unlimited: int | None) -> tuple[dict[int, Any], ...]:
    """The axes of each input that vary, as torch.export takes them."""
    dims: dict[str, Any] = {}
    for name in dict.fromkeys(axis for each in axes for axis in each if isinstance(axis, str)):
        least, most = limits.get(name, (1, None))
        most = most or unlimited
        dims[name] = torch.export.Dim(name, **({"min": least} if least > 1 else {}), **({"max": most} if most else {}))
    return tuple({place: dims[axis] for place, axis in enumerate(each) if isinstance(axis, str)} for each in axes)


_WHOLE = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d avg_pool1d bucketize.Tensor cdist celu elu embedding_bag.padding_idx gelu glu grid_sampler
    group_norm gru.input hardshrink hardsigmoid hardswish hardtanh index_add instance_norm layer_norm leaky_relu linear
    linalg_vector_norm log_sigmoid log_softmax.int logsumexp lstm.input matmul max_pool1d max_pool2d max_pool3d mish
    pad prelu relu6 rms_norm rnn_relu.input rnn_tanh.input scaled_dot_product_attention searchsorted.Tensor selu silu
    softmax.int softplus softshrink threshold upsample_bicubic2d.vec upsample_bilinear2d.vec upsample_linear1d.vec
    upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec upsample_trilinear3d.vec
""".split()
"""Operators that are not decomposed: tfaot-pkg has layers for them, or they would become hundreds of others."""


def decomposed(torch: Any, program: Any) -> Any:
    if not hasattr(torch.export, "default_decompositions"):
        raise ExportError(f"this is PyTorch {torch.__version__}: .aten files need 2.6 or newer; write an .onnx file")
    table = torch.export.default_decompositions()
    for name in _WHOLE:
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if operator is not None:
            table.pop(operator, None)
    try:
        return program.run_decompositions(table)
    except Exception as error:
        # It runs all operators with tensors without numbers; one without a rule for these raises whatever it likes.
        raise ExportError(f"PyTorch cannot write the model in its core operators: {said(error)}") from error
