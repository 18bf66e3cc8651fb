"""Wheels and conda packages as their clients read them."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tfaot_pkg.registry.folder import FolderRegistry

Publish = Callable[..., None]
HEADERS = {"include/tfaot/version.h": b"#define TFAOT_HEADERS_VERSION 10600\n", "include/tfaot/abi.h": b"// abi\n"}


@pytest.fixture
def registry(tmp_path: Path) -> FolderRegistry:
    return FolderRegistry.create(tmp_path / "a registry")


@pytest.fixture
def publish(registry: FolderRegistry, tmp_path: Path) -> Publish:
    """`publish("1.0", compiler=..., target=..., to=...)`: a small package with headers and a licence."""

    def make(version: str, *, model: str = "digits", to: FolderRegistry | None = None, **libraries: Any) -> None:
        target = libraries.get("target", "x86-64-v2")
        files = {
            **tiny_files(model, version, **{**libraries, "target": target}),
            **HEADERS,
            f"share/tfaot-model-{model.replace('_', '-')}/licenses/LICENSE.txt": b"free\n",
            f"share/tfaot-model-{model.replace('_', '-')}/sbom.cdx.json": b"{}",
        }
        package = package_of(tmp_path, model, version, files, targets=(target,))
        (to or registry).publish(package.entry, package.blobs)

    return make


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def conda_tree(path: Path, part: str) -> Mapping[str, tuple[tarfile.TarInfo, bytes]]:
    """The files of the part `info` or `pkg` of a conda package."""
    (frame,) = (data for name, data in members(path).items() if name.startswith(f"{part}-"))
    with tarfile.open(fileobj=io.BytesIO(b"".join(_blocks(frame)))) as archive:
        found = {info.name: (info, archive.extractfile(info)) for info in archive if info.isreg()}
        links = {info.name: (info, b"") for info in archive if info.issym()}
        return {**links, **{name: (info, file.read()) for name, (info, file) in found.items() if file}}


def _blocks(frame: bytes) -> Iterator[bytes]:
    """The content of a frame of stored and repeated blocks (RFC 8878, 3.1.1)."""
    assert frame[:6] == b"\x28\xb5\x2f\xfd\x00\x38"
    at, is_last = 6, False
    while not is_last:
        head = int.from_bytes(frame[at : at + 3], "little")
        is_last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
        assert kind in (0, 1) and size <= 1 << 17
        stored = size if kind == 0 else 1
        content = frame[at + 3 : at + 3 + stored]
        yield content if kind == 0 else content * size
        at += 3 + stored
    assert at == len(frame)
