"""Large variables keep their values while TensorFlow freezes a graph without them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.conftest import WORKER_PROGRAM
from tests.kept import REPOSITORY
from tests.samples import tfaot
from tests.toolchains import VERSIONS
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.runtime.loader import load


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.parametrize("version", VERSIONS)
def test_tensorflow_freezes_no_values_and_the_graph_has_all(version: str, shared_home_folder: Path) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = ensure(version, folders=folders, progress=Silent()).python
    program = REPOSITORY / "tests" / "models" / "large_variables.py"
    done = run([python, "-I", program, WORKER_PROGRAM], timeout=300)
    without, filled, tensorflows = json.loads(done.stdout.splitlines()[-1])
    assert without < 40_000 and filled == tensorflows > 150_000


_UNITS, _LAYERS = 5600, 4
_DENSE = f"""
import sys
import numpy as np, tensorflow as tf
random = np.random.default_rng(1)
kernels = [tf.Variable(random.standard_normal(({_UNITS}, {_UNITS}), np.float32)) for _ in range({_LAYERS})]
module = tf.Module()
module.kept = kernels
@tf.function(input_signature=[tf.TensorSpec([None, {_UNITS}], tf.float32, name="x")], autograph=False)
def serve(x):
    for kernel in kernels:
        x = tf.tanh(tf.matmul(x, kernel) / {_UNITS} ** 0.5)
    return {{"y": x}}
tf.saved_model.save(module, sys.argv[1], signatures=serve)
"""
_SPEC = """
model: {name: large, version: "1.0.0"}
compilation: {batch_sizes: [1], targets: [x86-64-v3]}
validation: {samples: 2, classes: [scaled]}
"""


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
def test_half_a_gigabyte_of_weights_gives_numpys_answers(
    toolchain_python: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    run([toolchain_python, "-I", "-c", _DENSE, tmp_path / "saved_model"], timeout=300)
    (tmp_path / "spec.yaml").write_text(_SPEC)
    home = tmp_path / "home"  # what is built goes away with the test
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "toolchains").symlink_to(shared_home_folder / "cache" / "toolchains")
    tfaot(home, "build", tmp_path / "spec.yaml", "-o", tmp_path / "prefix")
    library = tmp_path / "prefix" / "lib" / "libtfaot-model-large.so"
    assert library.stat().st_size > _LAYERS * _UNITS**2 * 4
    x = expected = np.random.default_rng(2).standard_normal((3, _UNITS), np.float32)
    random = np.random.default_rng(1)
    for _ in range(_LAYERS):
        expected = np.tanh(expected @ random.standard_normal((_UNITS, _UNITS), np.float32) / np.float32(_UNITS**0.5))
    np.testing.assert_allclose(load("large", prefix=tmp_path / "prefix")(x)["y"], expected, atol=2e-4)
