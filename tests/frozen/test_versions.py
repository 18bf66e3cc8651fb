"""The version of the framework that a report names is one of the environment's lock file, whatever a worker says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.frozen.source_model import Original, require_known
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS
from tfaot_pkg.spec.recognition import TMVA
from tfaot_pkg.worker_program.messages.sources import SourceModel, TreesFacts


def _original(**fields: object) -> Original:
    return Original(path=Path("model"), tags=(), signature="", **fields)  # type: ignore[arg-type]


def _engines() -> list[tuple[Original, str]]:
    """All frameworks that have an environment, and the names of their packages."""
    each = dict.fromkeys((one.framework, name) for one in FRONTENDS.values() for name in one.engines.items())
    by_framework = {one.framework: one for one in FRONTENDS.values()}
    return [
        (_original(frontend=by_framework[framework], library=engine if framework == "trees" else ""), package)
        for framework, (engine, package) in each
        if package
    ]


def test_a_version_of_the_lock_file_is_taken() -> None:
    assert _original().require_version(DEFAULT_VERSION, DEFAULT_VERSION) == DEFAULT_VERSION
    for original, package in _engines():
        assert original.frontend is not None
        version = original.frontend.requirements.read_text().partition(f"\n{package}==")[2].split()[0]
        assert original.require_version(version, DEFAULT_VERSION) == version


def test_formulas_of_a_file_have_the_version_that_the_file_states() -> None:
    found = _original(
        frontend=FRONTENDS["trees"], library=TMVA, origin="TMVA 4.2.1 BDT, Classification, BoostType=Grad"
    )
    assert found.require_version("4.2.1", DEFAULT_VERSION) == "4.2.1"
    assert found.require_version("", DEFAULT_VERSION) == ""


@pytest.mark.parametrize("told", ["99.0", "1.0 (verified by us)", f"{DEFAULT_VERSION}\n"])
def test_another_version_is_refused(told: str) -> None:
    for each in (_original(), *(original for original, _ in _engines())):
        with pytest.raises(ToolchainError, match="cannot be read"):
            each.require_version(told, DEFAULT_VERSION)


@pytest.mark.parametrize("told", ["", "99.0", "2.2.0"])
def test_neither_the_files_words_nor_another_packages_version_are_the_frameworks(told: str) -> None:
    numpy = next(iter(re.findall(r"^numpy==([\d.]+)", FRONTENDS["onnx"].requirements.read_text(), re.MULTILINE)))
    for version in (told, numpy):
        with pytest.raises(ToolchainError, match="cannot be read"):
            _original(frontend=FRONTENDS["onnx"], origin=f"pytorch {version}").require_version(version, DEFAULT_VERSION)


def _source(path: Path, **fields: object) -> SourceModel:
    values = {"file": str(path), "origin": "ONNX opset 17", "inputs": (), "outputs": (), "by_row": False, **fields}
    return SourceModel(**values)  # type: ignore[arg-type]


def _facts(library: str) -> TreesFacts:
    return TreesFacts(
        library=library, iterations=1, iterations_in_file=1, missing="nan", columns=(), classes=(), categories=()
    )


@pytest.mark.parametrize(
    "lie",
    [
        {"file": "/etc/passwd"},
        {"file": "{made}/../other.onnx"},
        {"file": "{made}/.."},
        {"file": "{path}/../other.onnx"},
        {"library": "TensorFlow"},
        {"library": "ONNX Runtime"},
        {"answered_by": "TensorFlow 2.17.1"},
        {"answered_by": "PyTorch 2.1 and XGBoost 3.2"},
        {"has_answers": False},
        {"trees": _facts("XGBoost")},
    ],
    ids=repr,
)
def test_a_worker_cannot_name_another_file_or_framework(lie: dict[str, object], tmp_path: Path) -> None:
    path, made = tmp_path / "model.onnx", tmp_path / "made"
    require_known(_source(path), FRONTENDS["onnx"], path, made)
    require_known(_source(made / "model.onnx", answered_by="PyTorch 2.13.0+cpu"), FRONTENDS["torch"], path, made)
    told = {name: each.format(path=path, made=made) if name == "file" else each for name, each in lie.items()}  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="a worker tells of"):
        require_known(_source(path, **told), FRONTENDS["onnx"], path, made)


@pytest.mark.parametrize("library", ["XGBoost", "scikit-learn", "TensorFlow", ""])
def test_a_worker_cannot_name_another_library_of_trees(library: str, tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(b"tree\nversion=v4\n")
    require_known(_source(path, library="LightGBM", trees=_facts("LightGBM")), FRONTENDS["trees"], path, None)
    with pytest.raises(ValueError, match="a worker tells of"):
        require_known(_source(path, library=library, trees=_facts(library)), FRONTENDS["trees"], path, None)
    with pytest.raises(ValueError, match="a worker tells of"):
        require_known(_source(path, library="LightGBM", trees=_facts(library)), FRONTENDS["trees"], path, None)
