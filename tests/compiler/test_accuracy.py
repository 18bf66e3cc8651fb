"""Errors of functions that programs compute in float32, against float64, are those of docs/reference/accuracy.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kept import saved_models
from tests.samples import REPOSITORY, tfaot
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.runtime.loader import Model, load

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

_MAKER = REPOSITORY / "tests" / "models" / "accuracy.py"
_MAKER_OF_SERIES = REPOSITORY / "tests" / "models" / "special.py"
_PAGE = REPOSITORY / "docs" / "reference" / "accuracy.md"
# TensorFlow's answers are not as near to float64 as the library's, so no tolerance is a test of anything.
_SPEC = """\
model: {{name: {name}, version: 1.0.0, saved_model: {name}}}
source: {{path: {models}}}
compilation: {{engine: program, batch_sizes: [8], targets: [x86-64-v3]}}
validation: {{rtol: 0.9, atol: 1.0e+30, classes: []{more}}}
"""

_LARGEST = float(np.finfo(np.float32).max)
_NORMAL = 2.0**-126
_ZEROS = (1.4616321, -2.4570247, -2.7476826, -3.1435809)  # of digamma and lgamma
_SPECIAL = (0.5, 1.0, math.pi / 2, 2.0, 3.0, math.pi, 4.0, 9.2, 10.0, 14.0, 30.0, 87.3, 88.7, 103.0, *_ZEROS)


def _each(function: Callable[[float], float]) -> Callable[..., Array]:
    def at(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan

    def all_of(x: Array) -> Array:
        return np.array([at(each) for each in x.tolist()])

    return all_of


_erf, _erfc = _each(math.erf), _each(math.erfc)


def _digamma(x: Array) -> Array:
    """By recurrence up to 30, and the asymptotic series there."""
    y, total = np.array(x), np.zeros_like(x)
    for _ in range(32):
        below = y < 30.0
        total = np.where(below, total - 1.0 / y, total)
        y = np.where(below, y + 1.0, y)
    q = 1.0 / (y * y)
    series = q * (1.0 / 12.0 - q * (1.0 / 120.0 - q * (1.0 / 252.0 - q * (1.0 / 240.0 - q / 132.0))))
    found: Array = total + np.log(y) - 0.5 / y - series
    return found


@_each
def _ndtri(p: float) -> float:
    """By bisection, with the smaller part of the probability, which is exact."""
    if not 0.0 <= p <= 1.0:
        return math.nan
    if p in (0.0, 1.0):
        return math.inf if p else -math.inf
    return _quantile(p) if p < 0.5 else -_quantile(1.0 - p)


def _quantile(tail: float) -> float:
    """Minus the number t >= 0 with erfc(t / sqrt(2)) / 2 = `tail`."""
    if tail == 0.5:
        return 0.0
    t = math.sqrt(-2.0 * math.log(tail)) if tail < 0.2 else (0.5 - tail) * math.sqrt(2.0 * math.pi)
    for _ in range(60):
        # Newton's method for the logarithm, which is nearly a parabola, or for the distance from one half, near zero.
        value = 0.5 * math.erfc(t / math.sqrt(2.0))
        density = math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
        if tail < 0.2:
            step = (math.log(value) - math.log(tail)) * value / density
        else:
            step = ((0.5 - tail) - 0.5 * math.erf(t / math.sqrt(2.0))) / density
        t += step
        if abs(step) <= 1e-15 * t:
            break
    return -t


@_each
def _erfinv(x: float) -> float:
    if abs(x) >= 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    t = abs(x)
    if t < 1e-9:
        return 0.5 * math.sqrt(math.pi) * x
    found = -_quantile(0.5 * (1.0 - t)) / math.sqrt(2.0) if t > 0.6 else _small_erfinv(t)
    return math.copysign(found, x)


@_each
def _erfcinv(x: float) -> float:
    if not 0.0 < x < 2.0:
        return {0.0: math.inf, 2.0: -math.inf}.get(x, math.nan)
    return (-_quantile(0.5 * x) if x <= 1.0 else _quantile(1.0 - 0.5 * x)) / math.sqrt(2.0)


def _small_erfinv(x: float) -> float:
    y = 0.5 * math.sqrt(math.pi) * x
    for _ in range(60):
        step = (x - math.erf(y)) * 0.5 * math.sqrt(math.pi) * math.exp(y * y)
        y += step
        if abs(step) <= 1e-15 * y:
            break
    return y


@_each
def _lgamma(x: float) -> float:
    return math.inf if x <= 0.0 and x == int(x) else math.lgamma(x)


_EXACT: Mapping[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "digamma": _digamma,
    "divide": np.divide,
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "erf": _erf,
    "erfc": _erfc,
    "erfcinv": _erfcinv,
    "erfinv": _erfinv,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "gaussian": lambda x: np.exp(-x * x),
    "gelu": lambda x: 0.5 * x * _erfc(-x / math.sqrt(2.0)),
    "gelu_tanh": lambda x: x / (1.0 + np.exp(-2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    "hard_swish": lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "lgamma": _lgamma,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "log_sigmoid": lambda x: -np.logaddexp(-x, 0.0),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0.0)),
    "ndtri": _ndtri,
    "pow": np.power,
    "quick_gelu": lambda x: x / (1.0 + np.exp(-float(np.float32(1.702)) * x)),
    "reciprocal": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "sin": np.sin,
    "sinh": np.sinh,
    "softplus": lambda x: np.logaddexp(x, 0.0),
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "sqrt": np.sqrt,
    "swish": lambda x: x / (1.0 + np.exp(-x)),
    "tan": np.tan,
    "tanh": np.tanh,
    "xlog1py": lambda x, y: np.where(x == 0.0, 0.0, x * np.log1p(y)),
    "xlogy": lambda x, y: np.where(x == 0.0, 0.0, x * np.log(y)),
}
_WITHIN: Mapping[str, tuple[float, float]] = {
    "digamma": (0.0, math.inf),  # the recurrence loses digits below
}
"""Arguments for which the reference itself is exact enough, unless these are all."""
_PAIRS = ("atan2", "divide", "pow", "xlog1py", "xlogy")


def _arguments() -> Iterator[Array]:
    """Of both signs: in every power of two, and all floats near special places."""
    random = np.random.default_rng(7)
    exponents = np.arange(1, 255, dtype=np.uint32)[:, None] << 23
    yield (exponents | random.integers(0, 1 << 23, (254, 400), dtype=np.uint32)).ravel().view(np.float32)
    for place in _SPECIAL:
        around = int(np.float32(abs(place)).view(np.uint32))
        yield (around + np.arange(-1500, 1500)).astype(np.uint32).view(np.float32)
    for largest in (1.0, 10.0, 100.0):
        yield random.uniform(0.0, largest, 40000).astype(np.float32)


def _errors(answers: Array, exact: Array) -> Array:
    """In units in the last place of a float32 of that size; infinite for a wrong infinity or NaN."""
    size = np.maximum(np.abs(exact), _NORMAL)
    error = np.abs(answers.astype(np.float64) - exact) / 2.0 ** (np.floor(np.log2(size)) - 23)
    same = np.where(np.isnan(exact), np.isnan(answers), answers == np.where(exact > 0, np.inf, -np.inf))
    beyond = np.isnan(exact) | (np.abs(exact) > _LARGEST * (1.0 + 2.0**-20))
    edge = ~beyond & (np.abs(exact) > _LARGEST * (1.0 - 2.0**-20))  # either the largest number or infinity
    return np.where(edge, 0.0, np.where(beyond, np.where(same, 0.0, np.inf), error))


def _built(home: Path, models: Path, folder: Path, name: str, more: str = "") -> Model:
    (folder / "spec.yaml").write_text(_SPEC.format(name=name, models=models, more=more))
    tfaot(home, "build", folder / "spec.yaml", "-o", folder / "prefix")
    return load(name, prefix=folder / "prefix")


@pytest.fixture(scope="module")
def measured(
    shared_home_folder: Path, toolchain_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, float]:
    """The largest error of each function."""
    models = saved_models(shared_home_folder, _MAKER, toolchain_python)
    model = _built(shared_home_folder, models, tmp_path_factory.mktemp("accuracy"), "accuracy")
    some = np.concatenate(list(_arguments()))
    x = np.concatenate([some, -some])
    x = np.resize(x, (len(x) + 63) // 64 * 64)
    random = np.random.default_rng(8)
    second = np.where(random.random(len(x)) < 0.5, random.uniform(-20, 20, len(x)), random.permutation(x))
    second = second.astype(np.float32)
    rows = x.reshape(-1, 64)
    answers = model(second=second.reshape(-1, 64), **{f"in_{name}": rows for name in _EXACT})
    with np.errstate(all="ignore"):
        return {name: _largest(name, answers[name].ravel(), x, second) for name in _EXACT}


def _largest(name: str, answers: Array, x: Array, second: Array) -> float:
    low, high = _WITHIN.get(name, (-math.inf, math.inf))
    inside = (x > low) & (x < high)
    given = [each[inside].astype(np.float64) for each in ((x, second) if name in _PAIRS else (x,))]
    return float(np.max(_errors(answers[inside], _EXACT[name](*given))))


def _listed(begin: str, end: str) -> dict[str, float]:
    """The bounds of the page between two headings, by function."""
    rows = [
        line.split("|")[1:3]
        for line in _PAGE.read_text().split(begin)[1].split(end)[0].splitlines()
        if line.startswith("| `")
    ]
    return {name.strip().strip("`"): float(bound) for name, bound in rows}


def test_errors_are_those_of_the_page(measured: Mapping[str, float]) -> None:
    listed = _listed("# Accuracy of functions", "## Special functions")
    assert {name: _rounded_up(error) for name, error in measured.items()} == listed


def test_errors_of_special_functions_are_those_of_the_page(
    shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    """Against TensorFlow's own kernels in float64."""
    models = saved_models(shared_home_folder, _MAKER_OF_SERIES, toolchain_python)
    more = f", inputs: {models / 'inputs.npz'}"
    model = _built(shared_home_folder, models, tmp_path, "special", more)
    with np.load(models / "inputs.npz") as given, np.load(models / "exact.npz") as exact:
        answers = model(**given)
        with np.errstate(all="ignore"):
            found = {name: float(np.max(_errors(answers[name], exact[name]))) for name in exact}
    listed = _listed("## Special functions", "## All floats")
    assert {name: _rounded_up(error) for name, error in found.items()} == listed


def _rounded_up(error: float) -> float:
    """To one decimal; from 10 on to two digits."""
    step = 10.0 ** max(-1, math.floor(math.log10(error)) - 1) if math.isfinite(error) else 1.0
    return float(f"{math.ceil(error / step) * step:.6g}") if math.isfinite(error) else error
