"""The validation report: how far the library's answers are from TensorFlow's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One output at one batch size on one target.

    `max_absolute` and `max_relative` are the largest |ours - theirs| and |ours - theirs| / |theirs| over all elements
    that are finite on both sides (0 where theirs is 0 and ours as well); `failures` counts elements beyond
    atol + rtol * |theirs|, among `elements`; NaN agrees with NaN, and an infinity with the same infinity.
    """

    target: str
    batch_size: int
    output: str
    elements: int
    failures: int
    max_absolute: float
    max_relative: float

    def as_dict(self) -> dict[str, object]:
        return {
            "target": self.target,
            "batch_size": self.batch_size,
            "output": self.output,
            "elements": self.elements,
            "failures": self.failures,
            "max_absolute": self.max_absolute,
            "max_relative": self.max_relative,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """All comparisons. `not_run` names targets that the validating machine could not run, `warnings` what compiled code
    does differently without saying so.
    """

    toolchain: str
    inputs: Mapping[str, object]
    rtol: float
    atol: float
    comparisons: tuple[Comparison, ...]
    not_run: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def failed(self) -> tuple[Comparison, ...]:
        return tuple(comparison for comparison in self.comparisons if comparison.failures)

    @property
    def max_absolute(self) -> float:
        return max((comparison.max_absolute for comparison in self.comparisons), default=0.0)

    @property
    def max_relative(self) -> float:
        return max((comparison.max_relative for comparison in self.comparisons), default=0.0)

    def as_dict(self) -> dict[str, object]:
        return {
            "format": _FORMAT,
            "passed": not self.failed,
            "reference": self.toolchain,
            "inputs": dict(self.inputs),
            "rtol": self.rtol,
            "atol": self.atol,
            "max_absolute": self.max_absolute,
            "max_relative": self.max_relative,
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
            "not_run": list(self.not_run),
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ValidationReport:
        return cls(
            toolchain=data["reference"],
            inputs=data["inputs"],
            rtol=data["rtol"],
            atol=data["atol"],
            comparisons=tuple(Comparison(**item) for item in data["comparisons"]),
            not_run=tuple(data["not_run"]),
            warnings=tuple(data["warnings"]),
        )


def compare(
    ours: Array, theirs: Array, *, target: str, batch_size: int, output: str, rtol: float, atol: float
) -> Comparison:
    """Compare two arrays of one shape and dtype; integers and booleans must be equal."""
    if theirs.dtype.kind != "f":
        agree = ours == theirs
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        # Large integers that differ may be the same as floats.
        difference = np.where(agree, 0.0, np.maximum(np.abs(ours - theirs), 1.0))
        theirs_size = np.abs(theirs)
    else:
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        finite = np.isfinite(ours) & np.isfinite(theirs)
        difference = np.where(finite, np.abs(np.where(finite, ours, 0) - np.where(finite, theirs, 0)), 0.0)
        theirs_size = np.where(finite, np.abs(theirs), 0.0)
        agree = same | (finite & (difference <= atol + rtol * theirs_size))
    relative = np.divide(difference, theirs_size, out=np.zeros_like(difference), where=theirs_size > 0)
    return Comparison(
        target=target,
        batch_size=batch_size,
        output=output,
        elements=int(ours.size),
        failures=int(np.count_nonzero(~agree)),
        max_absolute=float(difference.max(initial=0.0)),
        max_relative=float(relative.max(initial=0.0)),
    )
