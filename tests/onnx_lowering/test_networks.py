"""Networks in ONNX files, lowered operator by operator, give ONNX Runtime's answers at several batch sizes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.kept import kept
from tests.onnx_lowering.graphs import WORKER, answers_of, arrays_of, frontend, model_in, symbols_of, valid
from tfaot_pkg.compiler import passes
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.frozen.model import worker_program_digest
from tfaot_pkg.keys import sha256_file
from tfaot_pkg.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]
_MAKER = Path(__file__).with_name("onnx_networks.py")
_FILES = Path(__file__).resolve().parents[1] / "frozen" / "onnx_files.py"
_LEAST, _MOST = 4, 16
"""Of axes of any size."""

REFUSED = {
    "classes_by_support_vectors": "ai.onnx.ml.SVMClassifier",
    "classifier_of_catboost": "ai.onnx.ml.LinearClassifier",
    "classifiers_of_two_things": "ai.onnx.ml.LinearClassifier",
    "counted_masks": "com.microsoft.EmbedLayerNormalization",
    "encoded": "ai.onnx.ml.LabelEncoder",
    "images_sampled": "GridSample",
    "lists": "SplitToSequence",
    "optimized": "com.microsoft.SkipLayerNormalization",
    "quantized_by_tools": "com.microsoft.QGemm",
    "settings_as_inputs": "ReduceMean",  # its axes are an input, to which a spec gives a value
    "sounds": "STFT",
}
"""Networks with an operator that has no lowering."""
LAYERS = {
    "dense": {"dense": 2, "softmax": 1},
    "images_2d": {"conv2d": 6},
    "residual_1d": {"conv2d": 6, "max_pool": 1, "dense": 1},
    "transformer": {"dense": 6, "dot": 2, "softmax": 1},
    "lstm_stack": {"dense": 5, "while": 2},
    "class_token": {"dot": 2, "softmax": 1},
}
"""What the compiler finds in a program: the layers that the file names."""


@pytest.fixture(scope="session")
def networks(shared_home_folder: Path) -> Path:
    """A folder for each network (onnx_networks.py)."""
    python = frontend(shared_home_folder)
    parts = {"maker": sha256_file(_MAKER), "files": sha256_file(_FILES), "worker": worker_program_digest()}

    def make(folder: Path) -> None:
        files = folder / "files"
        files.mkdir()
        run([python, "-I", _FILES, files], timeout=300)
        run([python, "-I", _MAKER, WORKER, files, folder], timeout=300)

    return kept(shared_home_folder, "onnx_lowering", parts, make)


def test_networks_give_onnx_runtimes_answers_before_and_after_all_passes(networks: Path) -> None:
    found, differences, layers = {}, {}, {}
    for folder in sorted(path.parent for path in networks.glob("*/graph.json")):
        model = model_in(folder)
        try:
            program = valid(model, symbols_of(model, _LEAST, _MOST))
        except Unsupported as error:
            found[folder.name] = str(error).partition(" ")[0]
            continue
        raised = passes.run(program)
        assert emit(raised, "network").source
        layers[folder.name] = [each.opcode for each in raised.entry.everything()]
        for rows in (1, 2, 5):
            inputs, theirs = arrays_of(folder / f"{rows}.npz")
            for which in (program, raised):
                ours = answers_of(which, model, inputs, rows)
                for key, wanted in theirs.items():
                    assert (ours[key].dtype, ours[key].shape) == (wanted.dtype, wanted.shape), folder.name
                    apart = np.abs(ours[key].astype(float) - wanted.astype(float)).max(initial=0)
                    differences[folder.name, rows] = apart / max(1.0, np.abs(wanted).max(initial=0))
    assert found == REFUSED
    assert len(layers) >= 20
    assert {name: apart for name, apart in differences.items() if not apart < 1e-6} == {}
    for name, counts in LAYERS.items():
        assert {opcode: layers[name].count(opcode) for opcode in counts} == counts, name


def test_a_file_that_tensorflow_cannot_express_is_shown_as_its_operators_say(
    networks: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    """A class token for each row: TensorFlow's static shapes do not see its sizes."""
    variables = {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    shown = run_command(
        ["inspect", str(networks / "class_token.onnx"), "--what", "lowered"], cwd=tmp_path, env=variables
    )
    assert shown.returncode == 0, shown.stderr
    assert "= softmax " in shown.stdout and "f32[batch,1,8] = broadcast" in shown.stdout
    unlike = run_command(
        ["inspect", str(networks / "files" / "sounds.onnx"), "--what", "lowered"], cwd=tmp_path, env=variables
    )
    assert unlike.returncode != 0 and "STFT (node" in unlike.stderr
