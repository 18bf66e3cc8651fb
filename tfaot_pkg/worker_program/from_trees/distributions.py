"""scikit-learn's transformers that change the distribution of columns: PowerTransformer and QuantileTransformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.lookups import lookup
from from_trees.steps import Steps, Table, made
from messages.requests import ModelFault

if TYPE_CHECKING:
    from framework_types import Array


def log1p(to: Steps, value: str) -> str:
    """log(1 + x) without the rounding of 1 + x, which is undone by the quotient (W. Kahan)."""
    more = to.op("Add", value, 1.0)
    # The quotient is close to 1: products of the numerator overflow.
    exact = to.op("Mul", to.op("Log", more), to.op("Div", value, to.op("Sub", more, 1.0)))
    is_same = to.op("Or", to.op("Equal", more, 1.0), to.op("Equal", more, np.inf))
    return to.op("Where", is_same, value, exact)


def expm1(to: Steps, value: str) -> str:
    """exp(x) - 1 without cancellation, likewise."""
    power = to.op("Exp", value)
    less = to.op("Sub", power, 1.0)
    exact = to.op("Mul", less, to.op("Div", value, to.op("Log", power)))
    near = to.op("Where", to.op("Equal", power, 1.0), value, exact)
    # Where exp(x) is next to zero, or infinite, there is nothing to undo.
    is_far = to.op("Or", to.op("Equal", less, -1.0), to.op("IsInf", power))
    return to.op("Where", is_far, less, near)


# -- powers ------------------------------------------------------------------------------------------------------


def power(to: Steps, model: Any, table: Table) -> Table:
    powers = np.asarray(model.lambdas_, np.float64)
    to.is_rounded = True
    value = (_yeo_johnson if model.method == "yeo-johnson" else _box_cox)(to, table, powers)
    if not model.standardize:
        return made(value, table.width)
    scaler = model._scaler
    return made(to.op("Div", to.op("Sub", value, scaler.mean_), scaler.scale_), table.width)


def _yeo_johnson(to: Steps, table: Table, powers: Array) -> str:
    # As scipy.stats.yeojohnson. NaN goes with the negative numbers, and stays NaN.
    is_positive = to.op("GreaterOrEqual", table.value, 0.0)
    above = to.op("Where", is_positive, table.value, 0.0)
    below = to.op("Where", is_positive, 0.0, to.op("Neg", table.value))
    eps = np.finfo(np.float64).eps
    first = _powers(to, log1p(to, above), powers, np.abs(powers) < eps)
    second = to.op("Neg", _powers(to, log1p(to, below), 2 - powers, np.abs(powers - 2) <= eps))
    return to.op("Where", is_positive, first, second)


def _box_cox(to: Steps, table: Table, powers: Array) -> str:
    # As scipy.special.boxcox.
    to.expect(table, 2.0, 0.5)
    return _powers(to, to.op("Log", table.value), powers, np.abs(powers) < 1e-19)


def _powers(to: Steps, logarithm: str, powers: Array, is_zero: Array) -> str:
    """(exp(powers * logarithm) - 1) / powers; in columns of power zero its limit, the logarithm."""
    safe = np.where(is_zero, 1.0, powers)
    found = to.op("Div", expm1(to, to.op("Mul", logarithm, safe)), safe)
    return to.op("Where", is_zero, logarithm, found) if is_zero.any() else found


# -- quantiles ---------------------------------------------------------------------------------------------------

_EDGE = 1e-7
"""scikit-learn's BOUNDS_THRESHOLD."""


