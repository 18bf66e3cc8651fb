"""Transposed convolutions are plain ones, phase by phase, or one call of the kernel library if filters are few."""

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


def _program(
    sides: tuple[tuple[int, ...], ...], out: tuple[int, int], *, swapped: bool, count: int = _FILTERS
) -> Program:
    """The convolution, a bias and ReLU; `swapped`: filters lie as TensorFlow's transposed convolutions have them."""
    writer = Writer()
    x = writer.input(_LENGTH, _LENGTH, _CHANNELS)
    channels = (count, _CHANNELS) if swapped else (_CHANNELS, count)
    filters = writer.constant(np.random.default_rng(3).normal(size=(sides[0][0], sides[1][0], *channels)))
    sizes = (N, *out, count)
    kernel = (2, 3, 0, 1) if swapped else _AFTER
    made = writer.add(
        "convolution", sizes, x, filters, input=_BEFORE, kernel=kernel, output=_BEFORE, window=sides,
        feature_groups=1, batch_groups=1,
    )  # fmt: skip
    bias = writer.add("broadcast", sizes, writer.constant(np.arange(count) - 2.5), dimensions=(3,))
    total = writer.add("add", sizes, made, bias)
    return writer.program(writer.add("maximum", sizes, total, writer.spread(0.0, *out, count)))


# Size, stride, padding before and behind, dilation of the window and of the image; and the convolutions made of it.
_TWO = (2, 1, 1, 1, 1, 2)  # each place of the output sees one element
_THREE = (3, 1, 1, 2, 1, 2)  # one or two
_FIVE = (5, 1, 4, 2, 1, 3)
_ODD, _SHORT = (3, 1, 1, 1, 1, 2), (5, 1, 4, 1, 1, 3)  # the last phase has one place less
_FOUR, _FIVE_OF_FOUR = (4, 1, 2, 2, 1, 2), (5, 1, 4, 3, 1, 4)
_SIX = (6, 1, 4, 3, 1, 3)
_PLAIN = (3, 1, 1, 1, 1, 1)


@pytest.mark.sweep("sides0-out0-1-False", "sides1-out1-4-True", "sides2-out2-0-False", "sides7-out7-3-True")
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("sides", "out", "convolutions"),
    [
        ((_TWO, _TWO), (12, 12), 1),
        ((_THREE, _THREE), (12, 12), 4),
        ((_FIVE, _PLAIN), (18, 6), 0),  # one call for lines with few filters
        ((_ODD, _SHORT), (11, 17), 4),  # two phases of a line read the same windows
        ((_FOUR, _FOUR), (12, 12), 2),  # a line's phases: the windows of the next place
        ((_PLAIN, _FOUR), (6, 12), 1),
        ((_FOUR, _FIVE_OF_FOUR), (12, 24), 4),
        ((_SIX, _SIX), (18, 18), 3),
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
    assert opcodes.count("transposed_conv2d") == (not convolutions)
    assert not {"convolution", "add", "maximum"} & set(opcodes)
    values = np.random.default_rng(7).normal(size=(5, _LENGTH, _LENGTH, _CHANNELS)).astype(np.float32)
    (wanted,) = interpret.run(program, 5, [values])
    code = compiled(made, 2)
    (whole,) = code(values)
    np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(code(values[1:4])[0], whole[1:4])


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("sides", "out"),
    [
        ((_THREE, _THREE), (12, 12)),
        ((_FIVE, _FIVE), (18, 18)),
        ((_ODD, _SHORT), (11, 17)),
        ((_FOUR, _FOUR), (12, 12)),
        ((_PLAIN, _FOUR), (6, 12)),
        ((_FOUR, _FIVE_OF_FOUR), (12, 24)),
        ((_SIX, _PLAIN), (18, 6)),
    ],
)
def test_few_filters_are_one_call_for_all_phases(
    compiled: Compile, sides: tuple[tuple[int, ...], ...], out: tuple[int, int], count: int
) -> None:
    program = _program(sides, out, swapped=True, count=count)
    made = recognize(simplify(program))
    verify(made)
    opcodes = {each.opcode for each in made.entry.operations}
    assert opcodes == {"parameter", "constant", "transposed_conv2d"}
    values = np.random.default_rng(7).normal(size=(5, _LENGTH, _LENGTH, _CHANNELS)).astype(np.float32)
    (wanted,) = interpret.run(program, 5, [values])
    code = compiled(made, 2)
    (whole,) = code(values)
    np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(code(values[1:4])[0], whole[1:4])


