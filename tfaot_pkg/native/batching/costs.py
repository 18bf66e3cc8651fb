"""The costs of one run of each compiled batch size on each target: from the tuning file, else by a formula.

Pure and deterministic: the costs are part of libraries. They decide how a batch of another size is composed, so only
their ratios within a target matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tfaot_pkg.analysis.program.work import Work
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import TARGETS, Target
from tfaot_pkg.spec.types import Tuning

_CALL = 50.0  # nanoseconds: entering the compiled code, binding buffers
_BANDWIDTH = 32.0  # bytes per nanosecond, between a core and its caches
_RATE = 4.0  # operations per nanosecond and element of a vector register
_CONSTANT_BYTES = 4  # of one element, which one operation reads


def batch_costs(
    batch_sizes: Sequence[int], target: Target, *, work: Work, signature: Signature, tuning: Tuning | None
) -> list[float]:
    """Nanoseconds of one run at each of `batch_sizes` for `target`.

    Sizes that `tuning` names have the cost measured. Others have their estimate, times measured over estimated cost at
    the sizes named: this ratio is interpolated over the logarithm of the size, and held beyond the first and last one.
    For a target that `tuning` does not name, all sizes are so scaled, with the ratios of the nearest level of the same
    architecture that it names. Without any, costs are the estimates.
    """
    estimates = [estimated_cost(size, target, work=work, signature=signature) for size in batch_sizes]
    nearest = _nearest(target, tuning.batch_costs if tuning is not None else {})
    if tuning is None or nearest is None:
        return estimates
    measured = tuning.batch_costs[nearest.name]
    sizes = sorted(measured)
    ratios = [measured[n] / estimated_cost(n, nearest, work=work, signature=signature) for n in sizes]
    scales = np.interp(np.log2(batch_sizes), np.log2(sizes), ratios)
    known = measured if nearest == target else {}
    return [
        known.get(size, _rounded(estimate * float(scale)))
        for size, estimate, scale in zip(batch_sizes, estimates, scales, strict=True)
    ]


def estimated_cost(batch_size: int, target: Target, *, work: Work, signature: Signature) -> float:
    """Nanoseconds of one run, estimated from the model's operations and the bytes that it reads and writes.

    The roofline model (Williams, Waterman, Patterson, CACM 52, 2009) and a time per call: a run takes as long as its
    operations do at the peak rate, or as constants, inputs and outputs need to reach the core, whichever is longer.
    Constants count as far as operations can read them, one element each: rows of a table that are not looked up are
    not read. The rates are round numbers, such that the estimates for the sample models and for products with 1 to 12
    MB of weights were within a factor of 5 of what an x86-64 server took. They are not properties of any machine: if
    it matters, measure (`tfaot-pkg tune`).
    """
    operations = work.operations_per_call + work.operations_per_row * batch_size
    constants = min(work.constant_bytes, operations * _CONSTANT_BYTES)
    tensors = sum(tensor.nbytes_at(batch_size) for tensor in (*signature.inputs, *signature.outputs))
    return _rounded(_CALL + max((constants + tensors) / _BANDWIDTH, operations / (_RATE * _lanes(target))))


def _rounded(nanoseconds: float) -> float:
    """Round to six digits: further digits may differ between CPUs, and costs are part of libraries."""
    return float(f"{nanoseconds:.6g}")


def _lanes(target: Target) -> int:
    """Elements of four bytes in a vector register."""
    if "avx512f" in target.features:
        return 16
    return 8 if "avx2" in target.features else 4


def _nearest(target: Target, rows: Mapping[str, Mapping[int, float]]) -> Target | None:
    """The target with measurements whose level is nearest to that of `target`, the lower one of two."""
    named = [TARGETS[name] for name, row in rows.items() if row and TARGETS[name].architecture == target.architecture]
    return min(named, key=lambda each: (abs(each.level - target.level), each.level), default=None)
