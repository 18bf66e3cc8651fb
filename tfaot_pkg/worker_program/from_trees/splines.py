"""scikit-learn's SplineTransformer, as steps: in each interval between two knots, each spline is a polynomial."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.lookups import lookup
from from_trees.steps import Steps, Table, made
from messages.requests import ModelFault

if TYPE_CHECKING:
    from framework_types import Array

_MOST_DEGREE, _MOST_NUMBERS = 30, 1 << 22


def splines(to: Steps, model: Any, table: Table) -> Table:
    if len(model.bsplines_) != table.width:
        raise ValueError("its splines do not fit the columns")
    to.is_rounded = True
    parts = []
    for place, spline in enumerate(model.bsplines_):
        count = _require_fit(spline, model.degree)
        kept = [*range(count if model.include_bias else count - 1)]
        parts.append(to.part(made(_column(to, model, table, place, spline, count), count), kept))
    return to.beside(parts)


def _require_fit(spline: Any, degree: Any) -> int:
    """The number of splines. SciPy follows the knots without checks."""
    knots, factors = np.asarray(spline.t), np.asarray(spline.c)
    if type(degree) is not int or spline.k != degree or not 0 <= degree <= _MOST_DEGREE or spline.axis != 0:
        raise ValueError("a spline has another degree")
    if not (knots.dtype == factors.dtype == np.float64 and knots.ndim == 1 and factors.ndim == 2):
        raise ValueError("the knots of a spline are no numbers")
    if len(knots) != len(factors) + degree + 1 or factors.shape[1] < 1 or factors.size * degree > _MOST_NUMBERS:
        raise ValueError("the knots of a spline do not fit its factors")
    if not (np.isfinite(factors).all() and np.isfinite(knots).all() and (np.diff(knots) >= 0).all()):
        raise ValueError("the knots of a spline do not rise")
    # Their splines are quotients by zero.
    if (np.diff(knots) == 0).any():
        raise ModelFault(
            "SplineTransformer with equal knots is not supported",
            'a column has fewer values than knots: leave it out, or set knots="uniform" if it is not constant',
        )
    return int(factors.shape[1])


def _column(to: Steps, model: Any, table: Table, place: int, spline: Any, count: int) -> str:
    """[batch, splines] of one column."""
    degree = spline.k
    known = np.asarray(spline.t)[degree : len(spline.t) - degree]
    first, last = float(known[0]), float(known[-1])
    to.expect(to.part(table, [place]), (first + last) / 2, (last - first) / 3)
    value = to.columns_of(table.value, [place])
    if model.extrapolation == "periodic":
        # As NumPy's remainder, which has the sign of the divisor.
        rest = to.op("Mod", to.op("Sub", value, first), last - first, fmod=1)
        rest = to.op("Where", to.op("Less", rest, 0.0), to.op("Add", rest, last - first), rest)
        value = to.op("Add", rest, first)
    rows = _polynomials(model, spline, known, count)
    found = lookup(to, made(value, 1), 0, known, rows)
    off = to.op("Sub", value, to.columns_of(found, [0]))
    powers = [to.columns_of(found, range(1 + each, 1 + each + count)) for each in range(0, rows.shape[1] - 1, count)]
    result = powers[-1]
    for each in reversed(powers[:-1]):
        result = to.op("Add", to.op("Mul", result, off), each)
    if getattr(model, "handle_missing", "error") == "zeros":
        result = to.op("Where", to.op("IsNaN", value), 0.0, result)
    return result


def _polynomials(model: Any, spline: Any, known: Array, count: int) -> Array:
    """Rows for lookup: where an interval starts, and for each power the factors of all splines."""
    starts = known[:-1]
    powers = max(spline.k, 1) + 1
    factors = np.zeros((powers, len(starts), count))
    for power in range(spline.k + 1):
        factors[power] = spline(starts, nu=power) / math.factorial(power)
    inside = np.concatenate([starts[:, None], factors.transpose(1, 0, 2).reshape(len(starts), -1)], 1)
    below, beyond = inside[:1], inside[-1:]
    if model.extrapolation in ("constant", "linear"):
        ends = []
        for end in (known[0], known[-1]):
            row = np.zeros((powers, count))
            row[0] = spline(end)
            if model.extrapolation == "linear":
                row[1] = spline(end, nu=1)
            ends.append(np.concatenate([[end], row.ravel()])[None])
        below, beyond = ends
    # Below all knots, then at each and behind it; the last knot belongs to the interval before it.
    return np.concatenate([below, np.repeat(inside, 2, axis=0), inside[-1:], beyond])
