"""The name that a first spec proposes, and models that `check` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import run_command
from tfaot_pkg.ground.process import run
from tfaot_pkg.pipeline.check import name_from


@pytest.mark.parametrize(
    "place, name",
    [
        ("My-Tagger.v2", "my_tagger_v2"),
        ("digits/saved_model", "digits"),
        ("digits/SavedModel", "digits"),
        ("digits/1", "digits"),
        ("digits/saved_model/1700000000", "digits"),
        ("digits/saved_model_v2", "saved_model_v2"),
        ("digits/../tagger/1", "tagger"),
    ],
)
def test_a_folder_whose_name_says_nothing_gets_that_of_the_folder_above(
    place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits").mkdir()
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path)
    assert name_from(Path(place)) == name
    monkeypatch.chdir(tmp_path / place)
    assert name_from(Path()) == name


def test_a_file_keeps_its_name(tmp_path: Path) -> None:
    file = tmp_path / "1.keras"
    file.touch()
    assert name_from(file) == "1"


_GRADIENT_OF_A_LOOP = """
import sys
import tensorflow as tf

class Gradient(tf.Module):
    def __init__(self):
        self.weights, self.bias = tf.Variable(tf.eye(3)), tf.Variable(tf.zeros([3]))

def export(rows, folder):
    module = Gradient()

    @tf.function(input_signature=[tf.TensorSpec([rows, 5, 3], tf.float32, name="x")])
    def serve(x):
        with tf.GradientTape() as tape:
            weights, bias = tf.identity(module.weights), tf.identity(module.bias)
            steps = tf.TensorArray(tf.float32, 5).unstack(tf.transpose(x, [1, 0, 2]))
            turn = lambda i, h: (i + 1, tf.tanh((steps.read(i) + h) @ weights + bias))
            _, h = tf.while_loop(lambda i, h: i < 5, turn, [0, tf.zeros_like(x[:, 0])], maximum_iterations=5)
            loss = tf.reduce_sum(h * h)
        return {"gradient": tape.gradient(loss, module.bias)}

    tf.saved_model.save(module, folder, signatures=serve)

export(None, sys.argv[1])
export(2, sys.argv[2])
"""
_SPEC = """
model: {{name: gradient, version: 1.0.0, saved_model: {folder}}}
compilation: {{batch_sizes: [2], targets: [x86-64-v3]}}
"""


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(300)
def test_check_refuses_a_gradient_whose_sizes_xla_does_not_know_as_a_build_does(
    toolchain_python: Path, shared_home: Path, tmp_path: Path
) -> None:
    run([toolchain_python, "-I", "-B", "-c", _GRADIENT_OF_A_LOOP, tmp_path / "any", tmp_path / "two"], timeout=200)
    specs = {name: tmp_path / f"{name}.yaml" for name in ("any", "two")}
    for name, spec in specs.items():
        spec.write_text(_SPEC.format(folder=name))
    refused = [run_command([*command, str(specs["any"])]) for command in (["check"], ["inspect", "--what", "hlo"])]
    assert [each.returncode for each in refused] == [12, 12]
    for each in refused:
        assert "XLA cannot compile the model for batch size 2" in each.stderr
        assert (
            "must be known while the model is compiled" in each.stderr
            and "export the function with fixed sizes" in each.stderr
        )
    assert run_command(["check", str(specs["two"])]).returncode == 0
