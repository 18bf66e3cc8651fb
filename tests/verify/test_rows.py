"""The same rows in other batches: interactions are found, rounding and ties are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.spec.types import Compilation, FolderSource, ModelInfo, ModelSpec, Validation
from tfaot_pkg.verify.classes import Judge
from tfaot_pkg.verify.extent import Extents
from tfaot_pkg.verify.inputs import ARRANGED
from tfaot_pkg.verify.judgement import Difference
from tfaot_pkg.verify.oracle import Tried
from tfaot_pkg.verify.rows import arranged, arrangement, interactions, larger_sizes, uncompiled_size

Array = npt.NDArray[np.float32]
SIZES = (1, 4)
SIGNATURE = Signature(
    inputs=(
        Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3)),
        Tensor(name="w", dtype=DType.FLOAT32, shape=(3,)),
    ),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 3)),),
)


def _in_batches(serve: Callable[[Array], Array], x: Array, sizes: tuple[int, ...] = SIZES) -> dict[str, Array]:
    def batches(size: int) -> Array:
        return np.concatenate([serve(x[start : start + size]) for start in range(0, len(x) - size + 1, size)])

    return {f"{size}/y": batches(size) for size in sizes}


def _found(serve: Callable[[Array], Array], rows: int = 64) -> tuple[Difference, ...]:
    inputs = {"x": np.random.default_rng(1).standard_normal((rows, 3)).astype("float32"), "w": np.ones(3, "float32")}
    order = arrangement(rows, SIZES)
    again = arranged(inputs, SIGNATURE, order)
    assert np.array_equal(again["w"], inputs["w"]) and len(again["x"]) == len(order)
    known, answers = _in_batches(serve, inputs["x"]), _in_batches(serve, again["x"])
    return tuple(interactions(answers, known, order, target="here", signature=SIGNATURE, rtol=1e-4, atol=1e-5))


def _noisy(x: Array) -> Array:
    noise = np.random.default_rng(len(x)).random(x.shape, "float32")
    noisy: Array = x + np.float32(1e-5) * noise * x
    return noisy


DEPENDENT: dict[str, Callable[[Array], Array]] = {
    "the mean": lambda x: x - x.mean(0),
    "the first row": lambda x: x + x[0],
    "the last row": lambda x: x + x[-1],
    "the row before": lambda x: x + np.roll(x, 1, 0),
    "the order": lambda x: x[::-1],
    "the place": lambda x: x + np.arange(len(x), dtype="float32")[:, None],
    "the size": lambda x: x * len(x),
    "a rank": lambda x: x.argsort(0).argsort(0).astype("float32"),
}


@pytest.mark.parametrize("serve", DEPENDENT.values(), ids=DEPENDENT.keys())
def test_rows_that_depend_on_others_are_found(serve: Callable[[Array], Array]) -> None:
    found = _found(serve)
    assert any(each.batch_size == 4 or serve is DEPENDENT["the size"] for each in found)
    assert {(each.kind, each.is_fault) for each in found} == {("rows that interact", True)}


@pytest.mark.parametrize("rows", [4, 5, 64])
def test_rows_that_depend_on_themselves_are_not(rows: int) -> None:
    assert _found(np.exp, rows) == ()
    assert _found(_noisy, rows) == ()
    assert _found(lambda x: np.where(x > 0, np.inf, np.nan).astype("float32"), rows) == ()


def test_integers_may_differ_by_ties_only() -> None:
    signature = Signature(inputs=SIGNATURE.inputs, outputs=(Tensor(name="y", dtype=DType.INT64, shape=(None,)),))
    order = np.arange(64)
    known = {"1/y": np.arange(64)}

    def found(changed: int) -> list[tuple[int, int]]:
        answers = np.arange(64)
        answers[:changed] += 1
        all_found = interactions({"4/y": answers}, known, order, target="here", signature=signature, rtol=0, atol=0)
        return [(one.elements, one.batch_size) for one in all_found]

    assert found(0) == [] == found(3)
    assert found(10) == [(10, 4)]


def test_every_row_gets_other_neighbours_and_places() -> None:
    for sizes in ((1,), (1, 4), (3, 8), (64,)):
        order = arrangement(64, sizes)
        assert order.max() < 64 and set(range(24)) <= set(order.tolist())
        largest = max(sizes)
        assert all((order[-largest * k :][:largest] == order[-largest * k]).all() for k in (1, 2, 3))
        count = (len(order) - 3 * largest) // 2
        parts = np.arange(count), order[:count], order[count : 2 * count]
        neighbours = [set(zip(part[:-1].tolist(), part[1:].tolist(), strict=True)) for part in parts]
        assert len(set.union(*neighbours)) == 3 * (count - 1), "no row follows the same row twice"
    assert arrangement(1, (1,)).tolist() == [0, 0, 0]
    assert [uncompiled_size(sizes) for sizes in ((1, 4), (1, 2, 3), (2,), (7,))] == [2, 4, 3, 2]


def test_rows_at_which_tensorflow_is_as_sensitive_do_not_interact() -> None:
    order, ones = np.arange(4), np.ones((4, 1))
    spread = {"spread": ones / 2, "low": ones / 2, "high": 1.5 * ones, "missing": np.zeros((4, 1), bool)}
    known = {"1/y": ones.astype("float32"), **{f"1/y/{name}": values for name, values in spread.items()}}
    answers = {"4/y": np.array([[1], [2], [3], [9]], "float32")}
    signature = Signature(inputs=SIGNATURE.inputs, outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 1)),))
    excused, found = interactions(answers, known, order, target="here", signature=signature, rtol=0, atol=0)
    assert (excused.elements, excused.rule) == (2, "roundings of the inputs")
    assert (found.elements, found.max_absolute, found.is_fault) == (1, 8.0, True)


def test_the_frameworks_conversions_out_of_range_may_depend_on_the_place_of_a_row() -> None:
    """TensorFlow gives 0 or 255 for -1.5 as uint8, by its place in a vector register."""
    signature = Signature(inputs=SIGNATURE.inputs, outputs=(Tensor(name="y", dtype=DType.UINT8, shape=(None, 2)),))
    order, out = np.arange(8), np.arange(8) < 5
    known = {"1/y": np.full((8, 2), 9, np.uint8)}
    answers = {"4/y": np.where(np.arange(8)[:, None] < 6, 200, known["1/y"]).astype(np.uint8)}

    def found(**met: Array) -> list[tuple[int, str, bool]]:
        seen = known | {f"1/free/conversion/{operation}": rows for operation, rows in met.items()}
        differences = interactions(
            answers, seen, order, target="TensorFlow", signature=signature, rtol=0, atol=0,
            operations=frozenset({"Cast"}),
        )  # fmt: skip
        return [(one.elements, one.rule, one.is_fault) for one in differences]

    assert found(Cast=cast(Array, out)) == [(10, "conversion by place", False), (2, "", True)]
    assert found() == [(12, "", True)]


def test_the_framework_runs_at_sizes_that_were_neither_compiled_nor_traced() -> None:
    assert larger_sizes(SIGNATURE, SIZES, 100.0) == (6, 9, 24, 33, 130, 513, 1000)
    assert larger_sizes(SIGNATURE, (6, 33), 100.0) == (9, 24, 130, 513, 1000)
    # A tenth of a second: less for models of much work.
    assert larger_sizes(SIGNATURE, SIZES, 5e6) == (6, 9, 24, 33, 130)
    assert larger_sizes(SIGNATURE, SIZES, 1e10) == ()


class _Framework:
    """Answers like a function of whole batches."""

    framework = "TensorFlow"

    def __init__(self, serve: Callable[[Array], Array]) -> None:
        self.serve, self.given = serve, dict[str, Array]()

    def _tried(self, name: str, inputs: Mapping[str, Array]) -> Tried:
        self.given[name] = inputs["x"]
        return Tried(name=name, inputs=Path("x"), rows=len(inputs["x"]), sizes=SIZES)

    def arranged(self, inputs: Mapping[str, Array]) -> Tried:
        return self._tried(ARRANGED, inputs)

    def repeated(self, inputs: Mapping[str, Array]) -> Tried:
        return self._tried(f"{ARRANGED} repeated", inputs)

    def tried_main(self, inputs: Mapping[str, Array]) -> Tried:
        return replace(self._tried("main", inputs), eager=_in_batches(self.serve, inputs["x"]))

    def at_size(self, tried: Tried, size: int, most: int | None = None) -> Mapping[str, Array]:
        rows = self.given[tried.name]
        return _in_batches(self.serve, rows[: None if most is None else size * most], (size,))

    def explored(self, tried: Tried) -> Tried:
        return tried


@pytest.mark.parametrize(
    ("limit", "work", "sizes"),
    [(500, 3.0, {513, 1000}), (600, 3.0, {1000}), (2000, 3.0, set()), (500, 1e10, set())],
    ids=["at 500", "at 600", "beyond all", "of much work"],
)
def test_a_branch_on_the_batch_size_that_no_proof_saw_is_found(limit: int, work: float, sizes: set[int]) -> None:
    spec = ModelSpec(
        path=Path("spec.yaml"), model=ModelInfo(name="m", version="1"), source=FolderSource(path=Path()),
        compilation=Compilation(batch_sizes=SIZES), validation=Validation(),
    )  # fmt: skip
    framework = _Framework(lambda x: x * 2 if len(x) > limit else x)
    judge = Judge(
        spec=spec, signature=SIGNATURE, independent=True, extents=Extents(batch_sizes=SIZES, operations=work), oracle=cast(Any, framework),
        runs=cast(Any, None), ways={"x86-64-v3": "native"},
    )  # fmt: skip
    inputs = {"x": np.random.default_rng(1).standard_normal((64, 3)).astype("float32"), "w": np.ones(3, "float32")}
    rows = judge.rearranged(inputs)
    assert rows is not None
    # The library does what was traced at small batches.
    ours = {
        ARRANGED: _in_batches(lambda x: x, framework.given[ARRANGED]),
        "main": _in_batches(lambda x: x, inputs["x"]),
    }
    (report,) = judge.rows_reports(inputs, rows, {"x86-64-v3": ours})
    assert {each.batch_size for each in report.differences} == sizes
