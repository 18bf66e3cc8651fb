"""Graphs of TensorFlow 1, checkpoints and modules give TensorFlow's own answers, whatever the spec says of their border."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.bad_input.conftest import CommandLine
from tests.coverage import verified
from tests.toolchains import VERSIONS
from tests.wording import reported
from tfaot_pkg.errors import ModelError, SourceError
from tfaot_pkg.frontends.frozen.model import chosen
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.spec.formats import Format
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.spec.source.tree import source_tree
from tfaot_pkg.spec.types import Compilation, FolderSource, GraphFile, ModelInfo, ModelSpec, files_of
from tfaot_pkg.worker_program.messages.conversions import GraphFiles, ProposedGraph, ProposeGraph, Values
from tfaot_pkg.worker_program.messages.graph import Check, Checked
from tfaot_pkg.worker_program.messages.requests import Reference, Referenced

_PROGRAM = Path(__file__).with_name("graph_files.py")
_OFF = Values(shape=(), values=(False,))
_TWO = Values(shape=(), values=(2,))
_SWITCHES = {"is_training": _OFF, "keep_prob": Values(shape=(), values=(1.0,))}
_TAGGER = {"outputs": ("ID_pred/Softmax", "regression_pred/BiasAdd"), "constants": {"keras_learning_phase": _OFF}}
_RESULT = {"graph": "unfrozen.pb", "outputs": ("result",)}
MODELS: dict[str, tuple[str, dict[str, object]]] = {
    "convolutional": ("convolutional", {"graph": "convolutional.pb", "constants": _SWITCHES}),
    "text": ("convolutional", {"graph": "convolutional.pbtxt", "constants": _SWITCHES}),
    "tagger": ("tagger", {"graph": "tagger.pb", **_TAGGER}),
    "switched": ("switched_tagger", {"graph": "switched_tagger.pb", **_TAGGER}),
    "by default": ("switched_tagger", {"graph": "switched_tagger.pb"}),
    "loop": ("recurrent", {"graph": "recurrent.pb"}),
    "old loop": ("switched_recurrent", {"graph": "switched_recurrent.pb"}),
    "dynamic_rnn": ("switched_lengths", {"graph": "switched_lengths.pb"}),
    "names": ("names", {"graph": "cafe.pb"}),
    "V2": ("variables", {**_RESULT, "checkpoint": "v2.ckpt-7"}),
    "V1": ("variables", {**_RESULT, "checkpoint": "v1.ckpt"}),
    "objects": ("variables", {**_RESULT, "checkpoint": "objects"}),
    "meta": ("variables", {**_RESULT, "graph": "v2.ckpt-7.meta", "checkpoint": "v2.ckpt-7"}),
    "training": ("noisy", {"saved_model": "noisy", "constants": {"training": _OFF, "scale": _TWO}}),
    "module": ("module", {"saved_model": "module", "serving_key": "score"}),
}
"""What the files are called, and what a spec says of them."""


@pytest.fixture(scope="module", params=[pytest.param(each, id=each) for each in VERSIONS])
def pool(
    request: pytest.FixtureRequest, shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerPool]:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    environment = ensure(request.param, folders=folders, progress=Silent())
    scratch = tmp_path_factory.mktemp("graphs")
    with WorkerPool(environment, scratch_root=scratch / "scratch", logs=scratch / "logs") as made:
        yield made


@pytest.fixture(scope="module")
def files(pool: WorkerPool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    run([pool.environment.python, "-I", "-B", _PROGRAM, folder], timeout=250)
    return folder


pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_tensorflow,
    pytest.mark.timeout(400),
]


def info_of(said: dict[str, Any]) -> ModelInfo:
    said = dict(said)
    keys: tuple[str, ...] = ("graph", "saved_model", "config", "checkpoint", "serving_key")
    named = {key: said.pop(key) for key in keys if key in said}
    kind: Format = "graph" if "graph" in named else "saved_model"
    return ModelInfo(name="m", version="1.0", files=files_of(kind, named.pop(kind), **named), **said)


def saved(pool: WorkerPool, files: Path, **said: Any) -> SavedModel:
    info = info_of(said)
    tree = source_tree(files, Path(info.files.path), field=info.files.format, beside=info.files_beside)
    return SavedModel(info, tree, pool)


def answers(
    pool: WorkerPool, model: SavedModel, inputs: Path, *, signature: str = "serving_default", batched: bool = True
) -> dict[str, np.ndarray]:
    given = arrays(inputs)
    rows = len(next(iter(given.values())))
    out = pool.new_folder("answers") / "answers.npz"
    readable = pool.give(inputs)
    batches = tuple(name for name, value in given.items() if batched and len(value) == rows)
    asked = Reference(
        folder=str(model.folder), tags=("serve",), signature=signature, inputs=str(readable), out=str(out),
        batch_sizes=(rows,), batched=batches, stacked=(),
    )  # fmt: skip
    pool.get().call(asked, Referenced)
    return {name.partition("/")[2]: value for name, value in arrays(out).items()}


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


@pytest.mark.sweep(
    "2.17.1-switched",
    "2.17.1-names",
    "2.17.1-V1",
    "2.17.1-module",
    night=[
        "2.21.0-loop",
        "2.21.0-objects",
        "2.21.0-tagger",
        "2.17.1-text",
        "2.17.1-V2",
        "2.17.1-dynamic_rnn",
        "2.17.1-convolutional",
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_models_give_tensorflows_answers(name: str, pool: WorkerPool, files: Path) -> None:
    stem, said = MODELS[name]
    key = str(said.get("serving_key", "serving_default"))
    found = answers(pool, saved(pool, files, **said), files / f"{stem}.npz", signature=key)
    expected = arrays(files / f"{stem}.answers.npz")
    assert sorted(found) == sorted(expected)
    for output, values in expected.items():
        np.testing.assert_allclose(found[output], values, rtol=1e-5, atol=1e-6)


@pytest.mark.coverage
@pytest.mark.sweep(night=["2.21.0-v2.ckpt-7"])
@pytest.mark.parametrize("checkpoint", ["v1.ckpt", "v2.ckpt-7"])
def test_a_package_of_a_graph_with_config_and_checkpoint_gives_tensorflows_answers(
    checkpoint: str, pool: WorkerPool, files: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    tfaot, config = CommandLine(home=shared_home_folder, scratch=tmp_path / "scratch"), files / "result.config.pbtxt"
    config.write_text('feed { id { node_name: "x" } } fetch { id { node_name: "result" } name: "result" }')
    version = pool.environment.toolchain.version
    model = {
        "name": "graph",
        "version": "1.0.0",
        "graph": "unfrozen.pb",
        "config": config.name,
        "checkpoint": checkpoint,
    }
    compilation = {"batch_sizes": [1], "targets": ["x86-64-v3"], "tensorflow": version}
    document = {"model": model, "source": {"path": str(files)}, "compilation": compilation}
    (spec := tmp_path / "spec.yaml").write_text(yaml.safe_dump(document))
    with verified(
        f"graphs: GraphDef, config and {checkpoint[:2].upper()} checkpoint", version=version, engine="program"
    ):
        tfaot.works("build", spec, "-o", tmp_path / "prefix")
        found = load(tmp_path / "prefix")(**arrays(files / "variables.npz"))
        expected = arrays(files / "variables.answers.npz")["result"]
        np.testing.assert_allclose(found["result"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.sweep("2.17.1", night=[])
def test_variables_that_callers_supply_are_inputs(pool: WorkerPool, files: Path, tmp_path: Path) -> None:
    model = saved(
        pool, files, **_RESULT, checkpoint="v2.ckpt-7", feeds=("new/kernel", "new/bias"),
        inputs=("x", "kernel", "new/bias"), input_keys=("x", "new/kernel", "new/bias"),
    )  # fmt: skip
    x = arrays(files / "variables.npz")["x"]
    bias = np.array([0.25, -3], np.float32)
    feeds = {"x": x, "kernel": np.zeros((6, 2), np.float32), "new/bias": bias}
    np.savez(tmp_path / "zero.npz", **feeds)  # type: ignore[arg-type]  # NumPy's stub takes keywords for options
    # A kernel of zeros leaves the bias.
    found = answers(pool, model, tmp_path / "zero.npz", batched=False)["result"]
    np.testing.assert_array_equal(found, np.tile(bias, (len(x), 1)))


@pytest.mark.sweep(night=["2.21.0"])
def test_variables_without_any_checkpoint_may_be_inputs(pool: WorkerPool, files: Path, tmp_path: Path) -> None:
    names = ("new/bias", "new/kernel", "old/bias", "old/kernel")
    model = saved(pool, files, **_RESULT, feeds=names)
    values = arrays(files / "variables.values.npz")
    feeds = {"x": arrays(files / "variables.npz")["x"], **{name: values[name] for name in names}}
    np.savez(tmp_path / "all.npz", **feeds)  # type: ignore[arg-type]  # NumPy's stub takes keywords for options
    found = answers(pool, model, tmp_path / "all.npz", batched=False)["result"]
    expected = arrays(files / "variables.answers.npz")["result"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.sweep("2.17.1-fixed.config.pbtxt")
@pytest.mark.parametrize("config", ["fixed.config.pbtxt", "fixed.config.pb"])
def test_a_config_names_feeds_and_fetches_and_fixes_the_batch(config: str, pool: WorkerPool, files: Path) -> None:
    model = saved(pool, files, graph="fixed.pb", config=config)
    found = checked(pool, model, files, graph="fixed.pb")
    assert [(each.name, each.shape) for each in (*found.inputs, *found.outputs)] == [
        ("values", (1, 4)),
        ("answer", (1, 3)),
    ]


@pytest.mark.nightly
def test_what_training_switches_off_is_not_compiled(pool: WorkerPool, files: Path) -> None:
    for name in ("convolutional", "switched", "tagger", "training"):
        said = MODELS[name][1]
        found = checked(pool, saved(pool, files, **said), files, **said)
        left = {"RandomUniform", "RandomStandardNormal", "StatelessIf", "If", "Switch", "Merge", "SquaredDifference"}
        assert not left & set(found.operations), name


@pytest.mark.sweep("2.17.1")
def test_a_first_spec_shows_placeholders_sinks_and_switches(pool: WorkerPool, files: Path) -> None:
    found = proposed(pool, files / "convolutional.pb")
    assert {tensor.name: tensor.shape for tensor in found.inputs} == {"input/images-1": (None, 8, 8, 1)}
    assert {tensor.name: tensor.shape for tensor in found.outputs} == {"predictions/Softmax": (None, 3)}
    assert found.constants == _SWITCHES
    assert proposed(pool, files / "unfrozen.pb").variables == ("new/bias", "new/kernel", "old/bias", "old/kernel")


@pytest.mark.sweep(night=["2.17.1"])
def test_init_takes_a_config_and_a_checkpoint(
    pool: WorkerPool, files: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "scratch").mkdir()
    tfaot, spec = CommandLine(home=shared_home_folder, scratch=tmp_path / "scratch"), tmp_path / "spec.yaml"
    config = tmp_path / "unfrozen.config.pbtxt"
    config.write_text('feed { id { node_name: "x" } } fetch { id { node_name: "result" } name: "score" }')
    given: list[str | Path] = ["--config", config, "--checkpoint", files / "v2.ckpt-7"]
    tfaot.works("init", files / "unfrozen.pb", *given, "-o", spec)
    made = load_spec(spec).model
    assert (
        isinstance(made.files, GraphFile)
        and Path(made.files.checkpoint).name == "v2.ckpt-7"
        and made.outputs == ()
        and "out  score" in spec.read_text()
    )
    assert tfaot.works("check", spec)["signature"]["outputs"][0]["name"] == "score"
    tfaot.fails("init", files / "module", "--config", config, "-o", tmp_path / "other.yaml", code=10, says=["--config"])
    missing = tmp_path / "none.ckpt"
    tfaot.fails(
        "init",
        files / "unfrozen.pb",
        "--checkpoint",
        missing,
        "-o",
        tmp_path / "other.yaml",
        code=11,
        says=["none.ckpt"],
    )


@pytest.mark.sweep("2.17.1")
def test_placeholders_that_nothing_feeds_are_named(pool: WorkerPool, files: Path) -> None:
    said = {"graph": "tagger.pb", "inputs": ("input_1",)}
    found = checked(pool, saved(pool, files, **said), files, **said)
    assert [(fault.operation, fault.node) for fault in found.unsupported] == [("Placeholder", "input_2")]


@pytest.mark.sweep("2.17.1-no checkpoint", "2.17.1-no such output")
@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"graph": "convolutional.pb", "constants": {"is_trainin": _OFF}}, id="no such placeholder"),
        pytest.param({"graph": "convolutional.pb", "constants": {"keep_prob": _OFF}}, id="another dtype"),
        pytest.param({"graph": "tagger.pb", "outputs": ("ID_pred/Sofmax",)}, id="no such output"),
        pytest.param({**_RESULT}, id="no checkpoint"),
        pytest.param({**_RESULT, "graph": "unfrozen.pb", "checkpoint": "other"}, id="another checkpoint"),
        pytest.param({**_RESULT, "checkpoint": "v2.ckpt-7", "feeds": ("new/kernl",)}, id="no such variable"),
        pytest.param({"saved_model": "noisy", "constants": {"trainin": _OFF}}, id="no such input"),
        pytest.param({"graph": "fixed.pb", "config": "fixed.pbtxt"}, id="a graph as config"),
        pytest.param({"graph": "damaged.pb"}, id="damaged"),
        pytest.param({"saved_model": "module"}, id="no signature"),
    ],
)
def test_errors_name_the_node_and_a_way_out(said: dict[str, object], pool: WorkerPool, files: Path) -> None:
    (files / "damaged.pb").write_bytes((files / "tagger.pb").read_bytes()[:-100])
    for part in ("index", "data-00000-of-00001"):
        (files / f"other.{part}").write_bytes((files / f"module/variables/variables.{part}").read_bytes())
    with reported(ModelError, varies="(?<=is not a GraphDef: ).*"):  # protobuf says it in its own words
        checked(pool, saved(pool, files, **said), files, **said)


@pytest.mark.sweep("2.17.1")
def test_a_checkpoint_that_is_not_there_is_named(files: Path, pool: WorkerPool) -> None:
    with pytest.raises(SourceError, match=r"v3\.ckpt"):
        saved(pool, files, **_RESULT, checkpoint="v3.ckpt")


@pytest.mark.sweep("2.17.1")
def test_graphs_that_make_no_first_spec_are_refused_in_words(pool: WorkerPool, files: Path) -> None:
    words = {"untyped.pb": "'T'", "words.pb": "string", "part.pb": "SavedModel", "nested.pbtxt": "nested too deeply"}
    for name, word in words.items():
        with pytest.raises(ModelError, match=word):
            proposed(pool, files / name)


def checked(pool: WorkerPool, model: SavedModel, files: Path, **said: object) -> Checked:
    info = info_of(said)
    spec = ModelSpec(
        path=files / "spec.yaml",
        model=replace(info, feeds=()),
        source=FolderSource(path=files),
        compilation=Compilation(batch_sizes=(1,)),
    )
    with model.named() as folder:
        return pool.get().call(Check(model=chosen(spec, folder)), Checked)


def proposed(pool: WorkerPool, graph: Path) -> ProposedGraph:
    files = GraphFiles(graph=str(pool.give(graph)), config="", checkpoint="")
    return pool.get().call(ProposeGraph(files=files), ProposedGraph)
