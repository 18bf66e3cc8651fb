from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.package.listing import Member, Tree, path_fault, scan_tree, tree_fault
from tfaot_pkg.registry.archive import Limits, pack, unpack, write_tar


def make_tree(root: Path) -> Path:
    (root / "lib/cmake").mkdir(parents=True)
    (root / "lib/liba.so.1").write_bytes(b"\x7fELF" * 300)
    (root / "lib/liba.so").symlink_to("liba.so.1")
    (root / "lib/cmake/a.cmake").write_bytes(b"")
    (root / "bin").mkdir()
    (root / "bin/tool").write_bytes(b"#!/bin/sh\n")
    (root / "bin/tool").chmod(0o700)
    return root


def packed(root: Path) -> bytes:
    buffer = io.BytesIO()
    pack(root, buffer)
    return buffer.getvalue()


def test_what_was_packed_unpacks_to_the_same_tree(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "a tree")
    (tmp_path / "out").mkdir()
    tree = unpack(io.BytesIO(packed(root)), tmp_path / "out", what="x")
    assert tree == scan_tree(root) == scan_tree(tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out/bin/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "out/lib/liba.so.1").stat().st_mode) == 0o644
    assert (tmp_path / "out/lib/liba.so").readlink() == Path("liba.so.1")


def test_files_get_the_time_of_unpacking_so_that_builds_see_new_headers(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    unpack(io.BytesIO(packed(make_tree(tmp_path / "tree"))), tmp_path / "out", what="x")
    assert (tmp_path / "out/lib/liba.so.1").stat().st_mtime > 1e9


def test_the_bytes_depend_on_the_tree_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = packed(make_tree(tmp_path / "one"))
    old = os.umask(0o077)
    try:
        again = make_tree(tmp_path / "another place with a longer name")
    finally:
        os.umask(old)
    for path in again.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12345")
    assert packed(again) == first


def test_the_tar_bytes_and_the_trees_digest_are_the_same_on_every_machine(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree")
    buffer = io.BytesIO()
    write_tar(root, scan_tree(root), buffer)
    assert hashlib.sha256(buffer.getvalue()).hexdigest() == GOLDEN_TAR
    assert scan_tree(root).digest == GOLDEN_TREE


GOLDEN_TAR = "3d0ff5f8c0314056dc6acca6f94a4b7c99fe8b1341aaa67032be6e3c4fde8683"
GOLDEN_TREE = "1e5705365e7b29a442bfcdd8528c0e206d33e55aff6fad252d86b88ca83bb1d8"


def test_the_header_of_gzip_holds_neither_time_nor_name(tmp_path: Path) -> None:
    archive = tmp_path / "named.tar.gz"
    with archive.open("wb") as file:
        pack(make_tree(tmp_path / "tree"), file)
    assert archive.read_bytes()[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def test_other_tools_can_read_the_archive(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed(make_tree(tmp_path / "tree")))) as archive:
        members = archive.getmembers()
    assert [m.name for m in members] == ["bin/tool", "lib/cmake/a.cmake", "lib/liba.so", "lib/liba.so.1"]
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}


@pytest.mark.parametrize("change", ["content", "name", "mode", "link"])
def test_every_change_of_a_tree_changes_its_digest(tmp_path: Path, change: str) -> None:
    root = make_tree(tmp_path / "tree")
    before = scan_tree(root).digest
    if change == "content":
        (root / "lib/cmake/a.cmake").write_text("x")
    elif change == "name":
        (root / "lib/cmake/a.cmake").rename(root / "lib/cmake/b.cmake")
    elif change == "mode":
        (root / "bin/tool").chmod(0o600)
    else:
        (root / "lib/liba.so").unlink()
        (root / "lib/liba.so").symlink_to("cmake/a.cmake")
    assert scan_tree(root).digest != before


def test_a_fifo_or_a_link_out_of_the_tree_is_not_packed(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree")
    os.mkfifo(root / "pipe")
    with reported(RegistryError):
        packed(root)
    (root / "pipe").unlink()
    (root / "out").symlink_to("../../secret")
    with reported(RegistryError):
        packed(root)


def test_a_name_too_long_for_the_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ("n" * 150)).write_bytes(b"")
    with reported(RegistryError):
        packed(tmp_path / "tree")


# --- hostile archives ---------------------------------------------------------------------------------------------


def gz(data: bytes) -> bytes:
    """As `pack` compresses it, so that nothing but the content can be a reason to refuse it."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=buffer, mtime=0) as stream:
        stream.write(data)
    return buffer.getvalue()


def plain(*members: tuple[str, dict[str, Any]], format: int = tarfile.USTAR_FORMAT) -> bytes:  # noqa: A002
    """The members and two empty blocks; headers are those of `pack`, except for the fields that are given."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            data = fields.get("data", b"")
            assert isinstance(data, bytes)
            info.size = len(data)
            for field, value in fields.items():
                if field != "data":
                    setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data))
        end = archive.offset
    return buffer.getvalue()[:end] + bytes(1024)


