"""Transposed convolutions are plain ones, phase by phase."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.verifier import verify

_CHANNELS, _FILTERS, _LENGTH = 3, 5, 6
_BEFORE, _AFTER = (0, 3, 1, 2), (3, 2, 0, 1)


def _program(sides: tuple[tuple[int, ...], ...], out: tuple[int, int], *, swapped: bool) -> Program:
    """The convolution, a bias and ReLU; `swapped`: filters lie as TensorFlow's transposed convolutions have them."""
    writer = Writer()
    x = writer.input(_LENGTH, _LENGTH, _CHANNELS)
    channels = (_FILTERS, _CHANNELS) if swapped else (_CHANNELS, _FILTERS)
    filters = writer.constant(np.random.default_rng(3).normal(size=(sides[0][0], sides[1][0], *channels)))
    sizes = (N, *out, _FILTERS)
    kernel = (2, 3, 0, 1) if swapped else _AFTER
    made = writer.add(
        "convolution", sizes, x, filters, input=_BEFORE, kernel=kernel, output=_BEFORE, window=sides,
        feature_groups=1, batch_groups=1,
    )  # fmt: skip
    bias = writer.add("broadcast", sizes, writer.constant(np.arange(_FILTERS) - 2.5), dimensions=(3,))
    total = writer.add("add", sizes, made, bias)
    return writer.program(writer.add("maximum", sizes, total, writer.spread(0.0, *out, _FILTERS)))


# Size, stride, padding before and behind, dilation of the window and of the image; and the convolutions made of it.
_TWO = (2, 1, 1, 1, 1, 2)  # each place of the output sees one element
_THREE = (3, 1, 1, 2, 1, 2)  # one or two
_FIVE = (5, 1, 4, 2, 1, 3)
_ODD, _SHORT = (3, 1, 1, 1, 1, 2), (5, 1, 4, 1, 1, 3)  # the last phase has one place less
_PLAIN = (3, 1, 1, 1, 1, 1)


@pytest.mark.sweep("sides1-out1-4-True", "sides2-out2-3-False", "sides3-out3-6-True")
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("sides", "out", "convolutions"),
    [
        ((_TWO, _TWO), (12, 12), 1),
        ((_THREE, _THREE), (12, 12), 4),
        ((_FIVE, _PLAIN), (18, 6), 3),
        ((_ODD, _SHORT), (11, 17), 6),
    ],
)
def test_a_transposed_convolution_is_a_plain_one_for_each_phase(
    compiled: Compile, sides: tuple[tuple[int, ...], ...], out: tuple[int, int], convolutions: int, swapped: bool
) -> None:
    program = _program(sides, out, swapped=swapped)
    made = recognize(simplify(program))
    verify(made)
    opcodes = [each.opcode for each in made.entry.operations]
    assert opcodes.count("conv2d") == convolutions
    assert not {"convolution", "add", "maximum"} & set(opcodes)
    values = np.random.default_rng(7).normal(size=(5, _LENGTH, _LENGTH, _CHANNELS)).astype(np.float32)
    (wanted,) = interpret.run(program, 5, [values])
    code = compiled(made, 2)
    (whole,) = code(values)
    np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(code(values[1:4])[0], whole[1:4])


@pytest.mark.parametrize(
    ("depth", "layers", "convolutions"),
    [((2, 1, 1, 1, 1, 2), 8, 2), ((3, 1, 1, 2, 1, 2), 8, 2), ((5, 1, 4, 1, 1, 3), 11, 3), ((3, 1, 2, 2, 1, 2), 9, 2)],
)
def test_a_transposed_convolution_of_volumes_is_one_of_images_for_each_phase_of_the_depth(
    compiled: Compile, depth: tuple[int, ...], layers: int, convolutions: int
) -> None:
    writer, laid = Writer(), (0, 4, 1, 2, 3)
    x = writer.input(4, 5, 6, _CHANNELS)
    filters = writer.constant(np.random.default_rng(3).normal(size=(depth[0], 2, 3, _CHANNELS, _FILTERS)))
    made = writer.add(
        "convolution", (N, layers, 10, 6, _FILTERS), x, filters, input=laid, kernel=(4, 3, 0, 1, 2), output=laid,
        window=(depth, _TWO, _PLAIN), feature_groups=1, batch_groups=1,
    )  # fmt: skip
    program = writer.program(made)
    simple = recognize(simplify(program))
    verify(simple)
    opcodes = [each.opcode for each in simple.entry.operations]
    assert opcodes.count("conv2d") == convolutions
    assert "convolution" not in opcodes
    values = np.random.default_rng(7).normal(size=(5, 4, 5, 6, _CHANNELS)).astype(np.float32)
    (wanted,) = interpret.run(program, 5, [values])
    code = compiled(simple, 2)
    (whole,) = code(values)
    np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(code(values[1:4])[0], whole[1:4])
