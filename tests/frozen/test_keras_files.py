"""Keras files become SavedModels with the author's names and Keras's own answers, and none of their code is run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.bad_input.conftest import CommandLine
from tests.toolchains import VERSIONS
from tfaot_pkg.errors import ModelError
from tfaot_pkg.process import run
from tfaot_pkg.progress import Silent
from tfaot_pkg.settings import Folders
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.toolchain.definition import DEFAULT_VERSION, NEWEST_VERSION
from tfaot_pkg.toolchain.environment import ensure
from tfaot_pkg.toolchain.worker import WorkerPool
from tfaot_pkg.worker_program.messages.conversions import ConvertKeras
from tfaot_pkg.worker_program.messages.requests import Nothing, Reference, Referenced

_PROGRAM = Path(__file__).with_name("keras_files.py")
_SAVED = Path(__file__).with_name("artifacts") / "keras"
"""Files that Keras saved with other backends than TensorFlow, and the answers of these (make_keras.py)."""
_TOWERS = ["kind", "mass"]
_OUTPUTS = {
    "towers.keras": _TOWERS,
    "towers.h5": _TOWERS,
    "named.keras": ["all", "total"],
    "lookup.keras": ["score"],
    "chain.keras": ["score"],
    "chain.h5": ["score"],
    "nested.h5": ["score"],
    "jax.keras": ["kind"],
    "torch.keras": ["kind"],
}
_ROOT_MEAN_SQUARE = """
import sys
import keras
keras.Sequential([keras.Input((6,), name="x"), keras.layers.RMSNormalization(name="score")]).save(sys.argv[1])
"""
_CODE = "the Keras model has Python code in a Lambda layer 'twice', which is not run"
_REFUSED = {
    "code.keras": _CODE,
    "code.h5": _CODE,
    "own.keras": "the Keras model has a class of its author's, Doubled 'mine'",
}


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_keras_files_give_kerass_answers_and_their_code_is_refused(
    tensorflow: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    environment = ensure(tensorflow, folders=folders, progress=Silent())
    with WorkerPool(environment, scratch_root=tmp_path / "scratch", logs=tmp_path / "logs") as pool:
        given = pool.given_folder("keras")
        run([environment.python, "-I", "-B", _PROGRAM, given], timeout=250)
        shutil.copytree(_SAVED, given, dirs_exist_ok=True)

        def converted(name: str) -> Path:
            made = pool.new_folder(name)
            pool.get(number=1).call(ConvertKeras(file=str(given / name), out=str(made)), Nothing)
            return made

        for name, outputs in _OUTPUTS.items():
            found, expected = _answers(pool, converted(name), given / name), _arrays(given / f"{name}.answers.npz")
            assert sorted(expected) == outputs
            assert {f"4/{each}" for each in outputs} == set(found)
            for each in outputs:
                np.testing.assert_allclose(found[f"4/{each}"], expected[each], rtol=1e-6, atol=1e-6)
        assert {name: _refusal(partial(converted, name)).message for name in _REFUSED} == _REFUSED
        assert "save it as .h5" in _refusal(partial(converted, "nested.keras")).hint


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(300)
def test_init_takes_the_newest_toolchain_for_a_file_of_its_keras(shared_home_folder: Path, tmp_path: Path) -> None:
    """The default toolchain's Keras does not have this layer yet."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    environment = ensure(NEWEST_VERSION, folders=folders, progress=Silent())
    model, spec = tmp_path / "model.keras", tmp_path / "spec.yaml"
    run([environment.python, "-I", "-B", "-c", _ROOT_MEAN_SQUARE, model], timeout=250)
    (tmp_path / "scratch").mkdir()
    tfaot = CommandLine(home=shared_home_folder, scratch=tmp_path / "scratch")
    tfaot.fails("init", model, "-o", spec, "--tensorflow", DEFAULT_VERSION, code=12,
                says=[f"cannot load {model}"], hints="choose a newer toolchain")  # fmt: skip
    assert not spec.exists()
    done = tfaot.run("init", model, "-o", spec)
    assert f"the spec chooses TensorFlow {NEWEST_VERSION} instead of {DEFAULT_VERSION}" in done.stderr, done
    assert load_spec(spec).compilation.tensorflow == NEWEST_VERSION
    tfaot.works("check", spec)


def _answers(pool: WorkerPool, folder: Path, file: Path) -> dict[str, np.ndarray]:
    out = pool.new_folder("answers") / "answers.npz"
    inputs = file.with_name(f"{file.name}.inputs.npz")
    asked = Reference(
        folder=str(folder), tags=("serve",), signature="serving_default", inputs=str(inputs), out=str(out),
        batch_sizes=(4,), batched=tuple(_arrays(inputs)), stacked=tuple(_OUTPUTS[file.name]),
    )  # fmt: skip
    pool.get().call(asked, Referenced)
    return _arrays(out)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def _refusal(convert: Callable[[], object]) -> ModelError:
    with pytest.raises(ModelError) as caught:
        convert()
    return caught.value
