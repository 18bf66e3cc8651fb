"""What of ours stands beside other engines: libraries of the same model with other settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bad_input.conftest import write_spec
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.frontends.toolchain.definition import toolchain
from tfaot_pkg.ground.signature import DType, Tensor
from tfaot_pkg.measure.bench.contenders import Field
from tfaot_pkg.measure.bench.peers import peers_named
from tfaot_pkg.measure.bench.trees import Trees, given
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.spec.types import Compilation, ModelSpec
from tfaot_pkg.worker_program.messages.sources import CategoryColumn, TreesFacts


@dataclass
class _Builds:
    """Keeps what it shall build, and builds nothing."""

    library: Path
    fails: bool = False
    asked: list[Compilation] = field(default_factory=list)

    def plan(self, spec: ModelSpec) -> ModelSpec:
        return spec

    def build(self, spec: ModelSpec) -> Any:
        self.asked.append(spec.compilation)
        if self.fails:
            raise ModelError("the model cannot become a program: it has a fast Fourier transform")
        return SimpleNamespace(library=SimpleNamespace(shared=self.library))


@pytest.fixture
def builds(tmp_path: Path) -> _Builds:
    library = tmp_path / "library.so"
    library.write_bytes(b"code")
    return _Builds(library)


@pytest.fixture
def contenders(tmp_path: Path, builds: _Builds) -> Field:
    (tmp_path / "model").mkdir()
    spec = load_spec(write_spec(tmp_path / "spec.yaml", tmp_path / "model"))
    spec = replace(spec, compilation=replace(spec.compilation, engine="program"))
    environment: Any = SimpleNamespace(toolchain=toolchain("2.17.1"))
    inputs: Any = SimpleNamespace(file=tmp_path / "inputs", rows=1)
    pipeline: Any = builds
    anything: Any = SimpleNamespace(library=tmp_path / "runner")
    return Field(
        spec=spec, targets=("x86-64-v2", "x86-64-v3"), library=builds.library, engine="engine: XLA",
        toolchain=environment, converter=anything, inputs=inputs, programs=anything, pipeline=pipeline,
    )  # fmt: skip


@pytest.mark.parametrize("peer", ["xla", "incumbent"])
def test_xla_alone_is_no_program_whatever_the_spec_says(contenders: Field, builds: _Builds, peer: str) -> None:
    rows = [each.row for each in contenders.contenders(peers_named([peer]))]
    assert [(each.engine, each.kernels) for each in builds.asked] == [("xla", "none")]
    assert [each.engine for each in rows if each.is_ours] == ["engine: XLA"] * 2
    assert not any(each.reason for each in rows)


def test_the_program_alone_is_a_row_for_each_target(contenders: Field, builds: _Builds) -> None:
    rows = [each.row.name for each in contenders.contenders(peers_named(["program"]))]
    assert rows[2:] == ["program-x86-64-v2", "program-x86-64-v3"]
    assert [each.engine for each in builds.asked] == ["program"]


def test_a_model_that_cannot_be_a_program_is_a_row_with_the_reason(contenders: Field, builds: _Builds) -> None:
    builds.fails = True
    last = list(contenders.contenders(peers_named(["program"])))[-1]
    assert last.program is None and "fast Fourier transform" in last.row.reason


def test_engines_of_trees_run_nothing_else_and_others_no_trees(contenders: Field) -> None:
    reasons = [each.row.reason for each in contenders.contenders(peers_named(["library", "tl2cgen"]))][2:]
    assert reasons == ["it computes decision trees only"] * 2
    trees: Any = SimpleNamespace()
    found = list(replace(contenders, trees=trees).contenders(peers_named(["litert", "tensorflow"])))[2:]
    assert [each.row.reason for each in found] == [
        "TensorFlow, from which its model is made, has no decision trees"
    ] * 2


@pytest.mark.parametrize(
    ("columns", "theirs", "is_compared"), [(1, 2, True), (2, 1, True), (3, 3, True), (3, 1, False)]
)
def test_what_a_peer_of_trees_gives_has_its_own_type_and_columns(columns: int, theirs: int, is_compared: bool) -> None:
    result = Tensor(name="probabilities", dtype=DType.FLOAT64, shape=(None, columns))
    document = {"dtype": "float32", "columns": theirs}
    if is_compared:
        assert given(document, result) == replace(result, dtype=DType.FLOAT32, shape=(None, theirs))
    else:
        with pytest.raises(ModelError, match="gives 1 numbers of type float32 for a row, the library 3"):
            given(document, result)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"iterations": 6}, "other iterations"),
        ({"missing": "-999.0"}, "-999.0 for missing numbers"),
        (
            {"categories": (CategoryColumn(column=0, name="q", given="values", values=(-1, 1)),)},
            "categories by their values",
        ),
    ],
)
def test_engines_that_know_the_file_alone_do_not_run_beside_another_call(facts: dict[str, Any], reason: str) -> None:
    bare = TreesFacts(
        library="XGBoost", iterations=11, iterations_in_file=11, missing="nan", columns=(), classes=(),
        categories=(CategoryColumn(column=0, name="q", given="codes", values=()),),
    )  # fmt: skip
    any_: Any = None
    trees = Trees(
        original=Original(path=Path(), tags=(), signature="", trees=replace(bare, **facts)),
        signature=any_, library=any_, python=any_, compiler=any_, pipeline=any_,
    )  # fmt: skip
    with pytest.raises(ModelError, match=reason):
        trees.prepared(any_, (1,), any_)
