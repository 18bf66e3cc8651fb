"""Classes of inputs to which the framework gives no answers, and those that it is asked about again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.spec.types import Compilation, FolderSource, ModelInfo, ModelSpec, Validation
from tfaot_pkg.verify.classes import Judge
from tfaot_pkg.verify.extent import Extents
from tfaot_pkg.verify.oracle import Batches, Tried, with_answers


def test_values_that_the_framework_rejects_are_no_fault_of_sizes() -> None:
    symbols = [Symbol(name="m", minimum=1, maximum=9), Symbol(name="v", minimum=1, maximum=32)]
    refused = {"4/ran": np.zeros(2, np.bool_)}
    tried = Tried(name="nonfinite n=17", inputs=Path("x"), rows=2, sizes=(4,), eager=refused, at_sizes=True)
    assert with_answers("JAX 0.10.2", tried, symbols).fault == "JAX 0.10.2 rejects these values"
    usual = Tried(
        name="v=17 m=2", inputs=Path("x"), rows=2, sizes=(4,), eager=refused, at_sizes=True, refusal="k is 18"
    )
    with pytest.raises(ModelError, match="does not compute the model for v=17 m=2: k is 18") as caught:
        with_answers("JAX 0.10.2", usual, symbols)
    # Axes that the model has, and another way out.
    assert "`5 <= m <= 9` or `17 <= v <= 32`" in caught.value.hint and "validation.ranges" in caught.value.hint
    some = Tried(
        name="n=17", inputs=Path("x"), rows=2, sizes=(4,), eager={"4/ran": np.array([False, True])}, at_sizes=True
    )
    assert with_answers("JAX 0.10.2", some, symbols) is some


class _Asked:
    """Records the batches that are asked about, and gives no answers."""

    def __init__(self) -> None:
        self.batches: list[Batches | None] = []

    def explored(self, tried: Tried, batches: Batches | None = None) -> Tried:
        self.batches.append(batches)
        return replace(tried, fault="not run")


@pytest.mark.parametrize(
    ("independent", "batches"), [(False, {1: (2, 8), 4: (0, 1)}), (True, {1: (2, 5, 8), 4: (0, 1, 2)})]
)
def test_only_batches_whose_answers_differ_are_perturbed(
    independent: bool, batches: dict[int, tuple[int, ...]]
) -> None:
    """And those of other sizes that have the same rows, if these are independent."""
    spec = ModelSpec(
        path=Path("spec.yaml"), model=ModelInfo(name="m", version="1"), source=FolderSource(path=Path()),
        compilation=Compilation(batch_sizes=(1, 4)), validation=Validation(),
    )  # fmt: skip
    rows = Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2))
    whole = Tensor(name="total", dtype=DType.FLOAT32, shape=())
    x = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3))
    asked = _Asked()
    judge = Judge(
        spec=spec, signature=Signature(inputs=(x,), outputs=(rows, whole)), independent=independent,
        extents=Extents(batch_sizes=(1, 4), operations=24.0),
        oracle=cast(Any, asked), runs=cast(Any, None), ways={"x86-64-v3": "native"},
    )  # fmt: skip
    answers = {"1/y": np.ones((9, 2), np.float32), "4/y": np.ones((8, 2), np.float32)}
    answers |= {name: np.float32(1.0) * np.ones((), np.float32) for name in ("1/total", "4/total")}
    tried = Tried(name="large", inputs=Path("x"), rows=9, sizes=(1, 4), eager=answers)
    ours = {name: np.array(values) for name, values in answers.items()}
    assert not judge.report(tried, {"x86-64-v3": {"large": ours}}).not_run and not asked.batches
    ours["1/y"][[2, 8], 1] = 3.0
    ours["4/y"][5] = np.nan
    other = {**ours, "4/total": np.array(2.0, np.float32)}
    assert judge.report(tried, {"x86-64-v3": {"large": ours}, "x86-64-v4": {"large": other}}).not_run == "not run"
    assert asked.batches == [batches]
