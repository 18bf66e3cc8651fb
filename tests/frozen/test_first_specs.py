"""What `init` writes is accepted by `check` as it is; otherwise it says what to fill in, also in the spec."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.commands import run_command
from tests.compiler.conftest import WORKER_PROGRAM
from tests.kept import kept, saved_models
from tests.toolchains import VERSIONS
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
_MAKER = Path(__file__).with_name("open_files.py")
_STATE = Path(__file__).resolve().parents[1] / "state" / "make_models.py"
_MODELS = Path(__file__).resolve().parents[1] / "models"


@pytest.fixture(scope="session")
def files(shared_home_folder: Path) -> Path:
    """A folder of ONNX files."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    toolchain = ensure(VERSIONS[0], folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python)
    parts = {"maker": sha256_file(_MAKER), "frontend": frontend.identity}
    return kept(
        shared_home_folder,
        "open_files",
        parts,
        lambda folder: run([frontend.python, "-I", _MAKER, folder], timeout=300),
    )


def _first(model: Path, folder: Path, home: Path) -> tuple[str, str, int, str]:
    """(the text of the first spec, what `init` prints, the exit code of `check`, what it prints)."""
    variables, spec = {**os.environ, "TFAOT_HOME": str(home)}, folder / f"{model.stem}.yaml"
    written = run_command(["init", model, "-o", spec], cwd=folder, env=variables)
    assert written.returncode == 0, written.stderr
    checked = run_command(["check", spec], cwd=folder, env=variables)
    return spec.read_text(), written.stdout, checked.returncode, checked.stdout + checked.stderr


