"""Ranges of inputs: found in the operations that use them, or stated, and all that is drawn keeps to them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.kept import saved_models
from tests.wording import reported
from tests.zoo.cases import Case
from tests.zoo.conftest import Builder
from tfaot_pkg.analysis.program.input_bounds import taken
from tfaot_pkg.analysis.program.ranges import Bound, Range
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.spec.rules import Limit
from tfaot_pkg.spec.types import Compilation, ModelSpec, Validation
from tfaot_pkg.verify.inputs import MAIN, classes_of, drawn, sized_inputs, validation_inputs
from tfaot_pkg.verify.limits import Drawing, drawing_of, require_inputs
from tfaot_pkg.worker_program.messages.listing import (
    ArrayShape,
    Computation,
    Instruction,
    Literals,
    Module,
    NoAttributes,
    Number,
)

MODELS = Path(__file__).resolve().parents[1] / "models" / "indices.py"

NODES = Tensor(name="nodes", dtype=DType.FLOAT32, shape=(32, 4), axes=("v", ""))
EDGES = Tensor(name="edges", dtype=DType.INT64, shape=(2, 64), axes=("", "e"))
SIGNATURE = Signature(
    inputs=(EDGES, NODES),
    outputs=(replace(NODES, name="y"),),
    symbols=(Symbol(name="e", minimum=1, maximum=64), Symbol(name="v", minimum=1, maximum=32)),
)
LAST = Bound(terms={"v": 1, "": -1})
INDICES = Range(name="edges", axes=(), low=(Bound(terms={}),), high=(LAST,), is_index=True)

FOUND: Mapping[str, Mapping[str, tuple[str, tuple[int, ...], bool]]] = {
    "graph_network": {"edge_index": ("0 to v - 1", (), True)},
    "of_two_kinds": {"edge_index": ("0 to h - 1 or 0 to t - 1", (1,), True)},
    "pooled": {"graph": ("0 to 3", (), True)},
    "embedding": {"tokens": ("0 to 49", (), True)},
    "two_tables": {"ids": ("0 to 49 or 0 to 6", (1,), True)},
    "float_ids": {"x": ("0 to 6", (1,), True)},
    "one_hot": {"kind": ("0 to 8", (), False)},
    "batch_dims": {"i": ("0 to 4", (), True)},
    "gather_nd": {"i": ("0 to 5 or 0 to 4", (1,), True)},
    "scatter_nd": {"i": ("0 to 7", (), True)},
    "slice_start": {"start": ("0 to 7", (), True)},
    "masked": {"length": ("0 to 12", (), False)},
    "divisor": {"y": ("1 to any", (), False)},
    "mean_of_count": {"n": ("1 to any", (), False)},
    "shifted": {"by": ("0 to 31", (), True)},
    "after_loop": {"tokens": ("0 to 49", (), True)},
    "guarded": {"tokens": ("0 to 50", (), False)},
    "unseen": {"i": ("0 to 20", (), False)},
    "turned": {"length": ("0 to 7", (), False)},
    "shifted_ids": {"tokens": ("3 to 52", (), True)},
    "logarithm_of_count": {},
}
"""What tests/models/indices.py says: sizes of tables less one, depths, lengths of axes, bits of int32 less one."""

_SYMBOLS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "graph_network": {"nodes": ("v", ""), "edge_index": ("", "e")},
    "of_two_kinds": {"hits": ("h", ""), "tracks": ("t", ""), "edge_index": ("e", "")},
    "pooled": {"nodes": ("v", ""), "graph": ("v",)},
}
_MAXIMA = {"v": 32, "e": 64, "h": 30, "t": 20}
_FIXED = {"nodes": 4, "hits": 4, "tracks": 4, "edge_index": 2}


class _Indices(Builder):
    """The zoo's builder, for models with symbols."""

    def spec(self, case: Case, compilation: Compilation) -> ModelSpec:
        spec, axes = super().spec(case, compilation), _SYMBOLS.get(case.name, {})
        names = sorted({axis for each in axes.values() for axis in each if axis})
        shapes = {name: tuple(_MAXIMA.get(axis, _FIXED.get(name)) for axis in each) for name, each in axes.items()}
        symbols = tuple(Symbol(name=name, minimum=1, maximum=_MAXIMA[name]) for name in names)
        return replace(spec, model=replace(spec.model, shapes=shapes, axes=axes, symbols=symbols))


