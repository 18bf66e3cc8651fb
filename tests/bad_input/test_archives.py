"""Sources and packages whose content is not what was promised, or leads out of its folder."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bad_input.conftest import CommandLine, tree


def tar_with(name: str, **attributes: object) -> bytes:
    """A tar archive with a harmless file and one entry as told."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for info in (tarfile.TarInfo("dense/readme"), tarfile.TarInfo(name)):
            if info.name == name:
                for key, value in attributes.items():
                    setattr(info, key, value)
            content = b"" if info.type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else b"owned"
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zip_with(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("dense/readme", "harmless")
        archive.writestr(name, "owned")
    return buffer.getvalue()


UNSAFE = {
    "../": tar_with("dense/../../../outside"),
    "absolute": tar_with("/tmp/tfaot-outside"),
    "link out": tar_with("dense/link", type=tarfile.SYMTYPE, linkname="../../../.."),
    "absolute link": tar_with("dense/link", type=tarfile.SYMTYPE, linkname="/etc"),
    "hard link out": tar_with("dense/link", type=tarfile.LNKTYPE, linkname="../../../../etc/passwd"),
    "zip with ../": zip_with("../../outside"),
    "not an archive": b"<html>404</html>",
    "empty": b"",
}


def write(folder: Path, content: bytes, *, digest: str = "") -> Path:
    archive = folder / "model.archive"
    archive.write_bytes(content)
    document = {
        "model": {"name": "dense", "version": "1.0.0", "saved_model": "dense"},
        "source": {"url": archive.as_uri(), "sha256": digest or hashlib.sha256(content).hexdigest()},
        "compilation": {"batch_sizes": [1], "targets": ["x86-64-v3"]},
    }
    spec = folder / "spec.yaml"
    spec.write_text(yaml.safe_dump(document))
    return spec


@pytest.mark.slow
@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_archive_is_refused_and_nothing_of_it_is_unpacked(
    bare: CommandLine, tmp_path: Path, name: str, untouched: Callable[..., Any]
) -> None:
    spec = write(tmp_path, UNSAFE[name])
    error = bare.fails("publish", spec, "--registry", tmp_path / "registry", code=11)
    assert error["message"]
    assert b"owned" not in tree(tmp_path).values()
    assert not Path("/tmp/tfaot-outside").exists()
    assert not (tmp_path / "registry").exists()


def test_an_archive_with_another_checksum_is_not_opened(bare: CommandLine, tmp_path: Path) -> None:
    spec = write(tmp_path, UNSAFE["empty"] + b"other", digest="0" * 64)
    bare.fails("build", spec, "-o", tmp_path / "prefix", code=11, says=["0" * 64, "model.archive"])
    assert not (tmp_path / "prefix").exists()
    assert [path for path in (bare.home / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"] == []


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.parametrize("harm", ["altered", "truncated", "replaced", "missing"])
def test_a_tampered_package_is_not_installed(
    *, bare: CommandLine, dense_registry: Path, tmp_path: Path, harm: str, untouched: Callable[..., Any]
) -> None:
    registry = Path(shutil.copytree(dense_registry, tmp_path / "registry"))
    blobs = [path for path in (registry / "blobs").rglob("*") if path.is_file()]
    blob = max(blobs, key=lambda path: path.stat().st_size)  # the package; the others are documents about it
    content = blob.read_bytes()
    blob.chmod(0o644)
    match harm:
        case "altered":
            blob.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
        case "truncated":
            blob.write_bytes(content[: len(content) // 2])
        case "replaced":
            blob.write_bytes(tar_with("../outside"))
        case "missing":
            blob.unlink()
    prefix = tmp_path / "prefix"
    with untouched(registry):
        error = bare.fails(
            "install", "dense", "--registry", registry, "--prefix", prefix, code=16 if harm == "missing" else 18
        )
    assert blob.name in error["message"]
    assert [path for path in tree(prefix) if "dense" in path] == []
