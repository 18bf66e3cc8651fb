"""Modules of PyTorch, exported as `tfaot_pkg.export` does it in the author's environment: here, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import ModelError
from tfaot_pkg.export import ExportError, export
from tfaot_pkg.live.content import content_of
from tfaot_pkg.live.source import LiveSource

_OPTIONS = ("shapes", "dynamic", "outputs", "ranges", "batches")


def source_of(net: Any, example: Any, options: dict[str, Any]) -> LiveSource | None:
    import torch

    from tfaot_pkg.export.ends import inputs_of

    if not isinstance(net, torch.nn.Module | torch.export.ExportedProgram):
        return None
    if example is None:
        raise ModelError(
            "a module of PyTorch needs an example of its inputs",
            hint="compile(net, example): a tensor or an array of a few rows, or a tuple of them",
        )
    given = {name: options.pop(name) for name in _OPTIONS if name in options}
    inputs = _tensors(torch, example)
    try:
        order = tuple(inputs_of(torch, net, inputs)[0])
    except ExportError as error:
        raise ModelError(str(error)) from error
    return LiveSource(
        framework=f"PyTorch {torch.__version__}",
        content=[content_of(net, inputs, given)],
        write=partial(_written, net, inputs, given, torch),
        order=order,
    )


def _tensors(torch: Any, example: Any) -> Any:
    def tensor(value: Any) -> Any:
        return value if torch.is_tensor(value) else torch.as_tensor(value)

    if isinstance(example, Mapping):
        return {name: tensor(value) for name, value in example.items()}
    return tuple(map(tensor, example)) if isinstance(example, tuple | list) else tensor(example)


def _written(net: Any, inputs: Any, given: Mapping[str, Any], torch: Any, folder: Path) -> Path:
    # What torch.jit wrote has no program of torch.export.
    suffix = "onnx" if isinstance(net, torch.jit.ScriptModule) else "aten"
    try:
        return export(net, inputs, folder / f"model.{suffix}", **given)
    except ExportError as error:
        raise ModelError(str(error)) from error