def tar(*members: tuple[str, dict[str, Any]], format: int = tarfile.USTAR_FORMAT) -> bytes:  # noqa: A002
    return gz(plain(*members, format=format))


def edited(data: bytes, place: int, value: bytes) -> bytes:
    """The header that begins the archive `data`, with other bytes at `place` and a right checksum."""
    header = bytearray(data[:512])
    header[place : place + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return gz(bytes(header) + data[512:])


SYM: dict[str, Any] = {"type": tarfile.SYMTYPE, "mode": 0o777}
HARD: dict[str, Any] = {"type": tarfile.LNKTYPE}

ONE: tuple[str, dict[str, Any]] = ("a", {"data": b"x"})

HOSTILE: dict[str, bytes] = {
    "parent": tar(("../evil", {"data": b"x"})),
    "parent inside": tar(("lib/../../evil", {"data": b"x"})),
    "absolute": tar(("/tmp/evil", {"data": b"x"})),
    "dot": tar(("./lib/a", {"data": b"x"})),
    "hidden": tar((".tfaot-prefix.lock", {"data": b"x"})),
    "line end": tar(("lib/a\nb", {"data": b"x"})),
    "backslash": tar(("..\\evil", {"data": b"x"})),
    "link out": tar(("lib/a", {**SYM, "linkname": "../../evil"})),
    "absolute link": tar(("lib/a", {**SYM, "linkname": "/etc/passwd"})),
    "link to a folder": tar(("a", {**SYM, "linkname": "lib"}), ("lib/b", {"data": b"x"})),
    "dangling link": tar(("a", {**SYM, "linkname": "b"})),
    "link to itself": tar(("a", {**SYM, "linkname": "b"}), ("b", {**SYM, "linkname": "a"})),
    "write through a link": tar(("a", {**SYM, "linkname": ".."}), ("a/evil", {"data": b"x"})),
    "write through a later link": tar(("a", {**SYM, "linkname": "a/x"}), ("a/x", {"data": b"x"})),
    "hard link": tar(("a", {"data": b"x"}), ("b", {**HARD, "linkname": "/etc/passwd"})),
    "device": tar(("a", {"type": tarfile.CHRTYPE, "devmajor": 1})),
    "fifo": tar(("a", {"type": tarfile.FIFOTYPE})),
    "twice": tar(("a", {"data": b"x"}), ("a", {"data": b"y"})),
    "file and folder": tar(("a", {"data": b"x"}), ("a/b", {"data": b"y"})),
    "folder and file": tar(("a/b", {"data": b"x"}), ("a", {"data": b"y"})),
    "long name of GNU": tar(("a" * 300, {"data": b"x"}), format=tarfile.GNU_FORMAT),
    "extended header": tar(("a" * 300, {"data": b"x"}), format=tarfile.PAX_FORMAT),
    "not gzip": b"<html>404</html>",
    "empty": b"",
    "not tar": gz(b"x" * 2000),
    "cut off": tar(("a", {"data": os.urandom(5000)}))[:-2000],
    "no end": gz(plain(("a", {"data": b"x"}))[:1024]),
    "zeros": tar(("a", {"data": bytes(3 << 20)})),
    "many": tar(*((f"f{number:02}", {}) for number in range(60))),
    "bytes after the gzip stream": tar(ONE) + b"x",
    "a zero after the gzip stream": tar(ONE) + b"\0",
    "MiB after the gzip stream": tar(ONE) + os.urandom(1 << 20),
    "a second gzip stream": tar(ONE) + gz(b"x"),
    "an empty second gzip stream": tar(ONE) + gz(b""),
    "a name in gzip's header": gzip.compress(plain(ONE), mtime=0)[:3]
    + b"\x08"
    + tar(ONE)[4:10]
    + b"n\0"
    + tar(ONE)[10:],
    "a time in gzip's header": tar(ONE)[:4] + b"\1" + tar(ONE)[5:],
    "another system in gzip's header": tar(ONE)[:9] + b"\3" + tar(ONE)[10:],
    "another level in gzip's header": tar(ONE)[:8] + b"\2" + tar(ONE)[9:],
    "another checksum": tar(ONE)[:-8] + b"abcd" + tar(ONE)[-4:],
    "another size": tar(ONE)[:-1] + b"\1",
    "no checksum": tar(ONE)[:-8],
    "empty blocks of deflate": tar(ONE)[:10] + b"\0\0\0\xff\xff" * (1 << 20) + tar(ONE)[10:],
    "bytes after the archive": gz(plain(ONE) + b"x"),
    "zeros after the archive": gz(plain(ONE) + bytes(512)),
    "bytes in the last block": gz(plain(ONE)[:-1] + b"x"),
    "one empty block at the end": gz(plain(ONE)[:-512]),
    "bytes after a file": gz(plain(ONE)[:1023] + b"x" + bytes(1024)),
    "a time": tar(("a", {"data": b"x", "mtime": 1})),
    "a user": tar(("a", {"data": b"x", "uid": 1})),
    "a user's name": tar(("a", {"data": b"x", "uname": "root"})),
    "a group": tar(("a", {"data": b"x", "gid": 1})),
    "another mode": tar(("a", {"data": b"x", "mode": 0o600})),
    "mode of a link": tar(("a", {"data": b"x"}), ("b", {**SYM, "linkname": "a", "mode": 0o644})),
    "target of a file": tar(("a", {"data": b"x", "linkname": "b"})),
    "device of a file": edited(plain(ONE), 329, b"0000001"),
    "bytes after a name": edited(plain(ONE), 5, b"hidden"),
    "bytes after the header": edited(plain(ONE), 505, b"hidden"),
    "magic of GNU": edited(plain(ONE), 257, b"ustar  \0"),
    "an old type": edited(plain(ONE), 156, b"\0"),
    "blanks in a number": edited(plain(ONE), 124, b"          1\0"),
    "a number of GNU": edited(plain(ONE), 124, b"\x80" + bytes(10) + b"\1"),
    "a split name": tar(("a", {"data": b"x"}), ("b", {"data": b"x"}))[:0]
    + edited(plain(("a/b", {"data": b"x"})), 345, b"a"),
    "a folder": tar(("a", {"type": tarfile.DIRTYPE, "mode": 0o755}), ("a/b", {"data": b"x"})),
    "not sorted": tar(("b", {"data": b"x"}), ("a", {"data": b"x"})),
    "a global extended header": tar(("a", {"data": b"x", "type": tarfile.XGLTYPE})),
    "many folders": tar(*((f"d{number}", {"type": tarfile.DIRTYPE}) for number in range(60))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_writes_nothing_outside(tmp_path: Path, name: str) -> None:
    into = tmp_path / "in" / "side"
    into.mkdir(parents=True)
    with reported(TrustError):
        unpack(io.BytesIO(HOSTILE[name]), into, what="digits@1", limits=Limits(files=50, total=2 << 20))
    assert not Path("/tmp/evil").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["in"] and [p.name for p in (tmp_path / "in").iterdir()] == ["side"]


def test_the_archive_that_the_hostile_ones_change_is_none(tmp_path: Path) -> None:
    tree = unpack(io.BytesIO(tar(ONE, ("b", {**SYM, "linkname": "a"}))), tmp_path, what="digits@1")
    assert [member.path for member in tree.members] == ["a", "b"]
    assert edited(plain(ONE), 0, b"a") == tar(ONE)


@pytest.mark.slow
def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    """Deflate can encode the same content in several ways; nothing else of an archive can differ."""
    root = make_tree(tmp_path / "tree")
    good, digest = packed(root), scan_tree(root).digest
    accepted = 0
    for place in range(len(good)):
        for bit in (0, 3, 7):
            flipped = bytearray(good)
            flipped[place] ^= 1 << bit
            into = tmp_path / f"{place}.{bit}"
            into.mkdir()
            try:
                assert unpack(io.BytesIO(bytes(flipped)), into, what="x", durable=False).digest == digest
                assert 10 <= place < len(good) - 8
                accepted += 1
            except TrustError:
                pass
            data = good[:place] + bytes([bit]) + good[place:]
            with pytest.raises(TrustError):
                unpack(io.BytesIO(data), tmp_path / f"{place}.{bit}", what="x", durable=False)
            shutil.rmtree(into)
    assert accepted < len(good) // 10


@given(st.binary(max_size=1200))
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_refused_or_unpack_inside(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    into = tmp_path_factory.mktemp("any")
    with pytest.raises(TrustError):
        unpack(io.BytesIO(gz(data)), into, what="x", limits=Limits(files=5, total=1 << 16))


@given(st.text(max_size=20))
def test_a_path_without_fault_stays_below_its_root(path: str) -> None:
    if not path_fault(path):
        assert os.path.normpath(os.path.join("/base", path)) == f"/base/{path}"


def test_a_link_may_lead_to_a_link_inside() -> None:
    file = Member(path="lib/a.so.1.2", kind="file", content="0")
    links = [
        Member(path=f"lib/{name}", kind="link", content=to) for name, to in [("a.so", "a.so.1"), ("a.so.1", "a.so.1.2")]
    ]
    assert tree_fault(Tree(members=(*links, file))) == ""
