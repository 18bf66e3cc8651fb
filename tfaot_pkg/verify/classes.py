"""Reports of classes of inputs: how the library's answers differ from those that are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.verify.judgement import Difference
from tfaot_pkg.verify.oracle import Tried
from tfaot_pkg.verify.report import ClassReport


def compared(
    tried: Tried, answers: Mapping[str, Mapping[str, Array]], differences: Sequence[Difference]
) -> ClassReport:
    """The report of a class: `answers` by target, and their `differences`."""
    return ClassReport(
        name=tried.name,
        rows=tried.rows,
        elements=sum(int(array.size) for each in answers.values() for array in each.values()),
        refused=sum(int(np.count_nonzero(~ran)) for name, ran in tried.eager.items() if name.endswith("/ran")),
        not_run="",
        differences=tuple(differences),
    )


def not_compared(tried: Tried, reason: str) -> ClassReport:
    """The report of a class that was not run."""
    return ClassReport(name=tried.name, rows=tried.rows, elements=0, refused=0, not_run=reason, differences=())
