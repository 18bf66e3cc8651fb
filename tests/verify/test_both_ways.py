"""Validation computes with and without tiles of the CPU, if it may use some: they must not change a bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.runtime.model import Model
from tfaot_pkg.verify.runner import answers_in_both_ways, same_bits

_X = np.array([[1.0], [np.nan], [0.0]], np.float32)


class _Doubling:
    """y = 2 x, and `added` to it if tiles are used, of which there are some."""

    signature = Signature(
        inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 1)),),
        outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 1)),),
    )

    def __init__(self, added: float, *, has_tiles: bool = True) -> None:
        self._added, self._has_tiles, self.ways = np.float32(added), has_tiles, list[bool]()
        self._uses = has_tiles

    def use_tiles(self, use: bool = True) -> bool:
        self._uses = use and self._has_tiles
        return self._has_tiles

    def run(self, size: int, inputs: Mapping[str, Array]) -> dict[str, Array]:
        assert len(inputs["x"]) == size
        self.ways.append(self._uses)
        return {"y": 2 * inputs["x"] + self._added * self._uses}


def _answers(model: _Doubling) -> Array:
    return answers_in_both_ways(cast("Model", cast("Any", model)), {"x": _X}, 1)["y"]


def test_equal_answers_are_accepted_and_tiles_used_again() -> None:
    model = _Doubling(0)
    np.testing.assert_array_equal(_answers(model), 2 * _X)
    assert model.ways == [True] * 3 + [False] * 3
    assert _answers(model).tolist()[0] == [2.0]
    assert model.ways[6]


def test_other_answers_end_the_process() -> None:
    with pytest.raises(SystemExit, match="output y of 1 rows has other bits with AMX than without"):
        _answers(_Doubling(1e-6))


def test_what_has_no_tiles_is_computed_once() -> None:
    model = _Doubling(1, has_tiles=False)
    np.testing.assert_array_equal(_answers(model), 2 * _X)
    assert model.ways == [False] * 3


def test_zeros_have_signs_and_nan_have_none() -> None:
    zero, nan = np.array([0.0], np.float32), np.array([np.nan], np.float32)
    assert same_bits(nan, -nan)
    assert not same_bits(zero, -zero)
    assert not same_bits(zero, nan)
    assert same_bits(np.array([1 + 2j]), np.array([1 + 2j]))
    assert not same_bits(np.array([True]), np.array([False]))
