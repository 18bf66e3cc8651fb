"""ONNX's own tests of its operators: what is read gives the right answers, everything else is refused by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.frozen.onnx_coverage import PAGE, page, results
from tests.toolchains import VERSIONS
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1800)]
_WORKER = Path(__file__).resolve().parents[2] / "tfaot_pkg" / "worker_program"


def test_the_first_test_of_each_operator_passes_or_is_refused(shared_home_folder: Path, tmp_path: Path) -> None:
    found = results(shared_home_folder, tmp_path, which="one")
    assert len(found) > 150
    assert {name: each for name, each in found.items() if each[1] == "failed"} == {}
    assert sum(verdict == "passed" for _, verdict, _ in found.values()) > 130
    assert all(each[2] for each in found.values() if each[1] == "refused")


@pytest.mark.release
def test_random_trees_give_onnx_runtimes_answers(shared_home_folder: Path, tmp_path: Path) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    toolchain = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python)
    program = Path(__file__).with_name("onnx_trees.py")
    for python, what in ((frontend.python, "read"), (toolchain.python, "run")):
        run([python, "-I", program, what, _WORKER, tmp_path, "90"], timeout=300)
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["wrong"] == []
    assert found["right"] > 80
    assert found["exact"] == found["scores"] > 4000


@pytest.mark.release
@pytest.mark.parametrize("version", VERSIONS)
def test_no_test_of_an_operator_fails(version: str, shared_home_folder: Path, tmp_path: Path) -> None:
    found = results(shared_home_folder, tmp_path, version=version)
    assert {name: each for name, each in found.items() if each[1] == "failed"} == {}
    if version == DEFAULT_VERSION:
        assert page(found) == PAGE.read_text(), "python -m tests.frozen.onnx_coverage"


@pytest.mark.sweep("9", night=[])
@pytest.mark.parametrize("step", [9, 1])
def test_operators_give_onnx_runtimes_answers_at_corner_values(
    shared_home_folder: Path, tmp_path: Path, step: int
) -> None:
    """Zeros of both signs, infinities, NaN and the largest numbers; only what uses a NaN or an infinity shows it."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    toolchain = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python)
    program = Path(__file__).with_name("onnx_corners.py")
    for python, what in ((frontend.python, "read"), (toolchain.python, "run")):
        run([python, "-I", program, what, _WORKER, tmp_path, str(step)], timeout=900)
    found = json.loads((tmp_path / "results.json").read_text())
    assert len(found) > 350 // step
    assert {name: fault for name, fault in found.items() if fault} == {}


def test_operators_that_are_not_expanded_are_in_the_table_and_integers_are_exact(shared_home_folder: Path) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    program = (
        f"import sys, json; sys.path.insert(0, {str(_WORKER)!r})\nimport numpy as np, tensorflow as tf\n"
        "from from_onnx import building, graphs, table\n"
        "own = {name for domain, name in table.OPERATORS if domain == 'ai.onnx'}\n"
        "node = table.Node(op='ConvInteger', domain='ai.onnx', version=10, name='n', inputs=(), outputs=(),"
        " attributes={}, run=None, by_row=False)\n"
        # 1,023 products of 255 and 255, and one of 2 and 1: more than float32 counts to.
        "x, w = np.full((1, 1024, 1, 1), 255, np.uint8), np.full((1, 1024, 1, 1), 255, np.uint8)\n"
        "x[0, 0], w[0, 0] = 2, 1\n"
        "total = table.OPERATORS['ai.onnx', 'ConvInteger'](node, tf.constant(x), tf.constant(w)).numpy().item()\n"
        "print(json.dumps([sorted(own ^ graphs.NATIVE), total]))\n"
    )
    python = ensure(DEFAULT_VERSION, folders=folders, progress=Silent()).python
    assert json.loads(run([python, "-I", "-c", program], timeout=120).stdout.splitlines()[-1]) == [
        [],
        1023 * 255 * 255 + 2,
    ]


def test_differences_of_equal_floats_stay_zero(shared_home_folder: Path) -> None:
    """(a - b) + c, where TensorFlow's optimizer would compute a + (c - b): the angle between a particle and itself."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    program = (
        f"import sys, json; sys.path.insert(0, {str(_WORKER)!r})\nimport numpy as np, tensorflow as tf, specialize\n"
        "from types import SimpleNamespace as Named\n"
        "@tf.function(input_signature=[tf.TensorSpec([64], tf.float32, name='x')])\n"
        "def angle(x):\n"
        "    a, b = x + 0.1, x + tf.constant(np.full(64, 0.1, np.float32))\n"
        "    return ((a - b) + np.float32(np.pi)) - np.float32(np.pi)\n"
        "graph, found = angle.get_concrete_function().graph, []\n"
        "out, = graph.outputs\n"
        "for marks in (False, True):\n"
        "    definition = graph.as_graph_def()\n"
        "    marks and specialize.keep_order(definition)\n"
        "    made = specialize.folded(definition, [Named(node='x')], [Named(node=out.op.name, index=0)])\n"
        "    wrapped = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(made, name=''), [])\n"
        "    pruned = wrapped.prune('x:0', out.name)\n"
        "    tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True})\n"
        "    found.append(int(np.count_nonzero(pruned(tf.constant(np.linspace(-3, 3, 64, dtype=np.float32))))))\n"
        "print(json.dumps(found))\n"
    )
    python = ensure(DEFAULT_VERSION, folders=folders, progress=Silent()).python
    changed, kept = json.loads(run([python, "-I", "-c", program], timeout=120).stdout.splitlines()[-1])
    assert changed > 0
    assert kept == 0
