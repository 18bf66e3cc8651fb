"""What `init` writes for editors: the schema beside the spec, which the spec names."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.commands import run_command
from tfaot_pkg.spec.form import SCHEMA_ID, json_schema

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_home")]

_MODEL = Path(__file__).resolve().parents[1] / "frozen/artifacts/torch/linear.onnx"
_LINE = "# yaml-language-server: $schema=spec.schema.json"


def _init(folder: Path) -> str:
    done = run_command(["init", _MODEL, "-o", folder / "spec.yaml"])
    assert done.returncode == 0, done.stderr
    return (folder / "spec.yaml").read_text()


def test_the_schema_stands_beside_the_spec_and_holds_for_it(tmp_path: Path) -> None:
    text = _init(tmp_path)
    assert text.splitlines()[0] == _LINE
    schema = json.loads((tmp_path / "spec.schema.json").read_text())
    assert schema == json.loads(json.dumps(json_schema()))
    jsonschema.validate(yaml.safe_load(text), schema)


def test_a_schema_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "spec.schema.json").write_text(json.dumps({"$id": SCHEMA_ID, "properties": {}}))
    assert _init(tmp_path).splitlines()[0] == _LINE
    assert json.loads((tmp_path / "spec.schema.json").read_text())["properties"]


@pytest.mark.parametrize("content", ["{}", "not JSON"])
def test_somebody_elses_file_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "spec.schema.json").write_text(content)
    assert not _init(tmp_path).startswith("# yaml-language-server")
    assert (tmp_path / "spec.schema.json").read_text() == content
