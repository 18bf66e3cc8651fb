"""Rows are read from .npz files that anyone may have made: faults of all kinds are errors of the spec."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tfaot_pkg.errors import SpecError
from tfaot_pkg.spec.row_files import arrays_of


def _npy(header: str, content: bytes = bytes(48)) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def _plain(shape: str) -> bytes:
    return _npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}")


def _archive(path: Path, member: bytes) -> bytearray:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", member)
    return bytearray(path.read_bytes())


def _said(path: Path) -> str:
    with pytest.raises(SpecError, match=r"^compilation\.precision\.calibration: cannot read ") as raised:
        arrays_of(path, key="compilation.precision.calibration")
    assert len(str(raised.value)) < 400 + len(str(path))
    return str(raised.value)


@pytest.mark.parametrize(
    "member",
    [
        b"no array",
        b"",
        b"\x80\x04K\x01.",
        _npy("{"),
        _npy("'''"),
        _npy("-" * 9000 + "1"),
        _npy("{'descr': ',', 'fortran_order': False, 'shape': (4, 3)}"),
        _plain("(-4, 3)"),
        _plain(f"({10**30}, 0)"),
        _plain(f"({10**12}, 3)"),
        _plain("(10**9,)"),
    ],
)
def test_members_that_are_no_arrays_are_errors(tmp_path: Path, member: bytes) -> None:
    _archive(tmp_path / "rows.npz", member)
    _said(tmp_path / "rows.npz")


def test_packings_that_python_has_not_and_encryption_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    whole = _archive(path, _plain("(4, 3)"))
    assert list(arrays_of(path, key="x")) == ["x"]
    entry = whole.rfind(b"PK\x01\x02")
    for local, central, value in ((8, 10, 99), (6, 8, 0x01), (6, 8, 0x41), (6, 8, 0x20), (4, 6, 200)):
        changed = bytearray(whole)
        changed[local : local + 2] = changed[entry + central : entry + central + 2] = struct.pack("<H", value)
        path.write_bytes(changed)
        _said(path)


def test_arrays_that_do_not_fit_into_memory_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, content = tmp_path / "rows.npz", io.BytesIO()
    np.savez_compressed(content, x=np.zeros((1 << 20, 4), np.float32))
    path.write_bytes(content.getvalue())
    assert len(content.getvalue()) < 1 << 16
    monkeypatch.setattr("tfaot_pkg.spec.row_files.memory_here", lambda: 1 << 25)
    assert "its arrays take 16777" in _said(path)
