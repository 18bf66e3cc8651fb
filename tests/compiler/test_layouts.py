"""Convolutions become those of images; transposes around them meet their opposites."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import Compile, nests
from tests.compiler.test_answers import models_of
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Layer
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import ONE, ZERO, Program, Size
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION

pytestmark = pytest.mark.slow  # TensorFlow makes models


def _layouts() -> Program:
    """As Flax has convolutions over one axis, as Equinox has those of images, by groups, and over three axes."""
    writer, random = Writer(), np.random.default_rng(5)

    def convolved(x: int, of: tuple[int, ...], sizes: tuple[int, ...], **more: Any) -> int:
        filters = writer.constant(random.normal(size=of))
        return writer.add("convolution", (N, *sizes), x, filters, **{"feature_groups": 1, "batch_groups": 1, **more})

    last, first, volume = (0, 2, 1), (0, 1, 2, 3), (0, 1, 2, 3, 4)
    series, image, layers = writer.input(9, 4), writer.input(4, 7, 6), writer.input(2, 6, 5, 5)
    return writer.program(
        convolved(
            series, (3, 4, 6), (5, 6), input=last, kernel=(2, 1, 0), output=last, window=((3, 2, 1, 1, 1, 1),)
        ),
        convolved(
            image, (8, 2, 3, 3), (8, 7, 4), input=first, kernel=first, output=first, feature_groups=2,
            window=((3, 1, 2, 2, 2, 1), (3, 1, 0, 0, 1, 1)),
        ),
        convolved(
            layers, (4, 2, 3, 3, 2), (4, 3, 5, 4), input=volume, kernel=volume, output=volume,
            window=((3, 2, 1, 1, 1, 1), (3, 1, 1, 1, 1, 1), (2, 1, 0, 0, 1, 1)),
        ),
    )  # fmt: skip


def test_a_convolution_of_any_layout_is_one_of_the_kernel_librarys(compiled: Compile) -> None:
    program = _layouts()
    made = recognize(simplify(program))
    verify(made)
    opcodes = [each.opcode for each in made.entry.operations]
    assert (opcodes.count("conv2d"), opcodes.count("convolution")) == (3, 0)
    random = np.random.default_rng(7)
    values = [random.normal(size=(5, *sizes)).astype(np.float32) for sizes in ((9, 4), (4, 7, 6), (2, 6, 5, 5))]
    code = compiled(made, 2)
    for got, alone, wanted in zip(
        code(*values), code(*(each[1:4] for each in values)), interpret.run(program, 5, values), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(alone, got[1:4])


_AROUND = ((0, 0, 0), (1, 2, 0), (2, 1, 0), (0, 0, 0))


def _depthwise(value: float, groups: int) -> Program:
    """A convolution with stride 2 behind numbers around its image, as PyTorch's exporters write it."""
    writer, laid = Writer(), (0, 3, 1, 2)
    image = writer.add("pad", (N, 23, 33, 4), writer.input(20, 30, 4), writer.constant(value), padding=_AROUND)
    filters = writer.constant(np.random.default_rng(5).normal(size=(3, 3, 4 // groups, 4)))
    made = writer.add(
        "convolution", (N, 11, 16, 4), image, filters, input=laid, kernel=(3, 2, 0, 1), output=laid,
        window=((3, 2, 0, 0, 1, 1),) * 2, feature_groups=groups, batch_groups=1,
    )  # fmt: skip
    return writer.program(made)


@pytest.mark.parametrize(("value", "groups", "kept"), [(0.0, 4, 0), (-0.0, 4, 1), (0.5, 4, 1), (0.0, 1, 1)])
def test_zeros_around_an_image_are_padding_of_a_depthwise_convolution(
    compiled: Compile, value: float, groups: int, kept: int
) -> None:
    program = _depthwise(value, groups)
    made = recognize(simplify(program))
    opcodes = [each.opcode for each in made.entry.operations]
    assert (opcodes.count("conv2d"), opcodes.count("pad")) == (1, kept)
    image = np.random.default_rng(7).normal(size=(3, 20, 30, 4)).astype(np.float32)
    (wanted,) = interpret.run(program, 3, [image])
    np.testing.assert_allclose(compiled(made, 2)(image)[0], wanted, rtol=1e-5, atol=1e-5)


def test_only_what_is_around_an_image_is_filled(compiled: Compile) -> None:
    writer = Writer()
    padded = writer.add("pad", (N, 23, 33, 16), writer.input(20, 30, 16), writer.constant(0.5), padding=_AROUND)
    program = writer.program(padded)
    loops = [each for each in nests(program) if isinstance(each, EachLoop)]
    # No element is written twice.
    assert sum((prod(each.inner.extents, start=ONE) for each in loops), start=ZERO) == N * Size(23 * 33 * 16)
    image = np.random.default_rng(7).normal(size=(3, 20, 30, 16)).astype(np.float32)
    wanted = np.pad(image, [(low, high) for low, high, _ in _AROUND], constant_values=0.5)
    np.testing.assert_array_equal(compiled(program, 2)(image)[0], wanted)


@pytest.mark.release
def test_images_with_channels_first_are_transposed_once(shared_home_folder: Path) -> None:
    model = models_of(shared_home_folder, DEFAULT_VERSION, "convolutions")["channels first"]
    operations = recognize(simplify(model.program)).entry.operations
    layers = [each for each in operations if each.opcode == "conv2d"]
    assert [Layer.of(each).activation for each in layers] == ["relu", "relu"]
    assert all(len(each.operands) == 3 for each in layers)  # the bias is the layer's
    images = [each for each in operations if each.opcode == "transpose" and each.shape.rank == 4]
    assert len(images) == 1  # the input


@pytest.mark.slow  # compiles its code
@pytest.mark.parametrize("simplified", [False, True])
def test_a_number_has_no_axes_to_pad(compiled: Compile, simplified: bool) -> None:
    writer = Writer()
    x, number = writer.input(4), writer.constant(3.0)
    padded = writer.add("pad", (), number, writer.constant(0.5), padding=())
    made = writer.program(writer.add("add", (N, 4), x, writer.add("broadcast", (N, 4), padded, dimensions=())))
    given = np.arange(12, dtype=np.float32).reshape(3, 4)
    program = simplify(made) if simplified else made
    for answers in (compiled(program, 4)(given), interpret.run(program, 3, [given])):
        np.testing.assert_array_equal(answers[0], given + 3)
