"""A built package beside the answers of the live object itself, if validation compared it with another framework."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.live.source import OwnAnswers
from tfaot_pkg.runtime.model import Model


def compared(library: Path, own: OwnAnswers) -> str:
    """A sentence about the largest difference. Raises ModelError if it is too large."""
    found = Model(library, None)(own.x)
    rows, worst = counted(len(own.x), "row"), 0.0
    for name, theirs in own.answers.items():
        ours = np.asarray(found[name], np.float64).reshape(np.shape(theirs))
        scale = max(1.0, float(np.abs(theirs).max(initial=0.0)))
        off = np.abs(ours - theirs) / scale
        # NaN is off as well.
        if not (off <= own.tolerance).all():
            count = counted(int(np.sum(~(off <= own.tolerance).reshape(len(own.x), -1).all(1))), "row")
            raise ModelError(
                f"{name} of the package differs from the answers of {own.framework} itself, in {count} of {len(own.x)}",
                hint="the file that it writes does not compute what its own call gives: train with another objective, "
                "or build from the file if you want its answers",
            )
        worst = max(worst, float(off.max(initial=0.0)))
    return f"{own.framework}'s own answers to {rows} at its thresholds: at most {worst:.1e} off"
