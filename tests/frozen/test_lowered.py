"""Models that become programs on the host: the spec's names and order, and packages without any TensorFlow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command
from tests.compiler.test_trees import small
from tests.homes import home_with_frontend
from tests.test_tree_lowering import _BARE, _parts
from tests.wording import reported
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.frozen.lowered import make
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.spec.types import Compilation, FolderSource, FrameworkFile, ModelInfo, ModelSpec, Variables
from tfaot_pkg.worker_program.messages.sources import TreesLink

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "from-xgboost" / "model.json"


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    fitted = replace(_BARE, links=(TreesLink(name="exp", number=1.0),), margin="margin")
    return _parts(tmp_path / "parts", fitted, small(total="float64"))


def _spec(**model: Any) -> ModelSpec:
    return ModelSpec(
        path=Path("spec.yaml"),
        model=ModelInfo(name="bdt", version="1", files=FrameworkFile(format="trees", path="bdt.json"), **model),
        source=FolderSource(path=Path()),
        compilation=Compilation(batch_sizes=(1,)),
    )


def test_the_spec_chooses_names_and_order(parts: Path) -> None:
    plain = make(_spec(), parts, _no_reference).graph
    assert [each.name for each in plain.inputs] == ["x"]
    assert [each.name for each in plain.outputs] == ["margin", "score"]
    assert (plain.inputs[0].shape, plain.inputs[0].dtype, plain.outputs[1].dtype) == ((None, 2), "float32", "float64")

    names = {"inputs": ("row",), "input_keys": ("x",), "outputs": ("y", "sum"), "output_keys": ("score", "margin")}
    made = make(_spec(**names), parts, _no_reference)
    assert [each.name for each in made.graph.inputs] == ["row"]
    assert [each.name for each in made.graph.outputs] == ["y", "sum"]
    results = parse(made.text, made.beside).entry
    opcodes = [results.by_id()[each].opcode for each in results.results]
    assert opcodes == ["exponential", "trees"]


def test_rows_are_independent_and_the_drawing_has_the_operations(parts: Path) -> None:
    made = make(_spec(), parts, _no_reference)
    assert made.rows.independent
    assert made.graph.graph is not None
    assert [each.op for each in made.graph.graph.nodes] == ["input", "trees", "exponential", "output", "output"]
    assert [each.inputs for each in made.graph.graph.nodes] == [(), (0,), (1,), (1,), (2,)]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: replace(spec, model=replace(spec.model, outputs=("score",))),
        lambda spec: replace(spec, model=replace(spec.model, inputs=("y",))),
        lambda spec: replace(spec, model=replace(spec.model, shapes={"x": (4, 2)})),
        lambda spec: replace(spec, compilation=replace(spec.compilation, variables=Variables(update=("*",)))),
    ],
    ids=["outputs", "inputs", "shapes", "variables"],
)
def test_what_the_model_does_not_have_is_refused(change: Callable[[ModelSpec], ModelSpec], parts: Path) -> None:
    with reported(ModelError):
        make(change(_spec()), parts, _no_reference)


def _no_reference(*_: object) -> list[Array]:
    raise AssertionError("there are no operations of an author")


@pytest.fixture
def home(shared_home_folder: Path, tmp_path: Path) -> Path:
    """A home with the libraries of decision trees, and no toolchain."""
    return home_with_frontend("trees", shared_home_folder, tmp_path / "home")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_package_needs_no_tensorflow_and_says_so(home: Path, tmp_path: Path) -> None:
    env = {**os.environ, "TFAOT_HOME": str(home), "https_proxy": "http://127.0.0.1:9"}

    def tool(*words: str | Path, code: int = 0) -> str:
        done = run_command(words, cwd=tmp_path, env=env)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    (tmp_path / "bdt.json").write_bytes(_EXAMPLE.read_bytes())
    tool("init", "bdt.json", "-o", "spec.yaml")
    text = (tmp_path / "spec.yaml").read_text()
    assert "tensorflow" not in text
    # A spec of an earlier version, and only one target, to be quicker.
    text = text.replace("  batch_sizes: [1, 2, 4, 8]", "  batch_sizes: [1, 4]\n  tensorflow: 2.21.0")
    text = text.replace("[x86-64-v2, x86-64-v3, x86-64-v4]", "[x86-64-v3]")
    (tmp_path / "spec.yaml").write_text(text)
    assert "toolchain: tfaot-pkg " in tool("check", "spec.yaml")
    assert "= trees" in tool("inspect", "spec.yaml", "--what", "program")
    assert "TensorFlow takes no part" in tool("inspect", "spec.yaml", "--what", "hlo", code=12)
    assert "verified against XGBoost 3." in tool("build", "spec.yaml", "-o", "prefix")
    assert [each.name.partition("-py")[0] for each in (home / "cache" / "toolchains").iterdir()] == ["frontend-trees"]

    package = tmp_path / "prefix" / "share" / "tfaot-model-bdt"
    info = json.loads((package / "info.json").read_text())
    assert info["toolchain"].startswith("tfaot-pkg ")
    documents = {path.name: path.read_text() for path in package.rglob("*.json")}
    provenance = documents["provenance.json"]
    assert "xgboost" in provenance
    del documents["provenance.json"]
    assert [name for name, content in documents.items() if "tensorflow" in content.lower()] == []
    # The spec is recorded as it was written: its `compilation.tensorflow` stands there alone.
    assert "pypi/tensorflow" not in provenance
    assert '"tensorflow"' not in json.dumps(
        json.loads(provenance)["predicate"]["buildDefinition"]["internalParameters"]
    )
    assert not list((tmp_path / "prefix").rglob("tensorflow-*"))

    flags = text.replace("  tensorflow: 2.21.0", "  xla_flags: [--xla_cpu_enable_fast_math=true]\n  engine: program")
    (tmp_path / "spec.yaml").write_text(flags)
    assert "xla_flags" in tool("check", "spec.yaml", code=10)
    (tmp_path / "spec.yaml").write_text(text.replace("  tensorflow: 2.21.0", "  engine: xla"))
    assert "engine is xla" in tool("check", "spec.yaml", code=12)
