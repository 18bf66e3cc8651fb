"""`init` knows models by their content, and says what to do with files that hold none."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.wording import reported
from tfaot_pkg.errors import ModelError
from tfaot_pkg.spec.recognition import recognized


def _archive(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return file.getvalue()


_KNOWN = {
    "a Keras file": ("model.bin", _archive("metadata.json", "config.json", "model.weights.h5"), "keras"),
    "an HDF5 file": ("model.bin", b"\x89HDF\r\n\x1a\n\0\0", "keras"),
    "torch.export": ("model.zip", _archive("m/models/model.json", "m/archive_format", "m/data/weights/w"), "torch"),
    "core ATen": ("model.zip", _archive("program.json", "arrays/0"), "aten"),
    "TMVA": ("bdt.txt", b'<?xml version="1.0"?>\n<MethodSetup Method="BDT::BDTG">', "trees"),
    "TMVA, compressed": ("bdt.weights.xml.gz", b"\x1f\x8b\x08\0", "trees"),
    "XGBoost": ("model.json", b'{"learner":{"attributes":{}', "trees"),
    "XGBoost, binary": ("model.ubj", b"{L\0\0\0\0\0\0\0\7learner{L", "trees"),
    "LightGBM": ("model.txt", b"tree\nversion=v4\nnum_class=1", "trees"),
    "skops": ("model.bin", _archive("schema.json", "1.npy"), "trees"),
    "QONNX": ("net.onnx", b"\x08\x08:\x02\n\0B\x1a\n\x16finn.custom_op.general\x10\1", "qonnx"),
    "QONNX, not imported": ("net.onnx", b"\x08\x08:\x11\n\x0f:\ronnx.brevitas", "qonnx"),
    "conifer": ("trees.json", b'{\n  "n_classes": 2,', "conifer"),
    "hls4ml": ("net.fml", b"\x1f\x8b\x08\0", "hls4ml"),
    "ONNX of version 13": ("net.onnx", b"\x08\x08:\x02\n\0B\x04\n\0\x10\x0d", "onnx"),
    "other JSON": ("model.json", b'{"layers": []}', None),
    "bytecode": ("model.bin", b"ML\xefR\r\x01", "mlir"),
    "StableHLO": ("model.txt", b"// A comment.\nmodule @jit_f attributes {x = 1} {\n  func.func", "mlir"),
    "a function": ("model.txt", b"func.func @main(%0: tensor<4xf32>) {", "mlir"),
    "a function as it was written until 2022": ("model.txt", b"func @main(%0: tensor<4xf32>) {", "mlir"),
    "a graph as text": ("model.txt", b'node {\n  name: "x"\n  op: "Placeholder"', "graph"),
    "a graph": ("model.pb", b"\x0a\x10\x0a\x01x", "graph"),
    "ONNX": ("model.onnx", b"\x08\x08\x12\x07pytorch", "onnx"),
    "a misnamed file": ("model.onnx", b"\x89HDF\r\n\x1a\n\0\0", "keras"),
    "a spec": ("spec.yaml", b"model:\n  name: node\n", None),
}


@pytest.mark.parametrize("kind", _KNOWN)
def test_content_tells_what_a_model_is(kind: str, tmp_path: Path) -> None:
    name, content, field = _KNOWN[kind]
    path = tmp_path / name
    path.write_bytes(content)
    found = recognized(path)
    assert (found.field if found else None) == field


def _arrays() -> bytes:
    file = io.BytesIO()
    np.savez(file, w=np.ones(3), b=np.ones(2))
    return file.getvalue()


_OLD_NAMES = b"\x0f\0\0\0\0\0\0\0binary:logistic\6\0\0\0\0\0\0\0gbtree"
_FOREIGN = {
    "weights.pt": _archive("weights/data.pkl", "weights/data/0", "weights/version"),
    "weights.pth": pickle.dumps({"w": [1.0]}, protocol=2),
    "traced.pt": _archive("traced/data.pkl", "traced/constants.pkl", "traced/code/net.py"),
    "model.tflite": b"\x1c\0\0\0TFL3\x14\0",
    "model.safetensors": struct.pack("<Q", 60) + b'{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}',
    "model.gguf": b"GGUF\x03\0\0\0",
    "forest.pkl": pickle.dumps(["forest"]),
    "forest.joblib": pickle.dumps({"a": 1}, protocol=3),
    "small.joblib": zlib.compress(pickle.dumps({"a": [1, 2, 3]}), 3),
    "network.json": b'{"module": "keras", "class_name": "Functional", "config": {}}',
    "tmva.root": b"root\0\0\xf8\x68",
    "weights.npz": _arrays(),
    "model.ort": b"\x18\0\0\0ORTM\0\0\0\0",
    "boosted.cbm": b"CBM1x\x1d\0\0",
    "boosted.json": b'{\n  "features_info":\n    {"float_features": []}}',
    "old.bin": b"binf" + bytes(136) + _OLD_NAMES,
    "old.model": bytes(136) + _OLD_NAMES,
    "dump.json": b'[\n  { "nodeid": 0, "depth": 0, "split": "f5"}]',
    "dump.txt": b"booster[0]:\n0:[f5<0.6] yes=1,no=2,missing=1",
    "lightgbm.json": b'{"name": "tree", "version": "v4", "num_class": 1}',
    "model.pmml": b'<?xml version="1.0"?>\n<PMML version="4.3">',
    "model.ckpt.index": b"\0\0\0",
}


@pytest.mark.parametrize("name", _FOREIGN)
def test_files_without_a_model_say_how_to_get_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(_FOREIGN[name])
    with reported(ModelError):
        recognized(Path(name))


def test_a_folder_with_a_checkpoint_alone_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trained").mkdir()
    Path("trained/model.ckpt.index").touch()
    with reported(ModelError):
        recognized(Path("trained"))
    Path("trained/saved_model.pb").touch()
    assert recognized(Path("trained")) is None


def test_a_folder_with_one_onnx_file_is_an_onnx_model(tmp_path: Path) -> None:
    for name in ("tagger.onnx", "weights.bin"):
        (tmp_path / name).touch()
    found = recognized(tmp_path)
    assert found is not None and found.field == "onnx"
    (tmp_path / "other.onnx").touch()
    with reported(ModelError):
        recognized(tmp_path)


@pytest.mark.parametrize(("name", "code"), [("spec.yaml", 12), ("none", 10)])
def test_init_takes_nothing_but_models(name: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("model:\n  name: node\n")
    done = run_command(["init", str(tmp_path / name), "-o", str(tmp_path / "made.yaml")])
    assert done.returncode == code and str(tmp_path / name) in done.stderr, done
    assert not (tmp_path / "made.yaml").exists()


def test_a_folder_without_a_model_is_refused_at_once_and_a_model_below_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFAOT_HOME", str(tmp_path / "home"))
    (tmp_path / "digits" / "saved_model").mkdir(parents=True)
    (tmp_path / "digits" / "spec.yaml").touch()
    with reported(ModelError):
        recognized(tmp_path / "digits")
    (tmp_path / "digits" / "saved_model" / "saved_model.pb").touch()
    for command in ("init", "check"):
        done = run_command([command, "digits"], cwd=tmp_path)
        assert done.returncode == 12 and "contains it: digits/saved_model\n" in done.stderr, done
    done = run_command(["build", "digits", "-o", "prefix"], cwd=tmp_path)
    assert done.returncode == 10 and "name the file: digits/spec.yaml\n" in done.stderr
    assert not (tmp_path / "home" / "cache" / "toolchains").exists()
