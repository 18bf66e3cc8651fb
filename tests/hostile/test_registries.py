"""A registry that lies: what it holds was changed, and digests, sizes and the index were made right.

A reader trusts the index of an unsigned registry, as it trusts a signed one whose publisher was deceived. So nothing but
the checks of the content protects it: each change is told by `registry verify`, and nothing of it is installed.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.package.conftest import SIGNATURE, build_fake_libraries, make_contents, make_spec, write_tree
from tests.wording import reported
from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.package.listing import scan_tree
from tfaot_pkg.package.tree import document_bytes
from tfaot_pkg.registry.archive import pack, unpack
from tfaot_pkg.registry.audit import audit
from tfaot_pkg.registry.dependencies.install import install_requirements
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.files.layout import BENCH, LATENCY, PREFIX
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import FILES, Requirement

pytestmark = pytest.mark.slow

NAME = "tfaot-model-affine"


@dataclass(frozen=True)
class Lie:
    """A release before it is published in a registry that checks nothing of it."""

    entry: RegistryEntry
    blobs: Mapping[str, bytes]

    def with_blob(self, role: str, data: bytes) -> Lie:
        blobs = {**self.blobs, role: data}
        references = {each: BlobRef.of(content) for each, content in blobs.items()}
        return Lie(replace(self.entry, blobs=references), blobs)

    def with_files(self, scratch: Path, change: Callable[[Path], object]) -> Lie:
        """Change the files in the archive; the index has the digest of the tree then."""
        scratch.mkdir()
        unpack(io.BytesIO(self.blobs[PREFIX]), scratch, what="it")
        change(scratch)
        archive = io.BytesIO()
        tree = pack(scratch, archive)
        made = self.with_blob(PREFIX, archive.getvalue())
        return replace(made, entry=replace(made.entry, tree=tree.digest))

    def published(self, root: Path) -> FolderRegistry:
        registry = FolderRegistry.create(root)
        registry.publish(self.entry, self.blobs)
        return registry


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Lie:
    folder = tmp_path_factory.mktemp("honest")
    build_fake_libraries(folder, "affine", slope=2)
    made = make_contents(make_spec(), libraries=folder)
    root = write_tree(replace(made, sbom={"bomFormat": "CycloneDX"}, graph={"nodes": []}), folder / "tree").root
    archive = io.BytesIO()
    tree = pack(root, archive)
    share = root / "share" / NAME
    blobs = {
        PREFIX: archive.getvalue(),
        **{role: (share / name).read_bytes() for role, name in FILES.items() if (share / name).exists()},
        LATENCY: json.dumps({"format": 1, "measurements": []}).encode(),
        BENCH: json.dumps({"format": 1, "engines": []}).encode(),
    }
    entry = RegistryEntry(
        name=NAME, model="affine", version="1.2.0", key=key_of("test", 1, {}), tree=tree.digest,
        toolchain="tensorflow 2.17.1", targets=("x86-64-v2", "x86-64-v3"), batch_sizes=(2, 4), signature=SIGNATURE,
        license="MIT", description=made.spec.model.description, rows_independent=True, blobs={role: BlobRef.of(data) for role, data in blobs.items()},
    )  # fmt: skip
    return Lie(entry, blobs)


def install(registry: FolderRegistry, prefix: Path, *, custom: bool = False) -> None:
    install_requirements(registry, [Requirement.parse("affine")], prefix, custom=custom)


def test_the_honest_one_is_installed_and_has_no_faults(honest: Lie, tmp_path: Path) -> None:
    registry = honest.published(tmp_path / "registry")
    found = audit(registry, Silent())
    assert (found.faults, found.notes, found.blobs) == ([], [], len(honest.blobs))
    install(registry, tmp_path / "prefix")
    assert (tmp_path / "prefix" / "include" / NAME / "model.h").is_file()


ARCHIVES: dict[str, Callable[[bytes], bytes]] = {
    "random bytes after it": lambda data: data + os.urandom(5 << 20),
    "a byte after it": lambda data: data + b"\0",
    "another stream after it": lambda data: data + gzip.compress(b""),
    "a comment in its header": lambda data: data[:3] + b"\x10" + data[4:10] + b"hidden\0" + data[10:],
    "an extra field in its header": lambda data: data[:3] + b"\x04" + data[4:10] + b"\4\0evil" + data[10:],
    "a time in its header": lambda data: data[:4] + b"\1\2\3\4" + data[8:],
    "a file after its end": lambda data: again(gzip.decompress(data) + bytes(512) + os.urandom(512)),
    "another name's padding": lambda data: again(edited(gzip.decompress(data), 90, b"evil")),
    "another owner": lambda data: again(edited(gzip.decompress(data), 265, b"root")),
    "empty blocks": lambda data: data[:10] + b"\0\0\0\xff\xff" * 200_000 + data[10:],
    "its first bytes": lambda data: data[:5000],
    "another compressor": lambda data: __import__("bz2").compress(gzip.decompress(data)),
}


def again(plain: bytes) -> bytes:
    data = gzip.compress(plain, 6, mtime=0)
    return data[:9] + b"\xff" + data[10:]


def edited(plain: bytes, place: int, value: bytes) -> bytes:
    """The tar with other bytes in its first header, and the checksum of that."""
    header = bytearray(plain[:512])
    header[place : place + len(value)] = value
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + plain[512:]


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_of_other_bytes_is_not_installed(honest: Lie, name: str, tmp_path: Path) -> None:
    registry = honest.with_blob(PREFIX, ARCHIVES[name](honest.blobs[PREFIX])).published(tmp_path / "registry")
    with pytest.raises(TrustError):
        install(registry, tmp_path / "prefix")
    assert not list((tmp_path / "prefix").glob("[a-z]*"))
    assert audit(registry, Silent()).faults


def append(path: str, text: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        with (root / path.format(NAME)).open("a") as file:
            file.write(text)

    return change


FILES_OF_USERS: dict[str, Callable[[Path], object]] = {
    "CMake's config": append("lib/cmake/{0}/{0}Config.cmake", "execute_process(COMMAND touch /tmp/x)\n"),
    "CMake's targets": append("lib/cmake/{0}/{0}Targets.cmake", "add_custom_target(x ALL COMMAND x)\n"),
    "pkg-config": append("lib/pkgconfig/{0}.pc", "Libs: -L/tmp -levil\n"),
    "SCRAM": append("etc/scram.d/{0}.xml", "<flags CXXFLAGS='-x'/>\n"),
    "header": append("include/{0}/model.h", "#define int long\n"),
    "header of C": append("include/{0}/entry.h", "#define int long\n"),
    "a header more": append("include/{0}/more.h", "#define int long\n"),
}


@pytest.mark.parametrize("name", FILES_OF_USERS)
def test_files_that_builds_of_users_run_are_installed_only_if_they_are_asked_for(
    honest: Lie, name: str, tmp_path: Path
) -> None:
    registry = honest.with_files(tmp_path / "tree", FILES_OF_USERS[name]).published(tmp_path / "registry")
    with reported(TrustError):
        install(registry, tmp_path / "prefix")
    assert not list((tmp_path / "prefix").glob("[a-z]*"))
    (fault,) = audit(registry, Silent()).faults
    assert "files for compilers and build systems" in fault
    install(registry, tmp_path / "prefix", custom=True)
    assert scan_tree(tmp_path / "prefix" / "include" / NAME)


def document(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def changed(root: Path) -> None:
        file = root / "share" / NAME / name
        said = json.loads(file.read_text())
        change(said)
        file.write_bytes(document_bytes(said))

    return changed


def spaced(root: Path) -> None:
    file = root / "share" / NAME / "validation.json"
    file.write_text(file.read_text() + " " * 5000)


DOCUMENTS: dict[str, Callable[[Path], object]] = {
    "another name": document("info.json", lambda said: said.update(name="steep")),
    "another class": document("info.json", lambda said: said["cpp"].update({"class": "std::locale"})),
    "no class": document("info.json", lambda said: said.update(cpp="affine")),
    "other targets": document("info.json", lambda said: said.update(targets=["x86-64-v3"])),
    "another licence": document("info.json", lambda said: said.update(license="CC0-1.0")),
    "another description": document("info.json", lambda said: said.update(description="\x1b[2J")),
    "another author": document("info.json", lambda said: said.update(author="somebody")),
    "other inputs": document("info.json", lambda said: said["inputs"].pop()),
    "no bill of materials": document("sbom.cdx.json", lambda said: said.clear()),
    "space between values": spaced,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_of_a_package_that_do_not_agree_are_told(honest: Lie, name: str, tmp_path: Path) -> None:
    lie = honest.with_files(tmp_path / "tree", DOCUMENTS[name])
    for role, file in FILES.items():
        if role in lie.blobs:
            lie = lie.with_blob(role, (tmp_path / "tree" / "share" / NAME / file).read_bytes())
    registry = lie.published(tmp_path / "registry")
    with pytest.raises(TrustError, match="documents"):
        install(registry, tmp_path / "prefix")
    assert not list((tmp_path / "prefix").glob("[a-z]*"))
    (fault,) = audit(registry, Silent()).faults
    assert "the documents of" in fault
    with pytest.raises(TrustError, match="documents"):
        install(registry, tmp_path / "prefix", custom=True)


LINES: dict[str, dict[str, Any]] = {
    "targets": {"targets": ("x86-64-v2", "../../x")},
    "batch sizes": {"batch_sizes": (2, 10**40)},
    "licence": {"license": "<script>"},
    "description": {"description": "another model"},
    "toolchain": {"toolchain": "tensorflow 3.0.0"},
    "model": {"model": "steep"},
    "rows": {"rows_independent": False},
    "any batch size": {"any_batch_size": True},
}


@pytest.mark.parametrize("name", LINES)
def test_an_index_line_that_says_other_than_the_package_is_told(honest: Lie, name: str, tmp_path: Path) -> None:
    registry = replace(honest, entry=replace(honest.entry, **LINES[name])).published(tmp_path / "registry")
    with pytest.raises(TrustError, match="documents"):
        install(registry, tmp_path / "prefix")
    (fault,) = audit(registry, Silent()).faults
    assert "the index line" in fault


@pytest.mark.parametrize("role", ["sbom", "graph", "validation", "info", LATENCY, BENCH])
@pytest.mark.parametrize("change", [lambda data: data + b" ", lambda data: data[:-1] + b",", lambda _: b"{"])
def test_a_document_beside_the_package_is_the_one_in_it(
    honest: Lie, role: str, change: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    registry = honest.with_blob(role, change(honest.blobs[role])).published(tmp_path / "registry")
    assert len(audit(registry, Silent()).faults) == 1


def test_a_blob_of_another_role_is_told(honest: Lie, tmp_path: Path) -> None:
    registry = honest.with_blob("more", b"MZ").published(tmp_path / "registry")
    (note,) = audit(registry, Silent()).notes
    assert "'more'" in note


@pytest.mark.parametrize("seed", range(4))
def test_a_changed_byte_of_an_archive_is_refused_or_gives_the_same_files(
    honest: Lie, seed: int, tmp_path: Path
) -> None:
    """Deflate has several encodings of one content; the publisher's own is signed (nightly/test_recheck.py)."""
    draw, good = random.Random(seed), honest.blobs[PREFIX]
    for number in range(60):
        place, folder = draw.randrange(len(good)), tmp_path / str(number)
        folder.mkdir()
        changed = good[:place] + bytes([good[place] ^ (1 << draw.randrange(8))]) + good[place + 1 :]
        try:
            tree = unpack(io.BytesIO(changed), folder, what="it", durable=False)
        except TrustError:
            continue
        assert tree.digest == honest.entry.tree and 10 <= place < len(good) - 8