@pytest.fixture(scope="session")
def indices(shared_home_folder: Path, toolchain_python: Path) -> Iterator[_Indices]:
    folder = saved_models(shared_home_folder, MODELS, toolchain_python)
    builder = _Indices(lambda _: folder, Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data"))
    yield builder
    builder.close()


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.parametrize(
    "names", [["graph_network", "two_tables", "turned"], pytest.param([*FOUND], marks=pytest.mark.nightly)]
)
def test_the_operations_of_a_model_show_which_numbers_its_inputs_take(names: list[str], indices: _Indices) -> None:
    found = {name: indices.freeze(Case(name=name), tensorflow="2.17.1").ranges for name in names}
    shown = {
        name: {each.name: (str(each), each.axes, each.is_index) for each in ranges} for name, ranges in found.items()
    }
    assert shown == {name: FOUND[name] for name in names}


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.sweep(night=20)
@pytest.mark.parametrize(
    ("name", "tensorflow"), [(name, ["2.17.1", "2.21.0"][number % 2]) for number, name in enumerate(FOUND)]
)
def test_models_with_indices_are_validated_at_every_size(name: str, tensorflow: str, indices: _Indices) -> None:
    report = indices.build(Case(name=name), tensorflow=tensorflow, engine="auto").report
    assert not report.failed
    sized = [each for each in report.classes if each.name.partition(" ")[0].find("=") > 0]
    assert len(sized) == (3 if name in _SYMBOLS else 0)
    # At these sizes, too, the framework takes every number.
    assert all(each.elements and not each.refused for each in sized)
    assert any("all drawn are positive" in each for each in report.warnings) == (name == "logarithm_of_count")
    assert any("integers are 0 or 1" in each for each in report.warnings) == (name == "unseen")


@pytest.mark.parametrize("size", [1, 2, 31])
def test_indices_are_drawn_below_the_size_of_their_axis(size: int) -> None:
    drawing = Drawing(found={"edges": INDICES})
    for name in (MAIN, "large", "nonfinite"):
        values = drawn(name, SIGNATURE.at({"v": size, "e": 64}), seed=1, rows=8, drawing=drawing)["edges"]
        assert values.dtype == np.int64 and values.min() == 0 and values.max() == size - 1


def test_all_sizes_of_a_validation_have_valid_indices() -> None:
    drawing = Drawing(found={"edges": INDICES})
    sized = sized_inputs(SIGNATURE, (), seed=0, rows=1, drawing=drawing)
    for name, arrays in sized.items():
        size = int(name.partition("v=")[2])
        assert arrays["edges"].min() >= 0 and arrays["edges"].max() < size, name
    sizes = [(each["edges"].shape[-1], each["nodes"].shape[-2]) for each in sized.values()]
    assert sizes == [(1, 1), (2, 3), (32, 15)], "symbols have different sizes"
    main = validation_inputs(Validation(), SIGNATURE, 1, drawing=drawing)["edges"]
    assert main.max() > 20, "the whole range, not 0 and 1 only"


def test_negative_indices_and_those_out_of_range_are_classes_of_their_own() -> None:
    drawing = Drawing(found={"edges": INDICES})
    assert classes_of(("integers", "branches"), SIGNATURE, drawing) == ("integers", "integers negative")
    assert classes_of(("large",), SIGNATURE, drawing) == ("large",)
    assert classes_of(("integers",), SIGNATURE, Drawing()) == ("integers",)
    small = SIGNATURE.at({"v": 5, "e": 64})
    negative = drawn("integers negative", small, seed=0, rows=1, drawing=drawing)["edges"]
    assert set(np.unique(negative)) == {*range(-5, 5)}
    special = drawn("integers", small, seed=0, rows=1, drawing=drawing)["edges"]
    assert {-1, -5, -6, 5, 6} <= set(np.unique(special))


def test_one_range_for_each_column() -> None:
    ids = Tensor(name="ids", dtype=DType.INT32, shape=(None, 2))
    signature = Signature(inputs=(ids,), outputs=(NODES,))
    found = Range(
        name="ids", axes=(1,), low=(Bound(terms={}), Bound(terms={"": 3})), high=(Bound(terms={"": 49}), None),
        is_index=True,
    )  # fmt: skip
    values = drawn(MAIN, signature, seed=0, rows=500, drawing=Drawing(found={"ids": found}))["ids"]
    assert (values.min(axis=0) == (0, 3)).all() and (values.max(axis=0) == (49, 4)).all()


def test_stated_ranges_replace_those_that_are_found() -> None:
    x = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3))
    signature = replace(SIGNATURE, inputs=(EDGES, NODES, x))
    stated = {
        "edges": (Limit(number=1), Limit(number=-2, symbol="v")),
        "x": (Limit(number=0.5), Limit(number=2.0)),
    }
    drawing = drawing_of(Validation(ranges=stated), [INDICES])
    arrays = validation_inputs(Validation(), signature, 64, drawing=drawing)
    assert arrays["edges"].min() == 1 and arrays["edges"].max() == 30
    assert 0.5 <= arrays["x"].min() < 0.6 and 1.9 < arrays["x"].max() <= 2
    assert np.abs(drawn("large", signature, seed=0, rows=8, drawing=drawing)["x"]).max() > 1e3


def test_a_range_of_no_input_is_reported() -> None:
    stated = {"edge": (Limit(number=0), Limit(number=1))}
    with reported(SpecError):
        require_inputs(Validation(ranges=stated), SIGNATURE)
    mask = Tensor(name="edge", dtype=DType.BOOL, shape=(3,))
    with reported(SpecError):
        require_inputs(Validation(ranges=stated), replace(SIGNATURE, inputs=(mask,)))


def test_positive_numbers_have_no_zeros() -> None:
    count = Tensor(name="count", dtype=DType.UINT8, shape=(None, 3))
    signature = replace(SIGNATURE, inputs=(count, EDGES, NODES))
    arrays = validation_inputs(Validation(), signature, 64, drawing=Drawing(found={"edges": INDICES}, positive=True))
    assert set(np.unique(arrays["count"])) == {1, 2} and (arrays["nodes"] > 0).all() and arrays["edges"].min() == 1


def test_infinite_constants_bound_nothing() -> None:
    shape = ArrayShape(dtype="f32", sizes=(3,))
    constant = Literals(digest="", values=(math.inf, 0.0, 1.0))
    instructions = (
        Instruction(id=1, opcode="parameter", node="", operation="", shape=shape, operands=(), called=(),
                    attributes=Number(number=0)),
        Instruction(id=2, opcode="constant", node="", operation="", shape=shape, operands=(), called=(),
                    attributes=constant),
        Instruction(id=3, opcode="multiply", node="", operation="", shape=shape, operands=(1, 2), called=(),
                    attributes=NoAttributes()),
    )  # fmt: skip
    module = Module(
        batch_size=5, entry=1, computations=(Computation(id=1, root=3, instructions=instructions),), sizes={}
    )
    found = taken(module, [shape])
    assert np.isinf(found.low).all() and np.isinf(found.high).all() and np.isinf(found.usual).all()
