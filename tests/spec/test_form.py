"""A setting of a spec is declared in one place, from which everything else that knows it is made."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tfaot_pkg.spec.form import SECTIONS, json_schema, keys_of
from tfaot_pkg.spec.types import ArchiveSource, FolderSource, GitSource, KerasFile, SavedModelFiles

ROOT = Path(__file__).resolve().parents[2]
_BEFORE = '    namespace: Annotated[str, Setting(v.Namespace)] = "tfaot_model"\n'
_NEW = '''\
    stride: Annotated[int, Setting(v.MaxIterations, examples=(8,), later=True)] = 4
    """Rows of one step."""
    order: Annotated[Literal["rows", "columns"], Setting()] = "rows"
    """Which index changes first."""
'''
_USE = """
import json
from pathlib import Path
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.forms.fields import described_field
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.form import json_schema
from tfaot_pkg.spec.parse import parse_spec
from tools.make_reference import pages

def spec(**settings):
    data = {"model": {"name": "net", "version": "1.0"}, "compilation": {"batch_sizes": [1], **settings}}
    return parse_spec(json.dumps(data).encode(), Path("/spec.json"))

try:
    spec(stride=-1, order="diagonal")
except SpecError as error:
    message = str(error)
made = spec(stride=16, order="columns")
print(json.dumps({
    "message": message,
    "value": [made.compilation.stride, made.compilation.order],
    "document": [spec_document(each)["compilation"].get("stride") for each in (made, spec())],
    "described": described_field(json_schema(), "compilation.stride"),
    "schema": json_schema()["$defs"]["CompilationForm"]["properties"]["order"],
    "page": [line for line in pages()["spec.md"].splitlines() if "compilation.stride" in line],
}))
"""


def test_a_new_setting_is_written_once(tmp_path: Path) -> None:
    for name in ("tfaot_pkg", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("recipes", "templates", "share", "tests", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    types = tmp_path / "tfaot_pkg" / "spec" / "types.py"
    text = types.read_text()
    assert text.count(_BEFORE) == 1
    types.write_text(text.replace(_BEFORE, _NEW + _BEFORE))
    done = subprocess.run(
        [sys.executable, "-c", _USE], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["message"].splitlines() == [
        "/spec.json:1: compilation.stride: must be at least 0, got -1",
        "/spec.json:1: compilation.order: must be rows or columns, got 'diagonal'",
    ]
    assert found["value"] == [16, "columns"]
    assert found["document"] == [16, None]  # which leaves the keys of specs without it as they were
    assert found["described"] == "compilation.stride\n    Rows of one step.\n    default: 4\n    example: 8"
    assert found["schema"]["default"] == "rows" and found["schema"]["description"] == "Which index changes first."
    assert found["page"] == ['| <a id="compilation.stride"></a>`stride` | `4` | Rows of one step. |']


def test_a_source_and_the_files_of_a_model_are_unions() -> None:
    """Each key of these sections belongs to one type, so no value has the fields of another."""
    kinds = (FolderSource, ArchiveSource, GitSource)
    names = [key.name for kind in kinds for key in keys_of(kind)]
    assert names == list(SECTIONS["source"].model_fields) and len({*names}) == len(names)
    assert [key.name for key in keys_of(KerasFile)] == ["answers"]
    assert [key.name for key in keys_of(SavedModelFiles)] == ["saved_model", "serving_key", "signatures", "tags"]


def test_every_key_says_what_it_means() -> None:
    for name, form in json_schema()["$defs"].items():
        assert all(value["description"].endswith(".") for value in form["properties"].values()), name
