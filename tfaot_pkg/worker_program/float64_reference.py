"""What a run of the model in float64, node by node, tells about its answers: how far off they are, and which rules of
the framework they depend on (messages/open_results.py).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from defined_results import FREEDOMS
from messages.open_results import Observer
from messages.requests import Reference
from messages.unspecified_results import ORDER

if TYPE_CHECKING:
    from framework_types import Array


_SECONDS = 60.0
"""Batches are walked as long as all of them together have taken less of the processor: no verdict depends on what
else the machine does.
"""
_OFF, _SHARE = 1e-2, 0.5
"""A walk is believed if this share of its numbers differs from the answers by less than so much of the largest one."""


class Walks:
    """Walks of a model over its batches."""

    def __init__(self, model: Any, request: Reference) -> None:
        walkable = hasattr(model, "walk") and not request.by_row and not request.counted
        self._walk = model.walk if walkable else None
        self._cannot, self._walked = getattr(model, "not_walked", ()), False
        self._spent = 0.0

    def of(self, feeds: dict[str, Array], answers: dict[str, Array], rows: int) -> dict[str, Array]:
        """Beside the framework's `answers` for a batch: "O/exact" in float64, "O/plain" with no rewritten graph, and
        "O/defined" with defined_results.py in place of its operations, if the batch meets such operands.

        "free/FREEDOM/OPERATION" and "walked" mask its rows. Nothing if the batch cannot be walked.
        """
        if self._walk is None or self._spent > _SECONDS:
            return {}
        start, seen = time.process_time(), Observer(rows)
        try:
            plain = self._walk(feeds, double=False, observe=seen.first)
            exact = self._walk(feeds, double=True, observe=seen.second)
            meets = any(freedom in FREEDOMS for freedom, _ in seen.found)
            defined = self._walk(feeds, double=False, observe=None) if meets else {}
        except self._cannot:
            # Of one batch it may reject values; if the first one cannot be walked, none can.
            self._walk = self._walk if self._walked else None
            return {}
        finally:
            self._spent += time.process_time() - start
        self._walked = True
        if any(plain[name].shape != array.shape or exact[name].shape != array.shape for name, array in answers.items()):
            return {}
        found = {f"free/{freedom}/{operation}": mask for (freedom, operation), mask in seen.found.items()}
        found["walked"] = np.ones(rows, bool)
        for name, array in answers.items():
            if name in defined:
                found[f"{name}/defined"] = defined[name]
            if _near(plain[name], array, _ordered(found, rows)):
                found |= {f"{name}/exact": exact[name], f"{name}/plain": plain[name]}
        return found


def _ordered(found: dict[str, Array], rows: int) -> Array:
    """The rows in which no place of a maximum depends on NaN: elsewhere TensorFlow's optimizer may have moved it."""
    masks = [mask for name, mask in found.items() if name in (f"free/{ORDER}/ArgMax", f"free/{ORDER}/ArgMin")]
    ordered: Array = ~np.any([np.zeros(rows, bool), *masks], axis=0)
    return ordered


def _near(plain: Array, answers: Array, ordered: Array) -> bool:
    """Whether a walk in the graph's own types computes what the framework does: most numbers of rows nearly agree."""
    if answers.ndim and len(answers) == len(ordered):
        plain, answers = plain[ordered], answers[ordered]
    if plain.dtype.kind != "f":
        return bool(np.mean(plain == answers) >= _SHARE) if plain.size else True
    one, two = plain.astype(np.float64), answers.astype(np.float64)
    both = np.isfinite(one) & np.isfinite(two)
    if not both.any():
        return True
    limit = _OFF * np.abs(two[both]).max()
    return bool(np.mean(np.abs(one[both] - two[both]) <= limit) >= _SHARE)
