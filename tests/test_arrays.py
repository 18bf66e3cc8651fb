"""Files of arrays that a program in the sandbox wrote: they are read, or refused with a ValueError."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.wording import reported
from tfaot_pkg.ground.arrays import mapped_arrays, read_arrays
from tfaot_pkg.worker_program.messages.elements import write_arrays


def _header(text: str) -> bytes:
    content = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(content).to_bytes(2, "little") + content


def _npy(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)  # type: ignore[arg-type]
    return stream.getvalue()


def _zip(path: Path, member: bytes, packing: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("a.npy", member)
    return path


def test_arrays_of_any_names_are_written_and_read(tmp_path: Path) -> None:
    arrays = {"1/y": np.arange(6, dtype=np.float32).reshape(2, 3), "4/z": np.array(True), "n": np.empty((0, 2))}
    # Parameters of numpy.savez: the inputs of a model may be called so.
    arrays |= {"file": np.arange(2), "args": np.arange(3), "allow_pickle": np.arange(4)}
    write_arrays(tmp_path / "x.npz", arrays)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]
    found = read_arrays(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as file:
        assert sorted(file.files) == sorted(arrays)
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


@pytest.mark.parametrize(
    "member",
    [
        b"",
        b"text",
        _npy(np.array([{}], dtype=object)),
        _header("{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }"),
        _header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"),
        _header("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }") + b"\0",
        _header("{'descr': [], 'fortran_order': 0, 'shape': 'x'}"),
        _header("(" * 9000),
        _header("{'descr': ['x'], 'fortran_order': False, 'shape': (1,), }"),
    ],
    ids=range(9),
)
def test_a_member_that_is_no_array_is_refused(tmp_path: Path, member: bytes) -> None:
    with pytest.raises(ValueError):
        read_arrays(_zip(tmp_path / "x.npz", member))


def test_a_packed_file_is_refused(tmp_path: Path) -> None:
    path = _zip(tmp_path / "x.npz", _npy(np.zeros(1 << 20)), zipfile.ZIP_DEFLATED)
    with reported(ValueError):
        read_arrays(path)


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """A file of megabytes could stand for terabytes."""
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", _npy(np.zeros(1 << 16)))
        archive.filelist += [archive.filelist[0]] * 100
    with reported(ValueError):
        read_arrays(path)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_is_refused_or_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    try:
        assert read_arrays(tmp_path / "x.npz") == {}
    except ValueError:
        pass


def test_a_folder_and_nothing_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.npz"):
        with reported(ValueError):
            read_arrays(path)


def test_arrays_behind_one_another_are_views_of_their_file(tmp_path: Path) -> None:
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(True), np.empty((0, 2)), np.arange(3)]
    path = tmp_path / "x.bin"
    path.write_bytes(b"".join(map(_npy, arrays)))
    found = mapped_arrays(path)
    assert len(found) == len(arrays)
    for one, wanted in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(one, wanted)
        assert (one.dtype, one.shape) == (wanted.dtype, wanted.shape)
    assert isinstance(found[0], np.memmap)


@pytest.mark.parametrize(
    "content",
    [
        b"text",
        _npy(np.array([{}], dtype=object)),
        _npy(np.asfortranarray(np.ones((2, 3)))),
        _npy(np.ones(5))[:-1],
        _npy(np.ones(5)) + b"more",
        _header("{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,), }"),
        _header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"),
        _header("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 10**9), }"),
        b"\x93NUMPY\x02\x00" + _npy(np.ones(5))[8:],
    ],
    ids=["text", "objects", "columns", "short", "more", "huge", "negative", "expression", "version"],
)
def test_a_file_of_another_form_maps_no_arrays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(_npy(np.arange(3)) + content)
    with pytest.raises(ValueError):
        mapped_arrays(path)
