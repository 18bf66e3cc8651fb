"""Sizes and ends of ranges as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any


def end_of(value: Any, sizes: Mapping[str, int]) -> float:
    """A number, or a size and what is added to it, as `Answerer` has checked."""
    if not isinstance(value, str):
        return float(value)
    name, sign, more = re.fullmatch(r"(\w+)\s*(?:([+-])\s*(\d+))?", value).groups()  # type: ignore[union-attr]
    return sizes[str(name)] + int(f"{sign}{more}" if sign else 0)


def size_of(sizes: Mapping[str, int], size: Any) -> int | None:
    """A size of the document's form; None if it is not known."""
    if size is None or isinstance(size, int):
        return size
    return sum(int(coefficient) * math.prod(sizes[name] for name in names) for coefficient, names in size)
