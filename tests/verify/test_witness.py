"""The host's own evaluation of a program of PyTorch tells answers in its file that are not the program's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.aten_lowering.aten_files import ARTIFACTS
from tfaot_pkg.compiler.program import BATCH, Symbol
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.frozen.aten_file import StoredClass, read_classes, read_module
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.verify.witness import Witness

_ANSWERED = ARTIFACTS / "answered"


def _begun(name: str) -> tuple[Witness, dict[str, StoredClass]]:
    path: Path = _ANSWERED / f"{name}.aten"
    module, classes = read_module(path), read_classes(path)
    symbols = [
        Symbol(symbol, classes[0].sizes[symbol], max(least, 1))
        for symbol, (least, _) in module.document.symbols.items()
        if symbol != BATCH
    ]
    # Of classes at several sizes, those at the largest one come first.
    return Witness(module, symbols), {each.name: each for each in reversed(classes)}


def _with(found: StoredClass, change: Mapping[str, Array], answers: float) -> StoredClass:
    """A copy with `change` beside the answers, and with so much added to them."""
    runs = tuple(
        replace(
            run,
            outputs={name: array + np.asarray(answers, array.dtype) for name, array in run.outputs.items()},
            beside={**run.beside, **change} if run.beside else {},
        )
        for run in found.runs
    )
    return replace(found, runs=runs)


def test_answers_of_another_program_are_refused() -> None:
    """As if somebody had edited them alone, or also those in float64."""
    witness, classes = _begun("bags")
    main = classes["main"]
    witness.confirmed(main, independent=True)
    exact = next(run.beside["exact/output"] for run in main.runs if run.beside)
    for edited in (
        _with(main, {}, 0.3),
        _with(main, {"exact/output": exact + 0.3}, 0),
        _with(main, {"exact/output": exact + 0.3}, 0.3),
    ):
        with pytest.raises(ModelError, match=r"answers in the model's file are not those of its program: .* 'main'"):
            witness.confirmed(edited, independent=True)


def test_models_whose_short_floats_decide_are_told_to_be_exported_in_float32() -> None:
    path = ARTIFACTS / "floats_of_16_bits.aten"
    witness, classes = (
        Witness(read_module(path), [Symbol("n", 12, 1)]),
        {each.name: each for each in read_classes(path)},
    )
    with pytest.raises(ModelError) as raised:
        witness.confirmed(_with(classes["main"], {}, 0.3), independent=True)
    assert raised.value.hint is not None and "export it in float32, model.float()" in raised.value.hint


def test_single_answers_in_float64_that_are_not_the_programs_explain_nothing() -> None:
    witness, classes = _begun("bags")
    exact = next(run.beside["exact/output"] for run in classes["main"].runs if run.beside).copy()
    exact[0, 3] += 0.1
    found = witness.confirmed(_with(classes["main"], {"exact/output": exact}, 0), independent=True)
    beside = next(run.beside["exact/output"] for run in found.runs if run.beside)
    assert np.isnan(beside[0, 3]).all() and np.isfinite(beside[0, 4:]).all()


def test_answers_that_are_roundings_alone_are_believed_although_ours_are_not() -> None:
    """The deviation of images of equal numbers is a rounding in PyTorch, and 0 in packages."""
    witness, classes = _begun("empty_images")
    found = witness.confirmed(classes["subnormal"], independent=True)
    (exact,) = (run.beside["exact/output"] for run in found.runs if run.beside)
    assert np.isfinite(exact).all()


@pytest.mark.parametrize(
    ("name", "class_name", "freedom"),
    [
        ("neighbours", "subnormal", "ties/aten.topk"),
        ("stable_order", "boundary", "ties/aten.sort"),
        ("extremes", "nonfinite", "order/aten.argmin"),
        ("learned_latents", "boundary", "overflow/aten.linear"),
    ],
)
def test_rows_with_open_results_are_found_by_operation(name: str, class_name: str, freedom: str) -> None:
    witness, classes = _begun(name)
    usual = witness.confirmed(classes["main"], independent=True)
    found = witness.confirmed(classes[class_name], independent=True)
    (seen,), (before,) = ([run.beside for run in each.runs if "walked" in run.beside] for each in (found, usual))
    assert seen[f"free/{freedom}"].any()
    # Of numbers of usual size, few meet such operands.
    assert f"free/{freedom}" not in before or before[f"free/{freedom}"].mean() < seen[f"free/{freedom}"].mean()


def test_a_number_that_is_a_boundary_is_on_one_side_of_it() -> None:
    """No rounding took part in it."""
    witness, classes = _begun("buckets")
    found = witness.confirmed(classes["boundary"], independent=True)
    (seen,) = (run.beside for run in found.runs if "walked" in run.beside)
    assert not any(name.startswith("free/step/") for name in seen)
