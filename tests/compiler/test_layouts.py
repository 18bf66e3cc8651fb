"""Transposes around convolutions meet their opposites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiler.test_answers import models_of
from tfaot_pkg.compiler.recognize import recognize
from tfaot_pkg.compiler.simplify import simplify
from tfaot_pkg.toolchain.definition import DEFAULT_VERSION

pytestmark = pytest.mark.slow  # TensorFlow makes the models


def test_images_with_channels_first_are_transposed_once(shared_home_folder: Path) -> None:
    model = models_of(shared_home_folder, DEFAULT_VERSION, "convolutions")["channels first"]
    operations = recognize(simplify(model.program)).entry.operations
    layers = [each for each in operations if each.opcode == "conv2d"]
    assert [each.attributes["activation"] for each in layers] == ["relu", "relu"]
    assert all(len(each.operands) == 3 for each in layers)  # the bias is the layer's
    images = [each for each in operations if each.opcode == "transpose" and each.shape.rank == 4]
    assert len(images) == 1  # the input
