"""Files that are known and not read are rejected with what to name instead, also if a spec names their format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.errors import ModelError
from tfaot_pkg.spec.formats import Format
from tfaot_pkg.spec.source.sniffing import require_whole


@pytest.mark.parametrize(
    ("wanted", "content", "message", "hint"),
    [
        ("onnx", b"\x18\0\0\0ORTM" + bytes(64), "an ORT file", "the .onnx file"),
        ("trees", b"binf" + bytes(200), "binary model of XGBoost", 'save_model("model.json")'),
        ("trees", b"CBM1" + bytes(64), "a model of CatBoost", 'format="onnx"'),
        ("trees", b"\x80\x04\x95" + bytes(64), "a pickle", "scikit-learn with skops"),
    ],
    ids=["ort", "xgboost", "catboost", "pickle"],
)
def test_nothing_is_installed(wanted: Format, content: bytes, message: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "model.file"
    path.write_bytes(content)
    with pytest.raises(ModelError) as error:
        require_whole(wanted, path)
    assert message in error.value.message
    assert hint in error.value.hint
