"""examples/graphdef: built as its CMakeLists.txt says, the program gives TensorFlow's answers to the frozen graph."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cmake.conftest import REPOSITORY, TOOLS
from tests.consumers.conftest import WARNINGS, cmake_build, environment
from tests.coverage import verified
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

_FEATURES = ["0.5", "-1", "2", "0.25", "1", "1", "1", "1", "-3", "0.125", "0", "2.5"]
_SESSION = """
import sys
import tensorflow as tf
from google.protobuf import text_format

graph = text_format.Parse(open(sys.argv[1]).read(), tf.compat.v1.GraphDef())
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.import_graph_def(graph, name="")
    jets = [[float(each) for each in sys.argv[2:]][start : start + 4] for start in (0, 4, 8)]
    feeds = {"jet/features-v2:0": jets, "is_training:0": False, "keep_prob:0": 1.0}
    for row in session.run("tag/Softmax:0", feeds):
        print(*row)
"""


@pytest.mark.coverage
@pytest.mark.release
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_the_program_gives_tensorflows_answers_to_a_frozen_graph(shared_home_folder: Path, tmp_path: Path) -> None:
    source = REPOSITORY / "examples" / "graphdef"
    env = environment(TFAOT_HOME=str(shared_home_folder), PYTHONPATH=str(REPOSITORY))
    options = [
        f"-Dtfaot-pkg_DIR={resources.cmake_package()}",
        f"-DTFAOT_PKG_COMMAND={TOOLS}/{Path(sys.executable).name};-m;tfaot_pkg",
        f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}",
    ]
    with verified("graphs: frozen GraphDef", version="2.17.1", engine="program"):
        build = cmake_build(tmp_path / "build", *options, env=env, source=source)
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = ensure("2.17.1", folders=folders, progress=Silent()).python
    expected = run([python, "-I", "-B", "-c", _SESSION, source / "tagger.pbtxt", *_FEATURES], timeout=120).stdout
    said = run([build / "tag", *_FEATURES], env=env).stdout
    np.testing.assert_allclose(_rows(said), _rows(expected), rtol=1e-4, atol=2e-6)  # six digits are printed
    info = (build / "tfaot/tagger/share/tfaot-model-tagger/spec.yaml").read_text()
    assert "jet/features-v2: features" in info and "tag/Softmax: probability" in info


def _rows(text: str) -> list[list[float]]:
    return [[float(word) for word in line.split()] for line in text.splitlines()]
