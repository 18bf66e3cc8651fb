from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.source.parts import Member, Packed, member, tar
from tests.wording import reported
from tfaot_pkg.errors import SourceError
from tfaot_pkg.spec.source.unpack import Limits, unpack


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "deep" / "into"
    folder.mkdir(parents=True)
    return folder


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def everything_in(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def zipped(path: Path, *members: tuple[zipfile.ZipInfo | str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Packed:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return Packed(path)


def special(name: str, kind: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o777) << 16
    return info


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_archives_are_unpacked_whatever_their_compression(tmp_path: Path, into: Path, mode: str) -> None:
    members = (
        member("./", type=tarfile.DIRTYPE),
        member("./m", type=tarfile.DIRTYPE),
        member("./m/a", b"1"),
        member("b/c", b""),
    )
    archive = tar(tmp_path / "without-suffix", *members, mode=mode)
    assert unpack(archive.path, into, label="x") == ()
    assert contents(into) == {"m/a": b"1", "b/c": b""}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_and_letters_of_all_languages_are_kept(tmp_path: Path, into: Path, form: int) -> None:
    name = "modèle/" + "x" * 90 + "/" + "y" * 90
    with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
        archive.addfile(*_readable(member(name, b"1")))
    unpack(tmp_path / "a.tar", into, label="x")
    assert contents(into) == {name: b"1"}


def _readable(made: Member) -> tuple[tarfile.TarInfo, io.BytesIO]:
    return made[0], io.BytesIO(made[1])


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_archives_are_unpacked(tmp_path: Path, into: Path, method: int) -> None:
    unpack(zipped(tmp_path / "a", ("m/", b""), ("m/a", b"1" * 1000), method=method).path, into, label="x")
    assert contents(into) == {"m/a": b"1" * 1000}


def test_rights_and_owners_of_the_archive_are_ignored(tmp_path: Path, into: Path) -> None:
    archive = tar(
        tmp_path / "a",
        member("m", type=tarfile.DIRTYPE, mode=0o7777),
        member("m/a", b"1", mode=0o6777, uid=1234, mtime=10**9),
        member("m/b", b"1", mode=0),
    )
    unpack(archive.path, into, label="x")
    assert stat.S_IMODE((into / "m").stat().st_mode) == 0o755
    assert {stat.S_IMODE((into / "m" / name).stat().st_mode) for name in "ab"} == {0o444}
    assert (into / "m" / "a").stat().st_uid == os.getuid()


HOSTILE_NAMES = [
    "../out",
    "m/../../out",
    "/tmp/tfaot-out",
    "..",
    "m/..",
    "m/a\\b",
    "m/a\nb",
    "x" * 300,
    "/".join("d" * 60),
    "",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_tar_member_with_a_harmful_name_is_refused(tmp_path: Path, into: Path, name: str, kind: str) -> None:
    info = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}[kind]
    archive = tar(tmp_path / "a", member("first", b"1"), member(name, type=info, linkname="first"))
    before = everything_in(tmp_path)
    with reported(SourceError):
        unpack(archive.path, into, label="x")
    assert everything_in(tmp_path) - before == {"deep/into/first"}


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if name])
def test_a_zip_member_with_a_harmful_name_is_refused(tmp_path: Path, into: Path, name: str) -> None:
    archive = zipped(tmp_path / "a", ("first", b"1"), (name, b"2"))
    with reported(SourceError):
        unpack(archive.path, into, label="x")
    assert everything_in(tmp_path) == {"a", "deep", "deep/into", "deep/into/first"}


def test_a_tar_name_that_is_not_utf8_is_refused(tmp_path: Path, into: Path) -> None:
    with tarfile.open(tmp_path / "a", "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as archive:
        archive.addfile(*_readable(member("é", b"1")))
    with reported(SourceError):
        unpack(tmp_path / "a", into, label="x")
    assert contents(into) == {}


@pytest.mark.parametrize("target", ["/etc/passwd", "../../out", "..", "m/../../x"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_that_leads_out_of_the_archive_is_refused(tmp_path: Path, into: Path, target: str, kind: bytes) -> None:
    archive = tar(tmp_path / "a", member("file", b"1"), member("link", type=kind, linkname=target))
    with reported(SourceError):
        unpack(archive.path, into, label="x")


def test_a_zip_link_that_leads_out_of_the_archive_is_refused(tmp_path: Path, into: Path) -> None:
    archive = zipped(tmp_path / "a", ("file", b"1"), (special("link", stat.S_IFLNK), b"../../../etc/passwd"))
    with reported(SourceError):
        unpack(archive.path, into, label="x")


def test_links_to_files_of_the_archive_become_copies(tmp_path: Path, into: Path) -> None:
    archive = tar(
        tmp_path / "a",
        member("m/early", type=tarfile.SYMTYPE, linkname="twice"),
        member("m/twice", type=tarfile.SYMTYPE, linkname="../data/file"),
        member("data/file", b"1"),
        member("m/hard", type=tarfile.LNKTYPE, linkname="data/file"),
    )
    assert unpack(archive.path, into, label="x") == ()
    assert contents(into) == {"data/file": b"1", "m/early": b"1", "m/twice": b"1", "m/hard": b"1"}
    assert not any(path.is_symlink() or path.stat().st_nlink > 1 for path in into.rglob("*") if path.is_file())


def test_links_to_folders_or_nothing_are_left_out_and_named(tmp_path: Path, into: Path) -> None:
    archive = tar(
        tmp_path / "a",
        member("data/file", b"1"),
        member("folder", type=tarfile.SYMTYPE, linkname="data"),
        member("dangling", type=tarfile.SYMTYPE, linkname="nowhere"),
        member("loop", type=tarfile.SYMTYPE, linkname="loop"),
    )
    assert unpack(archive.path, into, label="x") == ("dangling", "folder", "loop")
    assert everything_in(into) == {"data", "data/file"}


def test_nothing_is_written_through_a_link(tmp_path: Path, into: Path) -> None:
    archive = tar(tmp_path / "a", member("m", type=tarfile.SYMTYPE, linkname="."), member("m/file", b"1"))
    with reported(SourceError):
        unpack(archive.path, into, label="x")


@pytest.mark.parametrize(
    "members",
    [
        (("a", b"1"), ("a", b"2")),
        (("a", b"1"), ("./a", b"2")),
        (("a/b", b"1"), ("a", b"2")),
        (("a", b"1"), ("a/b", b"2")),
        (("a", b"1"), ("a/", b"")),
        ((".", b"1"),),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_collide_are_refused(tmp_path: Path, into: Path, members: tuple[tuple[str, bytes], ...]) -> None:
    with reported(SourceError):
        unpack(zipped(tmp_path / "a.zip", *members).path, into, label="x")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"])
def test_devices_pipes_and_unknown_kinds_are_refused(tmp_path: Path, into: Path, kind: bytes) -> None:
    archive = tar(tmp_path / "a", member("file", b"1"), member("special", type=kind))
    with reported(SourceError):
        unpack(archive.path, into, label="x")


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_devices_and_pipes_in_a_zip_are_refused(tmp_path: Path, into: Path, kind: int) -> None:
    with reported(SourceError):
        unpack(zipped(tmp_path / "a", (special("x", kind), b"")).path, into, label="x")


def test_a_file_with_holes_is_refused(tmp_path: Path, into: Path) -> None:
    made = member("holes", b"1")
    made[0].pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,1",
        "GNU.sparse.size": str(1 << 40),
    }
    with reported(SourceError):
        unpack(tar(tmp_path / "a", made).path, into, label="x")


def test_too_many_members_are_refused(tmp_path: Path, into: Path) -> None:
    archive = tar(tmp_path / "a", *(member(str(number)) for number in range(11)))
    with reported(SourceError):
        unpack(archive.path, into, label="x", limits=Limits(members=10))


@pytest.mark.parametrize("pack", ["tar", "zip"])
def test_a_decompression_bomb_is_stopped_while_it_unpacks(tmp_path: Path, into: Path, pack: str) -> None:
    zeros = bytes(8 << 20)
    make = tar(tmp_path / "a", member("z", zeros)) if pack == "tar" else zipped(tmp_path / "a", ("z", zeros))
    with reported(SourceError):
        unpack(make.path, into, label="x", limits=Limits(ratio_floor=1 << 20))
    assert (into / "z").stat().st_size < 3 << 20


@pytest.mark.parametrize("pack", ["tar", "zip"])
def test_an_archive_that_unpacks_to_too_much_is_stopped(tmp_path: Path, into: Path, pack: str) -> None:
    members = [("a", os.urandom(600)), ("b", os.urandom(600))]
    archive = (
        tar(tmp_path / "a", *(member(*each) for each in members)) if pack == "tar" else zipped(tmp_path / "a", *members)
    )
    with reported(SourceError):
        unpack(archive.path, into, label="x", limits=Limits(bytes=1000))


def test_copies_made_for_links_count(tmp_path: Path, into: Path) -> None:
    links = [member(f"l{number}", type=tarfile.SYMTYPE, linkname="a") for number in range(5)]
    with reported(SourceError):
        unpack(
            tar(tmp_path / "a", member("a", os.urandom(300)), *links).path, into, label="x", limits=Limits(bytes=1000)
        )


def test_a_giant_tar_header_is_refused_before_it_is_read(tmp_path: Path, into: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    header.size = 1 << 36
    with gzip.open(tmp_path / "a", "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT) if header.size < 8**11 else header.tobuf(tarfile.GNU_FORMAT))
        file.write(bytes(4 << 20))
    with reported(SourceError):
        unpack(tmp_path / "a", into, label="x")


def test_a_giant_table_of_contents_of_a_zip_is_refused(tmp_path: Path, into: Path) -> None:
    archive = zipped(tmp_path / "a", *((f"{number:0100}", b"") for number in range(20)))
    with reported(SourceError):
        unpack(archive.path, into, label="x", limits=Limits(zip_directory_bytes=1000))


def test_a_zip_that_lies_about_a_size_is_refused(tmp_path: Path, into: Path) -> None:
    archive = zipped(tmp_path / "a", ("a", b"1" * 1000))
    data = archive.path.read_bytes()
    archive.path.write_bytes(data.replace(struct.pack("<L", 1000), struct.pack("<L", 10)))
    with reported(SourceError):
        unpack(archive.path, into, label="x")


def test_an_encrypted_zip_is_refused(tmp_path: Path, into: Path) -> None:
    archive = zipped(tmp_path / "a", ("a", b"1"))
    data = bytearray(archive.path.read_bytes())
    data[data.index(b"PK\x03\x04") + 6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.path.write_bytes(data)
    with reported(SourceError):
        unpack(archive.path, into, label="x")


def test_a_zip_packed_in_a_rare_way_is_refused(tmp_path: Path, into: Path) -> None:
    with reported(SourceError):
        unpack(zipped(tmp_path / "a", ("a", b"1" * 1000), method=zipfile.ZIP_LZMA).path, into, label="x")


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_cut_archive_is_damaged(tmp_path: Path, into: Path, mode: str, part: float) -> None:
    archive = tar(tmp_path / "a", member("a", os.urandom(40_000)), mode=mode)
    data = archive.path.read_bytes()
    archive.path.write_bytes(data[: int(40_000 * part)])
    with reported(SourceError):
        unpack(archive.path, into, label="x")


@pytest.mark.parametrize("cut", [10, 600])
def test_a_cut_zip_is_damaged(tmp_path: Path, into: Path, cut: int) -> None:
    archive = zipped(tmp_path / "a", ("a", os.urandom(1000)))
    archive.path.write_bytes(archive.path.read_bytes()[:-cut])
    with reported(SourceError):
        unpack(archive.path, into, label="x")


@pytest.mark.parametrize(("kept", "rest"), [(1024, b""), (1536, b""), (2048, b""), (1024, b"x" * 512), (1024, b"x")])
def test_a_tar_cut_between_two_members_is_damaged(tmp_path: Path, into: Path, kept: int, rest: bytes) -> None:
    whole = tar(tmp_path / "whole", member("a", b"1" * 512), member("b", b"2" * 512), mode="w").path.read_bytes()
    (tmp_path / "a").write_bytes(whole[:kept] + rest)
    with reported(SourceError):
        unpack(tmp_path / "a", into, label="x")


# Its head says which program compressed it, which differs between versions of Python: the test's name must not.
@pytest.mark.parametrize(
    "data",
    [
        b"", b"hello", b"\x1f\x8bxx", b"BZhx", b"\xfd7zXZ\x00x", b"PK\x03\x04x",
        pytest.param(gzip.compress(b"text", mtime=0), id="compressed"),
    ],
)  # fmt: skip
def test_what_is_no_archive_is_refused(tmp_path: Path, into: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with reported(SourceError):
        unpack(tmp_path / "a", into, label="x")


def test_a_web_page_in_place_of_an_archive_is_recognised(tmp_path: Path, into: Path) -> None:
    (tmp_path / "a").write_bytes(b"<!DOCTYPE html><html>log in")
    with reported(SourceError):
        unpack(tmp_path / "a", into, label="x")


@pytest.mark.parametrize("pack", ["tar", "zip"])
def test_an_archive_without_files_is_refused(tmp_path: Path, into: Path, pack: str) -> None:
    archive = (
        tar(tmp_path / "a", member("m", type=tarfile.DIRTYPE)) if pack == "tar" else zipped(tmp_path / "a", ("m/", b""))
    )
    with reported(SourceError):
        unpack(archive.path, into, label="x")


def test_the_refusal_of_the_disk_is_not_taken_for_a_damaged_archive(tmp_path: Path, into: Path) -> None:
    (into / "a").touch()  # in the way: the file cannot be made
    with pytest.raises(OSError) as caught:
        unpack(tar(tmp_path / "archive", member("a", b"1")).path, into, label="x")
    assert caught.value.errno == errno.EEXIST