def quantile(to: Steps, model: Any, table: Table) -> Table:
    quantiles, references = np.asarray(model.quantiles_, np.float64), np.asarray(model.references_, np.float64)
    if table.is_sparse or model.output_distribution not in ("uniform", "normal"):
        raise ModelFault("QuantileTransformer of sparse matrices is not supported", "set its input to dense")
    to.expect(table, quantiles[len(quantiles) // 2], (quantiles[-1] - quantiles[0]) / 3)
    to.is_rounded = True
    parts = [_ranked(to, table, place, quantiles[:, place], references) for place in range(table.width)]
    value = to.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    return made(value if model.output_distribution == "uniform" else _normal(to, table, value, quantiles), table.width)


def _ranked(to: Steps, table: Table, place: int, quantiles: Array, references: Array) -> str:
    """The mean of the interpolations upwards and downwards, which differ at equal quantiles."""
    known, first = np.unique(quantiles, return_index=True)
    last = np.append(first[1:], len(quantiles)) - 1
    upper, lower = references[last], references[first]
    with np.errstate(over="ignore"):
        slopes = (lower[1:] - upper[:-1]) / np.diff(known)
    # By the columns of the rows: below all, at each quantile, above it (behind the last one its own number).
    at = np.stack([known, (upper + lower) / 2, np.zeros(len(known))], 1)
    above = np.stack([known, upper, np.append(slopes, 0.0)], 1)
    above[-1, 1] = references[-1]
    rows = np.concatenate([[[known[0], references[0], 0.0]], np.stack([at, above], 1).reshape(-1, 3)])
    x, made = to.columns_of(table.value, [place]), _on_lines(to, table, place, known, rows)
    # Both ends of the range are the ends of the references, whatever interpolation gives.
    made = to.op("Where", to.op("Equal", x, known[-1]), 1.0, made)
    return to.op("Where", to.op("Equal", x, known[0]), 0.0, made)


def interpolated(to: Steps, table: Table, place: int, known: Array, values: Array) -> str:
    """Between `values` at `known` numbers, which rise, on straight lines; the first and the last one beyond."""
    slopes = np.append(np.diff(values) / np.diff(known), 0.0)
    at, above = (np.stack([known, values, each], 1) for each in (np.zeros(len(known)), slopes))
    rows = np.concatenate([at[:1], np.stack([at, above], 1).reshape(-1, 3)])
    return _on_lines(to, table, place, known, rows)


def _on_lines(to: Steps, table: Table, place: int, known: Array, rows: Array) -> str:
    """`rows` are the start of a line, its value there, and its slope (lookups.py)."""
    found = lookup(to, table, place, known, rows)
    start, value, slope = (to.columns_of(found, [each]) for each in range(3))
    return to.op("Add", to.op("Mul", slope, to.op("Sub", to.columns_of(table.value, [place]), start)), value)


def _normal(to: Steps, table: Table, value: str, quantiles: Array) -> str:
    """The normal distribution's quantiles at `value`, which scikit-learn clips."""
    is_high = to.op("Greater", to.op("Add", table.value, _EDGE), quantiles[-1])
    is_low = to.op("Less", to.op("Sub", table.value, _EDGE), quantiles[0])
    value = to.op("Where", is_low, 0.0, to.op("Where", is_high, 1.0, value))
    least = _EDGE - np.spacing(1)
    return _ndtri(to, to.op("Min", to.op("Max", value, least), 1.0 - least))


_P0 = (-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1, 1.39312609387279679503e1,
       -1.23916583867381258016e0)  # fmt: skip
_Q0 = (1.0, 1.95448858338141759834e0, 4.67627912898881538453e0, 8.63602421390890590575e1, -2.25462687854119370527e2,
       2.00260212380060660359e2, -8.20372256168333339912e1, 1.59056225126211695515e1,
       -1.18331621121330003142e0)  # fmt: skip
_P1 = (4.05544892305962419923e0, 3.15251094599893866154e1, 5.71628192246421288162e1, 4.40805073893200834700e1,
       1.46849561928858024014e1, 2.18663306850790267539e0, -1.40256079171354495875e-1, -3.50424626827848203418e-2,
       -8.57456785154685413611e-4)  # fmt: skip
_Q1 = (1.0, 1.57799883256466749731e1, 4.53907635128879210584e1, 4.13172038254672030440e1, 1.50425385692907503408e1,
       2.50464946208309415979e0, -1.42182922854787788574e-1, -3.80806407691578277194e-2,
       -9.33259480895457427372e-4)  # fmt: skip


def _ndtri(to: Steps, value: str) -> str:
    """The inverse of the normal distribution function from 1e-14 to 1 - 1e-14: `ndtri` of Cephes, as in SciPy."""
    tail = float(np.exp(-2.0))
    other = to.op("Sub", 1.0, value)
    is_high = to.op("Greater", value, 1.0 - tail)
    folded = to.op("Where", is_high, other, value)
    centered = to.op("Sub", folded, 0.5)
    square = to.op("Mul", centered, centered)
    ratio = to.op("Div", to.op("Mul", square, _polynomial(to, square, _P0)), _polynomial(to, square, _Q0))
    middle = to.op("Mul", to.op("Add", centered, to.op("Mul", centered, ratio)), float(np.sqrt(2 * np.pi)))
    root = to.op("Sqrt", to.op("Mul", -2.0, to.op("Log", folded)))
    inverse = to.op("Div", 1.0, root)
    start = to.op("Sub", root, to.op("Div", to.op("Log", root), root))
    more = to.op("Div", to.op("Mul", inverse, _polynomial(to, inverse, _P1)), _polynomial(to, inverse, _Q1))
    far = to.op("Sub", start, more)
    far = to.op("Where", is_high, far, to.op("Neg", far))
    return to.op("Where", to.op("Greater", folded, tail), middle, far)


def _polynomial(to: Steps, value: str, factors: tuple[float, ...]) -> str:
    found: Any = factors[0]
    for each in factors[1:]:
        found = to.op("Add", to.op("Mul", found, value), each)
    return str(found)
