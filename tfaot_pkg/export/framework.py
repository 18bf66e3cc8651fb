"""PyTorch as it is installed here."""

from __future__ import annotations

import contextlib
import importlib
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from .errors import ExportError

_OLDEST = (2, 5)


def pytorch(packages: Sequence[str] = ()) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ExportError("PyTorch is not installed here: run this where the model works") from error
    if version_of(torch) < _OLDEST:
        raise ExportError(f"this is PyTorch {torch.__version__}: 2.5 is the oldest that is known to work")
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ExportError(f"PyTorch needs {package} for this: pip install onnx onnxscript") from error
    return torch


def version_of(torch: Any) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))


@contextlib.contextmanager
def evaluating(torch: Any, model: Any) -> Iterator[None]:
    """Run the block without gradients and warnings, and with the module in evaluation mode.

    Attention runs as its code says: PyTorch's fast path gives NaN for a row whose keys are all masked, and the program
    zeros. Distributions take any parameters: their checks branch on numbers, which no program does.
    """
    was_training, mha = getattr(model, "training", False), torch.backends.mha
    was_fast, distribution = mha.get_fastpath_enabled(), torch.distributions.Distribution
    was_checked = distribution._validate_args  # noqa: SLF001  # PyTorch has no public way
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if was_training:
            try:
                model.eval()
            except NotImplementedError:  # of torch.export, which made it in one mode
                was_training = False
        if was_fast:
            mha.set_fastpath_enabled(False)
        distribution.set_default_validate_args(False)
        try:
            yield
        finally:
            distribution.set_default_validate_args(was_checked)
            if was_fast:
                mha.set_fastpath_enabled(True)
            if was_training:
                model.train()


def dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
