"""Models with layers in calls, compiled for AArch64 and run under an emulator, give TensorFlow's answers."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.native.conftest import AARCH64_OPTIONS, PLACEMENTS, compile_c
from tests.substitution.conftest import BATCH_SIZES, Model
from tests.substitution.test_answers import CENTRED, MODELS, UNSTABLE, assert_answer, outputs_of
from tfaot_pkg.process import run

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.needs_tensorflow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(platform.machine() == "aarch64", reason="the emulator is for other machines"),
]


@pytest.fixture(scope="module")
def command(require_program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """The program answers.c for AArch64, under an emulator."""
    emulator, compiler = require_program("qemu-aarch64"), require_program("aarch64-linux-gnu-gcc")
    require_program("aarch64-linux-gnu-g++")
    program = compile_c("answers", tmp_path_factory.mktemp("programs") / "answers", compiler=compiler)
    return [emulator, *AARCH64_OPTIONS, program]


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_tensorflows_wherever_buffers_lie(
    name: str, build: Callable[..., Model], command: list[str | Path], tmp_path: Path
) -> None:
    model = build(name, targets=("aarch64",))
    assert all(unit.calls for unit in model.compiled.units)
    outputs = outputs_of(model.answers)
    for batch, compared in {
        "rows5": outputs,
        "broken": outputs - UNSTABLE,
        "far": set(CENTRED.get(name, ())),
    }.items():
        _compare(model, command, batch, compared, tmp_path / batch)


def _compare(model: Model, command: list[str | Path], batch: str, outputs: set[str], folder: Path) -> None:
    inputs, results = folder / "inputs", folder / "results"
    results.mkdir(parents=True)
    inputs.mkdir()
    x = model.answers[f"{batch}/in"]
    (inputs / "x.bin").write_bytes(x.tobytes())
    (inputs / "unused.bin").write_bytes(np.zeros((len(x), 2), "float32").tobytes())
    assert run([*command, model.library.shared, "-", inputs, results], timeout=300).stdout == "aarch64\n"
    for size in BATCH_SIZES:
        for placement in PLACEMENTS:
            for name in sorted(outputs):
                expected = model.answers[f"{batch}/out/{name}"][:size]
                data = (results / f"{placement}.{size}.{name}.bin").read_bytes()
                result = np.frombuffer(data, np.float32).reshape(expected.shape)
                assert_answer(name, result, expected, (batch, size, placement))