def test_a_range_begins_at_the_smallest_size_that_the_model_takes(
    files: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    text, _, code, printed = _first(files / "neighbours.onnx", tmp_path, shared_home_folder)
    assert yaml.safe_load(text)["model"]["shapes"] == {"x": [None, "17 <= n <= 128", 3]}
    assert "#   out  y: float32[batch, n, 17]" in text
    assert code == 0, printed


_SHAPES = {
    "minus_one": {"x": [None, "n <= 128", 8]},
    "image": {"x": [None, 3, 128, 128]},
    "patches": {"x": [None, 3, 128, 128]},
    "graph_network": {"edges": [2, "e <= 128"], "nodes": ["v <= 128", 4]},
    "edge_list": {"edges": ["n_edges <= 128", 2], "features": ["n_edges <= 128", 4], "nodes": ["n_nodes <= 128", 4]},
    "unbatched": None,
    "windowed": {"x": [None, 3, "5 <= time <= 128"]},
    "music": {"x": ["5 <= rows <= 128", 8]},
    "times_first": {"x": ["rows <= 128", "time <= 128", 6]},
}
_NO_BATCH = ("edge_list", "graph_network", "music", "times_first", "unbatched")


@pytest.mark.sweep(night=["graph_network", "music", "patches"])
@pytest.mark.parametrize("name", [*_SHAPES])
def test_axes_that_a_file_leaves_open_have_sizes_that_check_takes(
    name: str, files: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    text, printed, code, checked = _first(files / f"{name}.onnx", tmp_path, shared_home_folder)
    assert yaml.safe_load(text)["model"].get("shapes") == _SHAPES[name]
    assert code == 0 and "to fill in" not in printed, checked
    assert ("batch_sizes: [1]" in text) == (name in _NO_BATCH)
    if name == "graph_network":  # the axis has the file's name, and is no batch
        assert "#   out  output: float32[v, 4]" in text
    if name == "edge_list":
        assert "#   out  output: float32[n_nodes, 4]" in text and "model.run(1, {edges, features, nodes})" in printed
    if name == "music":
        assert "#   out  y: float32[rows - 4, 4]" in text


@pytest.mark.nightly
def test_a_switch_that_a_shape_depends_on_is_a_constant(files: Path, shared_home_folder: Path, tmp_path: Path) -> None:
    text, _, code, checked = _first(files / "switched.onnx", tmp_path, shared_home_folder)
    assert yaml.safe_load(text)["model"]["constants"] == {"flag": False} and "Review" in text
    assert code == 0, checked


@pytest.mark.nightly
def test_what_only_the_user_knows_is_asked_for_at_its_place(
    files: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    text, printed, code, _ = _first(files / "ends.onnx", tmp_path, shared_home_folder)
    assert code == 12 and "to fill in" in printed and "depend on values of inputs" in printed
    assert "# constants: {first: [VALUE, ...], last: [VALUE, ...]}" in text


def _python(home: Path) -> Path:
    return ensure(VERSIONS[0], folders=Folders(cache=home / "cache", data=home / "data"), progress=Silent()).python


@pytest.mark.nightly
def test_variables_that_a_signature_changes_are_state(shared_home_folder: Path, tmp_path: Path) -> None:
    folder = saved_models(shared_home_folder, _STATE, _python(shared_home_folder), ["counter"])
    text, printed, code, checked = _first(folder / "counter", tmp_path, shared_home_folder)
    assert yaml.safe_load(text)["compilation"]["variables"] == {"update": ["*"]}
    # A call supplies x alone.
    assert "model.run(1, {x})" in printed and "#   in   x: float32[2]" in text and "state/" not in text
    assert code == 0, checked


@pytest.mark.release
def test_nodes_of_a_saved_model_are_no_batch(shared_home_folder: Path, tmp_path: Path) -> None:
    folder = saved_models(shared_home_folder, _MODELS / "indices.py", _python(shared_home_folder))
    text, _, code, checked = _first(folder / "graph_network", tmp_path, shared_home_folder)
    assert yaml.safe_load(text)["model"]["shapes"] == {"edge_index": [2, "n1 <= 128"], "nodes": ["n0 <= 128", 4]}
    assert "#   out  y: float32[n0, 4]" in text
    assert code == 0, checked


@pytest.mark.nightly
def test_inputs_of_different_numbers_of_rows_are_no_batch(shared_home_folder: Path, tmp_path: Path) -> None:
    """It can be compiled for a batch, too: for as many edges as nodes."""
    folder = saved_models(shared_home_folder, _MODELS / "indices.py", _python(shared_home_folder))
    text, _, code, checked = _first(folder / "of_two_kinds", tmp_path, shared_home_folder)
    shapes = {"edge_index": ["n_edge_index <= 128", 2], "hits": ["n_hits <= 128", 4], "tracks": ["n_tracks <= 128", 4]}
    assert yaml.safe_load(text)["model"]["shapes"] == shapes
    assert "#   out  y: float32[n_tracks, 4]" in text and "batch_sizes: [1]" in text
    assert code == 0, checked


_EVERY = 7
"""Of about 100 models each seventh is tried: a command takes seconds."""


@pytest.mark.sweep(night=["indices"])
@pytest.mark.parametrize("maker", ["indices", "symbolic", "row_models"])
def test_first_specs_of_saved_models_are_accepted(maker: str, shared_home_folder: Path, tmp_path: Path) -> None:
    more = [str(WORKER_PROGRAM)] if maker == "symbolic" else []
    folder = saved_models(shared_home_folder, _MODELS / f"{maker}.py", _python(shared_home_folder), more)
    refused = {}
    for place, model in enumerate(sorted(path.parent for path in folder.rglob("saved_model.pb"))[::_EVERY]):
        (here := tmp_path / str(place)).mkdir()
        _, printed, code, checked = _first(model, here, shared_home_folder)
        if code and "to fill in" not in printed:
            refused[str(model.relative_to(folder))] = checked
    assert refused == {}


@pytest.mark.sweep(night=["torch/gru.onnx"])
@pytest.mark.parametrize("name", ["flax.jax", "keras/torch.keras", "torch/gru.onnx", "torch/conv2d.onnx"])
def test_first_specs_of_other_files_are_accepted(name: str, shared_home_folder: Path, tmp_path: Path) -> None:
    _, printed, code, checked = _first(Path(__file__).parent / "artifacts" / name, tmp_path, shared_home_folder)
    assert code == 0 and "to fill in" not in printed, checked


@pytest.mark.nightly
def test_a_first_spec_says_what_to_fill_in(shared_home_folder: Path, tmp_path: Path) -> None:
    """How to call the number of rows is the author's choice."""
    model = Path(__file__).parent / "artifacts" / "torch" / "selection.onnx"
    text, printed, code, _ = _first(model, tmp_path, shared_home_folder)
    assert code != 0 and "model.counts (hits: hits_count, places: places_count, best: best_count)" in printed
    assert "# To fill in" in text


_CROPPED = """
import sys
import tensorflow as tf
module = tf.Module()
weights = tf.ones([3, 4, 8])
signature = [tf.TensorSpec([None, None, 4], name="x")]
module.serve = tf.function(lambda x: {"y": tf.nn.conv1d(x, weights, 1, "SAME")[:, 500:-500]}, signature)
tf.saved_model.save(module, sys.argv[1], {"serving_default": module.serve})
"""


@pytest.mark.nightly
def test_a_signal_is_longer_than_what_a_saved_model_cuts_off(shared_home_folder: Path, tmp_path: Path) -> None:
    run([_python(shared_home_folder), "-c", _CROPPED, tmp_path / "cropped"], timeout=300)
    text, _, code, printed = _first(tmp_path / "cropped", tmp_path, shared_home_folder)
    assert yaml.safe_load(text)["model"]["shapes"] == {"x": [None, "1001 <= n <= 1024", 4]}
    assert "#   out  y: float32[batch, n - 1000, 8]" in text
    assert code == 0, printed
