"""Files of hls4ml are not trusted: damaged and hostile ones are errors, and nothing of them is unpacked."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.onnx_lowering.graphs import WORKER
from tfaot_pkg.errors import ModelError
from tfaot_pkg.spec.source.sniffing import require_whole

_PRECISION = {
    "class_name": "hls4ml.model.types.FixedPrecisionType",
    "state": {"width": 16, "signed": True, "integer": 6, "rounding_mode": "TRN", "saturation_mode": "WRAP",
              "saturation_bits": 0},
}  # fmt: skip
_TYPE = {"class_name": "hls4ml.model.types.NamedType", "state": {"name": "t", "precision": _PRECISION}}
_VARIABLE = {"class_name": "hls4ml.model.types.TensorVariable", "state": {"name": "x", "type": _TYPE, "shape": [4]}}
_INPUT = {
    "class_name": "hls4ml.model.layers.Input",
    "state": {"inputs": ["input"], "outputs": ["x"], "attributes": {"name": "x", "result_t": _TYPE, "x": _VARIABLE}},
}
_MEMBERS: dict[str, Any] = {
    "config.json": {"config": {"Backend": "Vitis", "ProjectName": "net", "IOType": "io_parallel"}},
    "graph_state.json": {"inputs": ["x"], "outputs": ["x"], "index": 1, "applied_flows": []},
    "model_arch.json": {"x": _INPUT},
    "version.json": {"hls4ml": "1.3.0", "model_graph": "1"},
}


def _file(path: Path, members: dict[str, Any], extra: Iterable[tuple[tarfile.TarInfo, bytes]] = ()) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info, data in extra:
            archive.addfile(info, io.BytesIO(data))
    return path


def _read(path: Path, out: Path, expression: str = "") -> str:
    """What the worker's reader says of a file; "read" if it has no fault."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from messages.requests import ModelFault\nfrom messages.sources import ReadHls4ml\n"
        "from from_hls4ml.reading import read\nfrom from_hls4ml.archive import opened\n"
        "from from_hls4ml.emulator import _checked\n"
        "try:\n    read(ReadHls4ml(path=sys.argv[2], out=sys.argv[3]), None)\n"
        f"    {expression or 'pass'}\n    print('read')\n"
        "except ModelFault as fault: print(fault.message, '/', fault.hint)\n"
    )
    words: list[str | Path] = [sys.executable, "-c", program, WORKER, path, out]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    said: str = done.stdout.strip()
    return said


def _with(**changes: Any) -> dict[str, Any]:
    return {**_MEMBERS, **{name.replace("__", "."): content for name, content in changes.items()}}


def test_a_file_is_read_as_data(tmp_path: Path) -> None:
    file = _file(tmp_path / "net.fml", _MEMBERS)
    require_whole("hls4ml", file)
    assert _read(file, tmp_path) == "read"
    assert json.loads((tmp_path / "network.json").read_text())["inputs"] == ["x"]


def test_members_are_never_unpacked(tmp_path: Path) -> None:
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    outside = tarfile.TarInfo("../../outside.npy")
    outside.size = 3
    file = _file(tmp_path / "net.fml", _MEMBERS, [(link, b""), (outside, b"abc")])
    (tmp_path / "out").mkdir()
    names = "from from_hls4ml.archive import written; written(opened(sys.argv[2]), sys.argv[3] + '/clean.fml')"
    assert _read(file, tmp_path / "out", names) == "read"
    with tarfile.open(tmp_path / "out" / "clean.fml") as clean:
        found = clean.getmembers()
    assert all(each.isreg() and "/" not in each.name for each in found)
    assert not list(tmp_path.parent.rglob("outside.npy"))


def _dense(weights: str, content: bytes) -> dict[str, Any]:
    weight = {"class_name": "hls4ml.model.types.WeightVariable",
              "state": {"name": "w", "type": _TYPE, "data": weights, "quantizer": None}}  # fmt: skip
    attributes = {"name": "d", "weight": weight, "d": _VARIABLE}
    layer = {"class_name": "hls4ml.model.layers.Dense", "state": {"inputs": ["x"], "outputs": ["d"],
             "attributes": attributes}}  # fmt: skip
    return _with(model_arch__json={"x": _INPUT, "d": layer}, w__npy=content)


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_arrays_are_no_pickles_and_come_from_the_archive(tmp_path: Path) -> None:
    for weights, content, said in (
        ("@ndarray:w.npy", _npy(np.array([print], object)), "w.npy"),
        ("@ndarray:../../etc/passwd", b"", "it has no ../../etc/passwd"),
        ("/etc/passwd", b"", "weights that are no array"),
        ("@ndarray:w.npy", _npy(np.array(["a"])), "w.npy has no numbers"),
    ):
        assert said in _read(_file(tmp_path / "net.fml", _dense(weights, content)), tmp_path)