@pytest.mark.parametrize(
    ("channels", "filters", "count"),
    [(2, 3, 1), (2, 4, 1), (2, 5, 2), (32, 16, 4)],
    ids=["all phases fill no panel", "they fill one", "those of a line share one", "each fills one"],
)
def test_few_filters_share_a_convolution_with_those_of_other_phases(
    channels: int, filters: int, count: int, compiled: Compile
) -> None:
    writer = Writer()
    x = writer.input(8, 8, channels)
    kernel = writer.constant(np.random.default_rng(3).normal(size=(4, 4, channels, filters)))
    made = writer.add(
        "convolution", (N, 16, 16, filters), x, kernel, input=_BEFORE, kernel=_AFTER, output=_BEFORE,
        window=(_FOUR, _FOUR), feature_groups=1, batch_groups=1,
    )  # fmt: skip
    program = writer.program(made)
    simple = recognize(simplify(program))
    verify(simple)
    assert [each.opcode for each in simple.entry.operations].count("conv2d") == count
    values = np.random.default_rng(7).normal(size=(3, 8, 8, channels)).astype(np.float32)
    (wanted,) = interpret.run(program, 3, [values])
    code = compiled(simple, 2)
    (whole,) = code(values)
    np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(code(values[1:2])[0], whole[1:2])


@pytest.mark.parametrize("sides", [_TWO, _THREE, _FOUR], ids=["2", "3", "4"])
@pytest.mark.parametrize(("channels", "groups"), [(4, 2), (20, 20)], ids=["two groups", "depthwise"])
def test_groups_of_channels_are_plain_convolutions_too(
    channels: int, groups: int, sides: tuple[int, ...], compiled: Compile
) -> None:
    writer = Writer()
    x = writer.input(5, 6, channels)
    filters = writer.constant(
        np.random.default_rng(3).normal(size=(sides[0], sides[0], channels // groups, 2 * channels))
    )
    made = writer.add(
        "convolution", (N, 10, 12, 2 * channels), x, filters, input=_BEFORE, kernel=_AFTER, output=_BEFORE,
        window=(sides, sides), feature_groups=groups, batch_groups=1,
    )  # fmt: skip
    program = writer.program(made)
    simple = recognize(simplify(program))
    verify(simple)
    opcodes = [each.opcode for each in simple.entry.operations]
    assert opcodes.count("conv2d") == 4
    assert "convolution" not in opcodes
    values = np.random.default_rng(7).normal(size=(3, 5, 6, channels)).astype(np.float32)
    (wanted,) = interpret.run(program, 3, [values])
    (whole,) = compiled(simple, 2)(values)
    np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-5)


def test_nan_reaches_the_pixels_that_see_it_and_no_other(compiled: Compile) -> None:
    # Phases that share a convolution have one place more, which sees other pixels.
    program = _program((_FOUR, _FOUR), (12, 12), swapped=False)
    values = np.random.default_rng(7).normal(size=(1, _LENGTH, _LENGTH, _CHANNELS)).astype(np.float32)
    values[0, 2, 3, 1] = np.nan
    (whole,) = compiled(recognize(simplify(program)), 2)(values)
    # Pixel 2 is between 1 and 5 of the output: 2 * 2 - 1 up to 2 * 2 + 2.
    seen = np.zeros((12, 12), bool)
    seen[3:7, 5:9] = True
    np.testing.assert_array_equal(np.isnan(whole).any(axis=(0, 3)), seen)
    np.testing.assert_array_equal(np.isnan(whole).all(axis=(0, 3)), seen)


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
