"""Keras files become SavedModels with the author's names and the answers of the Keras that wrote them.

None of their code is run, and nothing that they name is imported.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from tests.bad_input.conftest import CommandLine
from tests.toolchains import VERSIONS
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, NEWEST_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.spec.parse import load_spec
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
_SCORE = ["score"]
_OF_KERAS_2 = {
    "recurrent.h5": _SCORE,
    "pictures.h5": _SCORE,
    "vectors.h5": _SCORE,
    "attention.h5": _SCORE,
    "calls.h5": _SCORE,
    "calls.keras": _SCORE,
    "towers.h5": ["mass", "score"],
    "towers.keras": ["mass", "score"],
    "counted.keras": _SCORE,
    "keras1.h5": _SCORE,
    "tensorflow1.h5": _SCORE,
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
_HOSTILE = Path(__file__).with_name("hostile_keras_files.py")
_LAMBDA = "Lambda layer"
_FUNCTION = "a function of its author's"
_NAMED_BY_HOSTILE = {
    "lambda2.h5": _LAMBDA,
    "lambda2.keras": _LAMBDA,
    "lambda3.h5": _LAMBDA,
    "lambda3.keras": _LAMBDA,
    "cell2.h5": "no class ResidualWrapper",
    "dotted2.keras": "no class lambda_layer.Lambda",
    "registered2.keras": "a class of its author's, Quiet",
    "value2.keras": "a class of its author's, __tuple__",
    "writes2.h5": "'io.write_file'",
    "library2.h5": "'load_op_library'",
    "operation2.h5": "WriteFile",
    "method2.h5": "ClassMethod",
    "function2.keras": f"{_FUNCTION}, 'get_file'",
    "function3.keras": f"{_FUNCTION}, 'get_file'",
    "loader2.keras": f"{_FUNCTION}, 'func_load'",
    "unsafe3.keras": f"{_FUNCTION}, 'enable_unsafe_deserialization'",
    "activation3.h5": f"{_FUNCTION}, 'system'",
    "vocabulary3.keras": "reads its vocabulary from another file, '/etc/hostname'",
    "elsewhere3.keras": "TFSMLayer",
    "pickle2.keras": "'model.weights.npz'",
    "pickle3.keras": "'model.weights.npz'",
}
_RUN_BY_KERAS = {
    "2.17.1": {"lambda2.h5", "lambda3.h5", "writes2.h5", "pickle2.keras", "pickle3.keras"},
    "2.21.0": {"lambda2.h5", "writes2.h5"},
}
"""Files whose code their own Keras runs, in safe mode."""


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_keras_files_give_kerass_answers_and_their_code_is_refused(
    tensorflow: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    with _pool(tensorflow, shared_home_folder, tmp_path) as pool:
        given = _given(pool, _PROGRAM)
        shutil.copytree(_SAVED, given, dirs_exist_ok=True)
        _require_same_answers(pool, given, _OUTPUTS)
        assert {name: _refusal(pool, given / name).message for name in _REFUSED} == _REFUSED
        assert "save it as .h5" in _refusal(pool, given / "nested.keras").hint
        if tensorflow != DEFAULT_VERSION:
            _require_same_answers(pool, given, {"binned.keras": _SCORE})
            return
        # Keras 3.6 gives other bins in a graph than eagerly, so the author must choose.
        file = given / "binned.keras"
        refused, predicted = _refusal(pool, file), _arrays(given / "binned.keras.predicted.npz")["score"]
        assert refused.newer and "the layer 'bins' (Discretization)" in refused.message
        found = _answers(pool, _converted(pool, file, answers="predict"), file, _SCORE)["4/score"]
        np.testing.assert_allclose(found, predicted, rtol=1e-6, atol=1e-6)
        assert not np.allclose(found, _arrays(given / "binned.keras.answers.npz")["score"])


@pytest.mark.sweep(night=["2.17.1"])
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_files_of_keras_2_give_the_answers_of_keras_2(
    tensorflow: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    with _pool(tensorflow, shared_home_folder, tmp_path) as pool:
        _require_same_answers(pool, _given(pool, _PROGRAM.with_name("keras2_files.py")), _OF_KERAS_2)


@pytest.mark.sweep("2.17.1", night=[])
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_what_keras_would_run_is_refused_before_keras_reads_the_file(
    tensorflow: str, shared_home_folder: Path, tmp_path: Path
) -> None:
    with _pool(tensorflow, shared_home_folder, tmp_path) as pool:
        given = _given(pool, _HOSTILE)
        told = {name: _refusal(pool, given / name).message for name in _NAMED_BY_HOSTILE}
        assert {name: text for name, text in told.items() if _NAMED_BY_HOSTILE[name] not in text} == {}
        assert not list(given.glob("*.ran"))
        python = pool.environment.python
        run_by_keras = run([python, "-I", "-B", _HOSTILE, given, *sorted(_NAMED_BY_HOSTILE)], timeout=250).stdout
        assert set(run_by_keras.split()) >= _RUN_BY_KERAS[tensorflow]


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


def _pool(tensorflow: str, home: Path, scratch: Path) -> WorkerPool:
    folders = Folders(cache=home / "cache", data=home / "data")
    environment = ensure(tensorflow, folders=folders, progress=Silent())
    return WorkerPool(environment, scratch_root=scratch / "scratch", logs=scratch / "logs")


def _given(pool: WorkerPool, program: Path) -> Path:
    """A folder that workers read, with the files that `program` writes."""
    given = pool.given_folder("keras")
    run([pool.environment.python, "-I", "-B", program, given], timeout=250)
    return given


def _converted(pool: WorkerPool, file: Path, *, answers: Literal["call", "predict"] = "call") -> Path:
    made = pool.new_folder(file.name)
    pool.get(number=1).call(ConvertKeras(file=str(file), out=str(made), answers=answers), Nothing)
    return made


def _require_same_answers(pool: WorkerPool, given: Path, outputs_of: dict[str, list[str]]) -> None:
    for name, outputs in outputs_of.items():
        file, expected = given / name, _arrays(given / f"{name}.answers.npz")
        assert sorted(expected) == outputs
        found = _answers(pool, _converted(pool, file), file, outputs)
        assert {f"4/{each}" for each in outputs} == set(found)
        for each in outputs:
            np.testing.assert_allclose(found[f"4/{each}"], expected[each], rtol=1e-6, atol=1e-6, err_msg=name)


def _answers(pool: WorkerPool, folder: Path, file: Path, outputs: list[str]) -> dict[str, np.ndarray]:
    out = pool.new_folder("answers") / "answers.npz"
    inputs = file.with_name(f"{file.name}.inputs.npz")
    asked = Reference(
        folder=str(folder), tags=("serve",), signature="serving_default", inputs=str(inputs), out=str(out),
        batch_sizes=(4,), batched=tuple(_arrays(inputs)), stacked=tuple(outputs),
    )  # fmt: skip
    pool.get().call(asked, Referenced)
    return _arrays(out)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def _refusal(pool: WorkerPool, file: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        _converted(pool, file)
    return caught.value
