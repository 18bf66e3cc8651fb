"""Dense layers whose weights have fewer bits in memory: compiled code beside float64, alone and in batches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_bfloat16 import numbers
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import named, run
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.ground.arrays import Array


def _literal(values: Array) -> str:
    return f"{{{','.join(map(repr, values.ravel().tolist()))}}}"


def program(kind: str, *, has_bias: bool) -> Program:
    """Rows of 3 vectors each through a dense layer of 513 by 512."""
    bias = f"%2 f32[512] = constant literal={_literal(numbers([512], 2))}\n" if has_bias else ""
    text = f"""%0 f32[batch,3,513] = parameter number=0
%1 f32[513,512] = constant literal={_literal(numbers([513, 512], 1))}
{bias}%3 f32[batch,3,512] = dense %0 %1{" %2" if has_bias else ""} activation=relu weights_axis=0
give %3
"""
    return run(verified(parse(text), "reading"), [named(f"{kind}-weights")])


PROGRAMS = {
    f"{kind}, {'with' if has_bias else 'without'} a bias": program(kind, has_bias=has_bias)
    for kind in ("bfloat16", "int8")
    for has_bias in (False, True)
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_code_computes_the_layer_alone_and_in_batches(name: str, compiled: Compile) -> None:
    made = PROGRAMS[name]
    assert [each.opcode for each in made.entry.operations].count("narrow_dense") == 1
    code, given = compiled(made, 8), numbers((19, 3, 513), 5)
    (wanted,) = interpret.run(made, 19, [given])
    whole = np.asarray(code(given)[0])
    # As many roundings of sums of about 23.
    np.testing.assert_allclose(whole, wanted, rtol=0, atol=513 * 2.0**-24 * 64)
    for rows in (1, 3, 18):
        np.testing.assert_array_equal(code(given[:rows])[0].view(np.uint32), whole[:rows].view(np.uint32))


def test_weights_are_as_far_off_as_their_bits_say() -> None:
    """By at most 2^-9 of each weight, or 1/254 of the largest one of an output."""
    weights, given = numbers((513, 512), 1), numbers((19, 3, 513), 5)
    exact = np.maximum(given.astype(np.float64) @ weights, 0)
    sizes = np.abs(given).astype(np.float64) @ np.abs(weights)
    steps = np.abs(given).astype(np.float64).sum(-1, keepdims=True) * np.abs(weights).max(0)
    for kind, bound in (("bfloat16", sizes * 2.0**-9), ("int8", steps / 254)):
        (found,) = interpret.run(PROGRAMS[f"{kind}, without a bias"], 19, [given])
        error = np.abs(np.asarray(found) - exact) / bound
        assert 0.05 < error.max() <= 1.0001
