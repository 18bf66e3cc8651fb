"""`torch.linspace` of so many numbers as an axis has."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def spaced_numbers(torch: Any) -> Iterator[None]:
    """In the block, `torch.linspace` takes sizes that vary: PyTorch's own operator takes whole numbers alone, and so
    would make a constant of the axis.
    """
    own = torch.linspace
    torch.linspace = functools.partial(_spaced, torch, own)
    try:
        yield
    finally:
        torch.linspace = own


def _spaced(torch: Any, own: Any, start: Any, end: Any, steps: Any, **named: Any) -> Any:
    dtype = named.get("dtype") or torch.get_default_dtype()
    if not isinstance(steps, torch.SymInt) or not dtype.is_floating_point or named.get("out") is not None:
        return own(start, end, steps, **named)
    place = torch.arange(steps, dtype=dtype, device=named.get("device"))
    last = torch.full_like(place, steps - 1)
    step = (end - start) / last.clamp(min=1)
    # As the kernel for CPUs: each half from its own end, so that both ends are exact. Of one number, it is the first.
    return torch.where((2 * place < last) | (place == 0), start + step * place, end - step * (last - place))
