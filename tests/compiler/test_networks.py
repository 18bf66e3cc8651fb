"""Networks from HLO to C++: the interpreter and the code give TensorFlow's answers, in any batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.conftest import Compile, Networks
from tests.toolchains import VERSIONS
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Constant, Layer
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Literal, Program
from tfaot_pkg.compiler.verifier import verify

NAMES = ("dense", "wide", "residual", "lstm", "towers", "images", "attention", "sets", "neighbours", "moved")

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]  # the first makes the networks


@pytest.mark.sweep("attention-2.17.1", "lstm-2.17.1", night=["*-2.17.1"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_programs_compute_what_tensorflow_does_before_and_after_they_are_simplified(
    networks: Networks, name: str, version: str
) -> None:
    network = networks(version, name)
    simple = simplify(network.program)
    verify(simple)
    assert len(simple.entry.operations) < len(network.program.entry.operations)
    for program in (network.program, simple):
        for given, wanted in zip(interpret.run(program, 17, network.inputs), network.outputs, strict=True):
            np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=2e-6)


@pytest.mark.sweep("attention-2.17.1", "images-2.17.1", "lstm-2.17.1", night=["*-2.21.0"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_code_gives_tensorflows_answers_for_any_number_of_rows_to_the_bit(
    networks: Networks, compiled: Compile, name: str, version: str
) -> None:
    network = networks(version, name)
    program = recognize(simplify(network.program))
    verify(program)
    code = compiled(program, 8)
    whole = code(*network.inputs)
    for given, wanted in zip(whole, network.outputs, strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=2e-6)
    for first, last in ((0, 1), (3, 8), (16, 17)):
        part = code(*(values[first:last] for values in network.inputs))
        for alone, together in zip(part, whole, strict=True):
            np.testing.assert_array_equal(alone, together[first:last])


def _activations(program: Program) -> set[str]:
    return {
        each.attributes.activation for each in recognize(program).entry.operations if isinstance(each.attributes, Layer)
    }


@pytest.mark.sweep("2.17.1")
@pytest.mark.parametrize("version", VERSIONS)
def test_gelu_is_found_in_the_polynomials_of_erfc_and_in_no_others(networks: Networks, version: str) -> None:
    """TensorFlow 2.17 multiplies by erf, an opcode; 2.21 by 55 operations."""
    program = simplify(networks(version, "attention").program)
    assert "gelu_erf" in _activations(program)

    def other(value: float) -> Program:
        operations = [
            replace(each, attributes=Constant(literal=Literal(np.float32(value * 1.01))))
            if each.opcode == "constant" and not each.shape.rank and Constant.of(each).literal.constant == value
            else each
            for each in program.entry.operations
        ]
        return replace(program, entry=replace(program.entry, operations=tuple(operations)))

    numbers = {
        float(Constant.of(each).literal.constant)
        for each in program.entry.operations
        if each.opcode == "constant" and each.shape.dtype == "f32" and not each.shape.rank
    }
    polynomials = [number for number in numbers if 0.36 < abs(number) < 0.8 and number != 0.5]
    assert polynomials
    for number in map(np.float32, polynomials):
        assert "gelu_erf" not in _activations(other(number)), number
