"""The documents of packages that were really built, of each kind: read by their standards' own libraries."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.kept import REPOSITORY
from tests.samples import tfaot

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
_DENSE = """
model: {{name: dense, version: 1.0.0, license: MIT, saved_model: saved_model}}
compilation: {{batch_sizes: [2], targets: [x86-64-v3], engine: {engine}}}
validation: {{samples: 4, classes: [scaled]}}
"""
_ALWAYS = {"tfaot", "libstdc++"}


def _built(home: Path, spec: Path, prefix: Path) -> Any:
    tfaot(home, "build", spec, "-o", prefix)
    (path,) = prefix.glob("share/*/sbom.cdx.json")
    return json.loads(path.read_text())


def _refs(value: Any) -> list[str]:
    """All `bom-ref` below `value`."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value["bom-ref"]] if isinstance(value, dict) and "bom-ref" in value else []
    return [*own, *(ref for item in items for ref in _refs(item))]


def _names_of_valid(document: Any) -> set[str]:
    """The components of a bill of materials that its schema and its references agree with."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None
    refs = _refs(document)
    assert len(refs) == len(set(refs))
    assert {each["ref"] for each in document["dependencies"]} <= set(refs)
    assert {ref for each in document["dependencies"] for ref in each.get("dependsOn", ())} <= set(refs)
    return {each["name"] for each in document["components"]}


@pytest.mark.parametrize(("engine", "of_tensorflow"), [("program", False), ("xla", True)])
def test_tensorflow_is_in_the_bill_of_a_package_only_if_it_is_in_the_library(
    models: Mapping[str, Path], shared_home_folder: Path, tmp_path: Path, engine: str, of_tensorflow: bool
) -> None:
    shutil.copytree(models["dense"], tmp_path / "saved_model")
    (tmp_path / "spec.yaml").write_text(_DENSE.format(engine=engine))
    document = _built(shared_home_folder, tmp_path / "spec.yaml", tmp_path / "prefix")
    found = _names_of_valid(document)
    assert found >= {"dense", *_ALWAYS}
    assert ("tensorflow" in found) == of_tensorflow
    assert ("XLA" in json.dumps(document["components"])) == of_tensorflow


@pytest.mark.sweep(night=["from-xgboost*"])
@pytest.mark.parametrize(
    ("example", "listed"), [("custom-operation", {"cone", "ConeWeights"}), ("from-xgboost", {"signal"})]
)
def test_the_bill_of_an_example_lists_its_parts(
    shared_home_folder: Path, tmp_path: Path, example: str, listed: set[str]
) -> None:
    document = _built(shared_home_folder, REPOSITORY / "examples" / example / "spec.yaml", tmp_path / "prefix")
    assert _names_of_valid(document) - {"tfaot-kernels"} == {*listed, *_ALWAYS}
