"""What a run of the model in float64, node by node, tells about its answers: how far off they are, and which rules of
the framework they depend on (messages/open_results.py).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from defined_results import FREEDOMS
from messages.open_results import Observer
from messages.requests import Reference
from messages.unspecified_results import OPERATIONS, ORDER, QUANTIZED, STEP

if TYPE_CHECKING:
    from framework_types import Array


_SECONDS = 60.0
"""Batches are walked as long as all of them together have taken less of the processor: no verdict depends on what
else the machine does.
"""
_OFF, _SHARE = 1e-2, 0.5
"""A walk is believed if this share of its numbers differs from the answers by less than so much of the largest one."""
_STEPS = 4 / 256
"""Or of the range of all answers, if bytes in the batch are nearly at a step (verify/rules.py): one that is decided
otherwise moves all numbers of a deep network, by some steps.
"""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Three runs of a batch, by output, and the rows that meet operands of a freedom. `defined` may be empty."""

    plain: dict[str, Array]
    exact: dict[str, Array]
    defined: dict[str, Array]
    masks: dict[tuple[str, str], Array]


class Walks:
    """Walks of a model over its batches."""

    def __init__(self, model: Any, request: Reference) -> None:
        self._walk = model.walk if hasattr(model, "walk") and not request.counted else None
        self._cannot, self._walked = getattr(model, "not_walked", ()), False
        self._request, self._spent = request, 0.0

    def of(self, feeds: dict[str, Array], answers: dict[str, Array], rows: int) -> dict[str, Array]:
        """Beside the framework's `answers` for a batch: "O/exact" in float64, "O/plain" with no rewritten graph, and
        "O/defined" with defined_results.py in place of its operations, if the batch meets such operands.

        "free/FREEDOM/OPERATION" and "walked" mask its rows. Nothing if the batch cannot be walked.
        """
        if self._walk is None or self._spent > _SECONDS:
            return {}
        start = time.process_time()
        try:
            seen = self._by_row(feeds, rows) if self._request.by_row else self._seen(feeds, rows)
        except self._cannot:
            # Of one batch it may reject values; if the first one cannot be walked, none can.
            self._walk = self._walk if self._walked else None
            return {}
        finally:
            self._spent += time.process_time() - start
        self._walked = True
        for name, array in answers.items():
            if seen.plain[name].shape != array.shape or seen.exact[name].shape != array.shape:
                return {}
        found = {f"free/{freedom}/{operation}": mask for (freedom, operation), mask in seen.masks.items()}
        found["walked"] = np.ones(rows, bool)
        steps = any(freedom == STEP and operation in OPERATIONS[QUANTIZED] for freedom, operation in seen.masks)
        for name, array in answers.items():
            if name in seen.defined:
                found[f"{name}/defined"] = seen.defined[name]
            if _near(seen.plain[name], array, _ordered(found, rows), steps=steps):
                found |= {f"{name}/exact": seen.exact[name], f"{name}/plain": seen.plain[name]}
        return found

    def _seen(self, feeds: dict[str, Array], rows: int) -> _Seen:
        assert self._walk is not None
        observer = Observer(rows)
        plain = self._walk(feeds, double=False, observe=observer.first)
        exact = self._walk(feeds, double=True, observe=observer.second)
        meets = any(freedom in FREEDOMS for freedom, _ in observer.found)
        defined = self._walk(feeds, double=False, observe=None) if meets else {}
        return _Seen(plain, exact, defined, observer.found)

    def _by_row(self, feeds: dict[str, Array], rows: int) -> _Seen:
        """A batch of which the framework computes one row at a time."""
        batched, parts = self._request.batched, []
        for row in range(rows):
            one = {name: each[row : row + 1] if name in batched else each for name, each in feeds.items()}
            parts.append(self._seen(one, 1))
        freedoms = dict.fromkeys(freedom for part in parts for freedom in part.masks)
        nothing = np.zeros(1, bool)
        return _Seen(
            self._joined([part.plain for part in parts]),
            self._joined([part.exact for part in parts]),
            self._joined([part.defined or part.plain for part in parts]) if any(p.defined for p in parts) else {},
            {each: np.concatenate([part.masks.get(each, nothing) for part in parts]) for each in freedoms},
        )

    def _joined(self, parts: list[dict[str, Array]]) -> dict[str, Array]:
        # Outputs without a batch axis are those of the first row, as in reference.py.
        return {
            name: np.concatenate([part[name] for part in parts]) if name in self._request.stacked else first
            for name, first in parts[0].items()
        }


def _ordered(found: dict[str, Array], rows: int) -> Array:
    """The rows in which no place of a maximum depends on NaN: elsewhere TensorFlow's optimizer may have moved it."""
    masks = [mask for name, mask in found.items() if name in (f"free/{ORDER}/ArgMax", f"free/{ORDER}/ArgMin")]
    ordered: Array = ~np.any([np.zeros(rows, bool), *masks], axis=0)
    return ordered


def _near(plain: Array, answers: Array, ordered: Array, *, steps: bool) -> bool:
    """Whether a walk in the graph's own types computes what the framework does: most numbers of rows nearly agree.

    `steps` says whether bytes in it are nearly at a step.
    """
    if answers.ndim and len(answers) == len(ordered):
        plain, answers = plain[ordered], answers[ordered]
    if plain.dtype.kind != "f":
        return bool(np.mean(plain == answers) >= _SHARE) if plain.size else True
    one, two = plain.astype(np.float64), answers.astype(np.float64)
    both = np.isfinite(one) & np.isfinite(two)
    if not both.any():
        return True
    limit = max(_OFF * np.abs(two[both]).max(), _STEPS * np.ptp(two[both]) if steps else 0.0)
    return bool(np.mean(np.abs(one[both] - two[both]) <= limit) >= _SHARE)
