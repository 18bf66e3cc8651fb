"""Axes of any size in a range, in model.shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.signature import Symbol
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.types import ModelSpec


def _spec(shapes: str, compilation: str = "batch_sizes: [1]") -> ModelSpec:
    text = f"model:\n  name: net\n  version: 1.0.0\n  shapes: {shapes}\ncompilation: {{{compilation}}}\n"
    return parse_spec(text.encode(), Path("/spec.yaml"))


def test_a_symbol_has_one_range_and_stands_for_several_axes() -> None:
    model = _spec("{x: [batch, n <= 128, 16], mask: [null, n], y: [null, 8<=m <= 40, n]}").model
    assert model.shapes == {"mask": (None, 128), "x": (None, 128, 16), "y": (None, 40, 128)}
    assert model.axes == {"mask": ("", "n"), "x": ("", "n", ""), "y": ("", "m", "n")}
    assert model.symbols == (Symbol(name="m", minimum=8, maximum=40), Symbol(name="n", minimum=1, maximum=128))


def test_shapes_with_symbols_are_written_as_they_are_read() -> None:
    document = spec_document(_spec("{x: [batch, 8 <= n <= 128, 16], y: [null, n]}"))
    model = document["model"]
    assert isinstance(model, dict)
    assert model["shapes"] == {"x": [None, "8 <= n <= 128", 16], "y": [None, "8 <= n <= 128"]}


@pytest.mark.parametrize(
    "shapes",
    [
        "{x: [null, n]}",
        "{x: [null, n <= 20], y: [null, n <= 30]}",
        "{x: [null, n <= 4]}",
        "{x: [null, 0 <= n <= 9]}",
        "{x: [null, 3 <= n]}",
        "{x: [null, batch <= 20]}",
        "{x: [null, two words]}",
    ],
)
def test_what_a_symbol_cannot_be_is_reported_with_its_axis(shapes: str) -> None:
    with reported(SpecError):
        _spec(shapes)


def test_xla_takes_no_symbol() -> None:
    with reported(SpecError, path="compilation.engine"):
        _spec("{x: [null, n <= 20]}", "batch_sizes: [1], engine: xla")


def _ranges(ranges: str) -> ModelSpec:
    text = (
        "model:\n  name: net\n  version: 1.0.0\n  shapes: {x: ['v <= 32', 4]}\n"
        f"compilation: {{batch_sizes: [1]}}\nvalidation: {{ranges: {ranges}}}\n"
    )
    return parse_spec(text.encode(), Path("/spec.yaml"))


def test_ranges_of_inputs_may_end_at_symbols() -> None:
    spec = _ranges("{e: [0, v - 1], mass: [0.5, 2], k: [v,  v+3 ]}")
    document = spec_document(spec)["validation"]
    assert isinstance(document, dict)
    assert document["ranges"] == {"e": [0, "v - 1"], "k": ["v", "v + 3"], "mass": [0.5, 2]}
    low, high = spec.validation.ranges["e"]
    assert (low.at({"v": 7}), high.at({"v": 7})) == (0, 6)
    # Keys of specs without ranges stay as they were.
    assert "ranges" not in str(spec_document(_spec("{x: [null, n <= 20]}")))


@pytest.mark.parametrize(
    ("ranges", "path"),
    [
        ("{e: [0, w - 1]}", "validation.ranges.e[1]"),
        ("{e: [3, 1]}", "validation.ranges.e"),
        ("{e: 3}", "validation.ranges.e"),
        ("{e: [0, v * 2]}", "validation.ranges.e"),
        ("{e: [0, true]}", "validation.ranges.e"),
        ("{e: [0, .inf]}", "validation.ranges.e"),
        pytest.param(f"{{e: [0, 1{'0' * 350}]}}", "validation.ranges.e", id="no float"),
    ],
)
def test_what_a_range_cannot_be_is_reported(ranges: str, path: str) -> None:
    with reported(SpecError, path=path):
        _ranges(ranges)
