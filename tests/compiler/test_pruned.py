"""Layers most of whose weights are zeros: which ones are computed by lists, and that no bit shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiler.conftest import called_by, compiled_together
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.ground.arrays import Array

INPUTS, OUTPUTS = 150, 130


def weights(zeros: float = 0.85, inputs: int = INPUTS, outputs: int = OUTPUTS) -> Array:
    """Zeros of both signs."""
    random = np.random.default_rng(1)
    masked = random.normal(size=(inputs, outputs)) * (random.random((inputs, outputs)) >= zeros)
    return masked.astype(np.float32)


def layer(matrix: Array, *, bias: Array | None = None, activation: str = "relu", axis: int = 0) -> Program:
    """`bias` is constant."""
    writer = Writer()
    inputs, outputs = matrix.shape
    stored = writer.constant(np.ascontiguousarray(matrix.T if axis == 1 else matrix))
    given = [writer.input(inputs), stored, *([] if bias is None else [writer.constant(bias)])]
    return writer.program(writer.add("dense", (N, outputs), *given, activation=activation, weights_axis=axis))


def values(rows: int) -> Array:
    """Half of them zeros."""
    return np.maximum(np.random.default_rng(2).normal(size=(rows, INPUTS)), 0).astype(np.float32)


def _skips(program: Program) -> bool:
    return "sparseDense" in called_by(program)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("activation", ["none", "tanh"])
def test_a_pruned_layer_has_the_bits_of_one_with_more_weights(kernels: Path, activation: str, axis: int) -> None:
    """Beside columns without zeros, all are multiplied."""
    matrix, bias = weights(), np.random.default_rng(3).normal(size=2 * OUTPUTS).astype(np.float32)
    others = np.random.default_rng(4).normal(size=matrix.shape).astype(np.float32)
    programs = {
        "pruned": layer(matrix, bias=bias[:OUTPUTS], activation=activation, axis=axis),
        "dense": layer(np.concatenate([matrix, others], axis=1), bias=bias, activation=activation, axis=axis),
    }
    assert {name: _skips(program) for name, program in programs.items()} == {"pruned": True, "dense": False}
    code = compiled_together(programs, kernels, 64)
    given = values(70)
    given[50, 3], given[7, 149] = np.nan, np.inf
    for rows in (1, 5, 16, 23, 70):
        (found,), (wanted,) = (code[name](given[:rows]) for name in programs)
        wanted = wanted[:, :OUTPUTS]
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(found[numbers].view(np.uint32), wanted[numbers].view(np.uint32))


def test_layers_with_fewer_zeros_or_few_weights_are_dense() -> None:
    assert not _skips(layer(weights(0.6)))
    assert not _skips(layer(weights(inputs=100, outputs=100)))


def test_sums_in_chains_or_a_tree_stay_as_they_are() -> None:
    """They have another order."""
    assert not _skips(layer(weights(0.9, 1000, 32)))
    assert not _skips(layer(weights(0.9, 8000, 4)))
