"""Draws inputs of all classes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from .drawn_numbers import beyond, floats_of
from .errors import ExportError
from .sizes import end_of, size_of

_FLOATS = ("scaled", "large", "huge", "subnormal", "boundary", "nonfinite")
INTEGERS, NEGATIVE, MAIN = "integers", "integers negative", "main"


class Drawing:
    """Draws the inputs of `document`, by the rules of tfaot_pkg/verify/inputs.py.

    `examples` are those of the author, `index_sizes` how many elements inputs may name, `ranges` what the author states
    of inputs, and `largest` the sizes of symbols. `way` is how: "usual", only "positive" floats, or "rows" of the
    examples.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        examples: Mapping[str, Any],
        index_sizes: Mapping[str, Any],
        ranges: Mapping[str, Any],
        largest: Mapping[str, int],
    ) -> None:
        import numpy as np

        self._np, self._inputs, self._examples, self._largest = np, document["inputs"], examples, largest
        self._found = {name: (0, size) for name, size in index_sizes.items()}
        self._stated = {name: self._checked(name, pair) for name, pair in ranges.items()}
        self.way = "usual"

    def names(self) -> list[str]:
        """The classes of inputs that the model can have, beside the main one."""
        kinds = {each["dtype"].startswith("float") for each in self._inputs if each["dtype"] != "bool"}
        names = [*(_FLOATS if True in kinds else ()), *([INTEGERS] if False in kinds else [])]
        indices = any(each["name"] in self._found and each["dtype"].startswith("int") for each in self._inputs)
        return [*names, *([NEGATIVE] if indices else [])]

    def drawn(self, name: str, sizes: Mapping[str, int], rows: int) -> dict[str, Any]:
        """Inputs of the class `name` by their names."""
        return {each["name"]: self._draw(name, each, sizes, rows) for each in self._inputs}

    def _checked(self, name: str, pair: Any) -> tuple[Any, Any]:
        known = [each["name"] for each in self._inputs]
        if name not in known:
            raise ExportError(f"there is no input {name!r}; there are: {', '.join(known)}")
        if isinstance(pair, str) or len(pair) != 2:
            raise ExportError(f'the range of {name} is {pair!r}, in place of two numbers or sizes: (0, "n-1")')
        for end in pair:
            match = re.fullmatch(r"([A-Za-z_]\w*)\s*(?:[+-]\s*\d+)?", end) if isinstance(end, str) else None
            is_known = match is not None and match[1] in self._largest if isinstance(end, str) else math.isfinite(end)
            if not is_known:
                raise ExportError(f"the range of {name}: {end!r} is neither a number nor a size such as n-1")
        low, high = pair
        return low, high

    def _ends(self, name: str, sizes: Mapping[str, int]) -> tuple[float, float] | None:
        if name in self._stated:
            low, high = (end_of(each, sizes) for each in self._stated[name])
            return low, max(low, high)
        if name not in self._found:
            return None
        many = size_of({"batch": 1, **sizes}, self._found[name][1])
        return 0, max(0, (many or 1) - 1)

    def _draw(self, name: str, given: Mapping[str, Any], sizes: Mapping[str, int], rows: int) -> Any:
        np = self._np
        generator = np.random.default_rng([0, *f"{name} {given['name']}".encode()])
        shape = [rows if axis == "batch" else sizes.get(axis, axis) for axis in given["axes"]]
        dtype, ends = np.dtype(given["dtype"]), self._ends(given["name"], sizes)
        if dtype.kind == "b":
            return self._like_examples(given, shape) if self.way == "rows" else generator.integers(0, 2, shape) > 0
        if dtype.kind == "f":
            return self._floats(name, given, generator, shape, ends)
        usual = self._whole(given, generator, shape, ends)
        if name == NEGATIVE and ends is not None and given["name"] in self._found and dtype.kind == "i":
            return generator.integers(-int(ends[1]) - 1, int(ends[1]) + 1, shape).astype(dtype)
        if name != INTEGERS:
            return usual
        limits = np.iinfo(dtype)
        numbers = (limits.min, limits.min + 1, -1, 0, 1, 2, 7, 100, limits.max - 1, limits.max)
        special = generator.choice(np.array([n for n in numbers if limits.min <= n <= limits.max], dtype), shape)
        if ends is not None:
            special = np.where(generator.random(shape) < 0.5, beyond(np, generator, ends, dtype, shape), special)
        if given["axes"][:1] != ["batch"]:
            return np.where(generator.random(shape) < 0.4, special, usual)
        # Every second row has usual numbers.
        even = (np.arange(rows) % 2 == 0).reshape(-1, *[1] * (len(shape) - 1))
        return np.where(even, usual, special)

    def _floats(self, name: str, given: Mapping[str, Any], generator: Any, shape: list[int], ends: Any) -> Any:
        np, dtype = self._np, self._np.dtype(given["dtype"])
        if self.way == "rows" and name == MAIN:
            return self._like_examples(given, shape)
        if given["name"] in self._stated:
            if name in (MAIN, INTEGERS, NEGATIVE):
                return generator.uniform(*ends, shape).astype(dtype)
        elif ends is not None:  # floats that become indices
            return generator.integers(int(ends[0]), int(ends[1]) + 1, shape).astype(dtype)
        found = floats_of(name, generator, shape, dtype)
        return np.abs(found) if self.way == "positive" else found

    def _whole(self, given: Mapping[str, Any], generator: Any, shape: list[int], ends: Any) -> Any:
        dtype = self._np.dtype(given["dtype"])
        if self.way == "rows" and given["name"] not in self._stated:
            return self._like_examples(given, shape)
        if ends is not None:
            limits = self._np.iinfo(dtype)
            low, high = max(int(ends[0]), limits.min), min(int(ends[1]), limits.max)
            return generator.integers(low, high, shape, dtype=dtype, endpoint=True)
        known = self._examples[given["name"]]
        return generator.choice(known.ravel(), shape) if known.size else generator.integers(0, 2, shape).astype(dtype)

    def _like_examples(self, given: Mapping[str, Any], shape: list[int]) -> Any:
        """The example, cut or again and again along each axis."""
        np, found = self._np, self._examples[given["name"]]
        if not all(found.shape):
            return np.zeros(shape, found.dtype)
        for axis, size in enumerate(shape):
            found = np.take(found, np.arange(size) % found.shape[axis], axis)
        return found
