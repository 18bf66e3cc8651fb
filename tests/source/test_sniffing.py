"""A file that is garbage, cut off or of another format is rejected before anything is installed for it."""

from __future__ import annotations

import gzip
import io
import os
import struct
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.wording import reported
from tfaot_pkg.errors import ModelError
from tfaot_pkg.spec.formats import Format
from tfaot_pkg.spec.source.sniffing import require_whole

_ARTIFACTS = Path(__file__).resolve().parents[1] / "frozen" / "artifacts"
_TEXT = b"module @m {\n  func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {\n    return %x : tensor<?x2xf32>\n  }\n}\n"
_XGBOOST = (
    b'{"learner": {"gradient_booster": {"name": "gbtree"}, "objective": {"name": "reg:squarederror"}}, "version": [3]}'
)
_LIGHTGBM = b"tree\nversion=v4\nnum_class=1\n\nTree=0\nnum_leaves=2\n\nend of trees\n"
_TMVA = b'<?xml version="1.0"?>\n<MethodSetup Method="BDT::BDT"><Weights NTrees="1"/></MethodSetup>\n'


def _field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return bytes([number << 3, content])
    return bytes([number << 3 | 2, 128 | len(content) % 128, len(content) // 128]) + content


def _zip(**members: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_DOT_", "."), content)
    return made.getvalue()


def _hdf5(size: int) -> bytes:
    """A superblock of version 0: widths, addresses of the base, of free space and of the end."""
    head = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + bytes(8)
    return (head + struct.pack("<QqQq", 0, -1, size, -1)).ljust(size, b"\1")


_GRAPH = _field(1, b"\x0a\x01x\x12\x0bPlaceholder") * 13
FILES: Mapping[str, tuple[Format, bytes]] = {
    "net.onnx": ("onnx", (_ARTIFACTS / "torch" / "linear.onnx").read_bytes()),
    "quantized.onnx": (
        "qonnx",
        _field(1, 8) + _field(7, bytes(1000)) + _field(8, b"\n\x17qonnx.custom_op.general\x10\1"),
    ),
    "net.keras": ("keras", (_ARTIFACTS / "keras" / "torch.keras").read_bytes()),
    "net.h5": ("keras", _hdf5(2000)),
    "net.jax": ("jax", (_ARTIFACTS / "flax.jax").read_bytes()),
    "net.mlir": ("mlir", _TEXT),
    "net.aten": ("aten", (_ARTIFACTS.parents[1] / "aten_lowering" / "artifacts" / "linear.aten").read_bytes()),
    "net.pt2": ("torch", _zip(net__tfaot__model_DOT_onnx=b"graph", net__data=bytes(1000))),
    "bdt.json": ("trees", _XGBOOST),
    "bdt.ubj": ("trees", b"{L\0\0\0\0\0\0\0\7learner{}}"),
    "bdt.txt": ("trees", _LIGHTGBM),
    "bdt.skops": ("trees", _zip(schema_DOT_json=b"{}", data=bytes(1000))),
    "bdt.xml": ("trees", _TMVA),
    "bdt.xml.gz": ("trees", gzip.compress(_TMVA)),
    "graph.pb": ("graph", _GRAPH),
    "graph.meta": ("graph", _field(1, b"x") + _field(2, _GRAPH)),
    "graph.pbtxt": ("graph", b'node {\n  name: "x"\n  op: "Placeholder"\n}\n'),
    "saved_model": ("saved_model", _field(1, 1) + _field(2, _GRAPH)),
}


def _write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    if name != "saved_model":
        path.write_bytes(content)
        return path
    path.mkdir()
    (path / "saved_model.pb").write_bytes(content)
    return path


@pytest.mark.parametrize("name", FILES)
def test_a_whole_file_passes(name: str, tmp_path: Path) -> None:
    wanted, content = FILES[name]
    require_whole(wanted, _write(tmp_path, name, content))


_HARM: Mapping[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "almost whole": lambda content: content[: -(len(content) // 20) - 4],
    "empty": lambda _: b"",
    "garbage": lambda content: bytes((each * 197 + 91) % 256 for each in range(len(content))),
    "words": lambda _: b"<!DOCTYPE html><html><body>404: no such file</body></html>\n",
}


@pytest.mark.parametrize("harm", _HARM)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_rejected(name: str, harm: str, tmp_path: Path) -> None:
    wanted, content = FILES[name]
    path = _write(tmp_path, name, _HARM[harm](content))
    start = time.monotonic()
    with pytest.raises(ModelError) as error:
        require_whole(wanted, path)
    assert time.monotonic() - start < 1
    assert str(path) in error.value.message
    assert error.value.hint
    if name == "saved_model":
        assert "saved_model.pb is damaged" in error.value.message


_DEEP = b'{"learner":' * 100_000 + b"1" + b"}" * 100_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bdt.json", _DEEP),
        ("bdt.skops", _zip(schema_DOT_json=_DEEP)),
        ("net.aten", _zip(program_DOT_json=_DEEP)),
        ("net.keras", _zip(config_DOT_json=_DEEP, metadata_DOT_json=_DEEP, model_DOT_weights_DOT_h5=_hdf5(2000))),
    ],
)
def test_documents_that_are_nested_too_deeply_are_rejected(name: str, content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as error:
        require_whole(FILES[name][0], _write(tmp_path, name, content))
    assert error.value.message.endswith("it is nested too deeply"), error.value


@pytest.mark.parametrize("name", ["net.onnx", "net.aten", "net.mlir", "bdt.json", "graph.pb", "net.h5"])
def test_a_file_is_rejected_with_an_empty_home_and_no_network(name: str, tmp_path: Path) -> None:
    home, path = tmp_path / "home", _write(tmp_path, name, b"<html>404: no such file</html>\n" * 9)
    if path.suffix in (".json", ".h5"):
        path.write_bytes(FILES[name][1][:-30])
    # Whatever asked for a download would fail with another error, and would wait for it.
    env = {**os.environ, "TFAOT_HOME": str(home), "HOME": str(home), "https_proxy": "http://127.0.0.1:9"}
    for command in (["init", str(path), "-o", str(tmp_path / "spec.yaml")], ["check", str(path)]):
        done = run_command(command, env=env)
        assert done.returncode == 12, done.stderr
        assert str(path) in done.stderr
    assert not (home / "cache" / "toolchains").exists()
    assert not (tmp_path / "spec.yaml").exists()


def test_a_file_of_another_format_says_which_one_it_is(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(_XGBOOST)
    with reported(ModelError) as error:
        require_whole("onnx", tmp_path / "net.onnx")
    assert "model.trees" in error.value.hint


def test_cut_off_files_say_where(tmp_path: Path) -> None:
    content = FILES["net.onnx"][1]
    (tmp_path / "net.onnx").write_bytes(content[:-9])
    with reported(ModelError) as error:
        require_whole("onnx", tmp_path / "net.onnx")
    assert str(len(content)) in error.value.message
    assert str(len(content) - 9) in error.value.message


def test_a_table_of_variables_that_is_cut_off_is_rejected(tmp_path: Path) -> None:
    model = _write(tmp_path, "saved_model", FILES["saved_model"][1])
    (model / "variables").mkdir()
    (model / "variables" / "variables.index").write_bytes(bytes(100))
    with reported(ModelError):
        require_whole("saved_model", model)