def test_numbers_that_are_not_fixed_point_are_named(tmp_path: Path) -> None:
    for kind in ("StandardFloatPrecisionType", "ExponentPrecisionType"):
        precision = {"class_name": f"hls4ml.model.types.{kind}", "state": {"width": 32, "signed": True}}
        type_ = {"class_name": "hls4ml.model.types.NamedType", "state": {"name": "t", "precision": precision}}
        layer = json.loads(json.dumps(_INPUT))
        layer["state"]["attributes"]["x"]["state"]["type"] = type_
        said = _read(_file(tmp_path / "net.fml", _with(model_arch__json={"x": layer})), tmp_path)
        assert f"the layer 'x' has numbers of the type {kind}" in said


def test_other_backends_have_other_types(tmp_path: Path) -> None:
    file = _file(tmp_path / "net.fml", _with(config__json={"config": {"Backend": "oneAPI", "ProjectName": "net"}}))
    assert "hls4ml's backend oneAPI / convert the network with backend='Vitis'" in _read(file, tmp_path)


def test_classes_of_other_modules_are_not_made_by_the_emulator(tmp_path: Path) -> None:
    layer = json.loads(json.dumps(_INPUT))
    layer["state"]["attributes"]["y"] = {"class_name": "subprocess.Popen", "state": {"args": ["true"]}}
    file = _file(tmp_path / "net.fml", _with(model_arch__json={"x": layer}))
    said = _read(file, tmp_path, "_checked(opened(sys.argv[2]), 'project')")
    assert "the file names the class 'subprocess.Popen', which is none of hls4ml" in said


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    whole = _file(tmp_path / "net.fml", _MEMBERS).read_bytes()
    cut, other = tmp_path / "cut.fml", tmp_path / "other.fml"
    cut.write_bytes(whole[: len(whole) // 2])
    other.write_bytes(gzip.compress(b"no archive" * 100))
    for file in (cut, other):
        with pytest.raises(ModelError, match=r"is damaged"):
            require_whole("hls4ml", file)
        assert "the file of hls4ml cannot be read" in _read(file, tmp_path)
    for name in ("model_arch.json", "config.json", "graph_state.json"):
        contents: tuple[Any, ...] = (None, [], "x", {"x": 3}, {"x": {"state": {}}})
        for content in contents:
            changed = {**_MEMBERS, name: content}
            said = _read(_file(tmp_path / "net.fml", changed), tmp_path)
            assert said.startswith("the file of hls4ml cannot be read") or "hls4ml's backend" in said, (name, said)


def _header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header of a tar file that claims any size."""
    info = tarfile.TarInfo(name)
    info.type, made = kind, bytearray(info.tobuf(tarfile.GNU_FORMAT))
    made[:512] = info.tobuf(tarfile.GNU_FORMAT)[:512]
    made[124:136] = bytes([0x80 if size >= 0 else 0xFF]) + size.to_bytes(11, "big", signed=True)
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    return bytes(made)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [1 << 40, 1 << 86, -1024])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_members_that_claim_other_sizes_than_they_have_are_errors(tmp_path: Path, size: int, kind: bytes) -> None:
    whole = gzip.decompress(_file(tmp_path / "whole.fml", _MEMBERS).read_bytes()).rstrip(b"\0")
    whole += bytes(-len(whole) % 512)
    file = tmp_path / "net.fml"
    for content in (whole + _header("a", size, kind), _header("a", size, kind) + whole):
        file.write_bytes(gzip.compress(content))
        with pytest.raises(ModelError, match=r"is damaged"):
            require_whole("hls4ml", file)
        said = _read(file, tmp_path)
        assert "the file of hls4ml cannot be read" in said or said == "read"  # behind the end of what it needs


def test_results_of_shapes_that_no_network_has_are_errors(tmp_path: Path) -> None:
    for shape in ([0], [-4], [10**9], [1 << 32, 1 << 32]):
        layer = json.loads(json.dumps(_INPUT))
        layer["state"]["attributes"]["x"]["state"]["shape"] = shape
        said = _read(_file(tmp_path / "net.fml", _with(model_arch__json={"x": layer})), tmp_path)
        assert f"a result of the shape {shape}" in said
