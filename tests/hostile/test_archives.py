"""Hostile archives of sources and packages: refused, and nothing is written outside of the folder for it."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tfaot_pkg.errors import SourceError, TfaotError
from tfaot_pkg.registry import archive as package
from tfaot_pkg.spec.source.unpack import unpack


def _tar(*members: tuple[str, dict[str, object]], content: bytes = b"owned") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            for key, value in fields.items():
                setattr(info, key, value)
            info.size = len(content) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return _gz(buffer.getvalue())


def _gz(data: bytes) -> bytes:
    """With the header that packages have, so that their content is what is refused."""
    return gzip.compress(data, 6, mtime=0)[:9] + b"\xff" + gzip.compress(data, 6, mtime=0)[10:]


def _zip(name: str, *, mode: int = 0, content: bytes = b"owned") -> bytes:
    buffer = io.BytesIO()
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(info, content)
    return buffer.getvalue()


def _link(target: str, kind: bytes = tarfile.SYMTYPE) -> dict[str, object]:
    return {"type": kind, "linkname": target}


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "tar: a name that leaves": lambda: _tar(("m/../../outside", {})),
    "tar: an absolute name": lambda: _tar(("/tmp/tfaot-outside", {})),
    "tar: a name with NUL by PAX": lambda: _tar(("m/a", {"pax_headers": {"path": "m/a\x00b"}})),
    "tar: a link out": lambda: _tar(("m/l", _link("../../.."))),
    "tar: an absolute link": lambda: _tar(("m/l", _link("/etc/passwd"))),
    "tar: a file through a link": lambda: _tar(("m/l", _link("..")), ("m/l/../../outside", {})),
    "tar: a hard link out": lambda: _tar(("m/l", _link("../../../etc/passwd", tarfile.LNKTYPE))),
    "tar: a pipe": lambda: _tar(("m/p", {"type": tarfile.FIFOTYPE})),
    "tar: a device": lambda: _tar(("m/d", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5})),
    "tar: a disk": lambda: _tar(("m/d", {"type": tarfile.BLKTYPE, "devmajor": 8})),
    "tar: 50,000 levels": lambda: _tar(("m/" + "a/" * 50_000 + "b", {})),
    "tar: 140 levels": lambda: _tar(("m/" + "a/" * 140 + "b", {})),
    "tar: a hard link by an absolute name": lambda: _tar(("m/a", {}), ("m/b", _link("/m/a", tarfile.LNKTYPE))),
    "tar: holes": lambda: _tar(("m/a", {"type": tarfile.GNUTYPE_SPARSE})),
    "tar: cut off": lambda: _tar(("m/a", {}), content=os.urandom(50_000))[:20_000],
    "tar: zeros without end": lambda: _gz(_plain_zeros()),
    "zip: a name that leaves": lambda: _zip("../outside"),
    "zip: an absolute name": lambda: _zip("/tmp/tfaot-outside"),
    "zip: a link out": lambda: _zip("m/l", mode=stat.S_IFLNK | 0o777, content=b"../../../etc/passwd"),
    "zip: a device": lambda: _zip("m/d", mode=stat.S_IFCHR | 0o666),
    "zip: zeros without end": lambda: _zip("m/a", content=bytes((1 << 28) + 1)),
    "not an archive": lambda: b"<html>404</html>",
    "empty": lambda: b"",
}


def _plain_zeros() -> bytes:
    """A tar whose one file claims 8 EiB."""
    info = tarfile.TarInfo("m/a")
    info.size = (1 << 63) - 1
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_source_is_refused(name: str, tmp_path: Path) -> None:
    into = tmp_path / "deep" / "into"
    into.mkdir(parents=True)
    path = tmp_path / "archive"
    path.write_bytes(ARCHIVES[name]())
    with pytest.raises(SourceError):
        unpack(path, into, label="source.url")
    _require_inside(tmp_path)


@pytest.mark.parametrize("name", [name for name in ARCHIVES if not name.startswith("zip")])
def test_a_hostile_package_is_refused(name: str, tmp_path: Path) -> None:
    into = tmp_path / "deep" / "into"
    into.mkdir(parents=True)
    path = tmp_path / "archive"
    path.write_bytes(ARCHIVES[name]())
    with pytest.raises(TfaotError), path.open("rb") as file:
        package.unpack(file, into, what="a package")
    _require_inside(tmp_path)


def _require_inside(root: Path) -> None:
    """Nothing but the archive and what lies in the folder to unpack into, and there no links."""
    assert sorted(os.listdir(root)) == ["archive", "deep"] and os.listdir(root / "deep") in ([], ["into"])
    assert [path for path in (root / "deep").rglob("*") if path.is_symlink() or path.is_fifo()] == []
    assert not Path("/tmp/tfaot-outside").exists()
