"""Small packages in real folders: what the stages before the registry would hand over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.registry.signing import make_signed
from tests.registry.tiny import tiny_files
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.registry.archive import pack
from tfaot_pkg.registry.dependencies.install import InstalledEntry, install_requirements
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import RegistryReader, Requirement
from tfaot_pkg.spec.rules import package_name

SIGNATURE = Signature(
    inputs=(Tensor(name="image", dtype=DType.FLOAT32, shape=(None, 8, 8)),),
    outputs=(Tensor(name="digit", dtype=DType.FLOAT32, shape=(None, 10)),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What `publish` takes."""

    entry: RegistryEntry
    blobs: Mapping[str, Path | bytes]


MakePackage = Callable[..., Package]


@pytest.fixture
def make_package(tmp_path: Path) -> MakePackage:
    """`make_package("digits", "1.0", {"lib/liba.a": b"..."}, headers=10000, description="...")`."""

    def make(
        model: str = "digits",
        version: str = "1.0",
        files: Mapping[str, bytes | str] | None = None,
        *,
        headers: int | None = None,
        header_text: str = "",
        **fields: Any,
    ) -> Package:
        contents = files_of(model, version, files, headers, header_text)
        return package_of(tmp_path, model, version, contents, **fields)

    return make


@pytest.fixture(params=["unsigned", "signed"])
def filled(request: pytest.FixtureRequest, tmp_path: Path, make_package: MakePackage) -> FolderRegistry:
    """Two versions of one package and one of another."""
    made = make_signed(tmp_path) if request.param == "signed" else FolderRegistry.create(tmp_path / "registry")
    for model, version in [("digits", "1.0"), ("digits", "2.0"), ("taus", "1.0")]:
        package = make_package(model, version)
        made.publish(package.entry, package.blobs)
    return made


def files_of(
    model: str,
    version: str,
    files: Mapping[str, bytes | str] | None,
    headers: int | None,
    header_text: str,
) -> dict[str, bytes | str]:
    """`files`, or those of any package; with the shared C++ headers of the version `headers`, where one is given."""
    contents = dict(files) if files is not None else tiny_files(model, version)
    if headers is not None:
        contents["include/tfaot/version.h"] = f"#define TFAOT_HEADERS_VERSION {headers}\n{header_text}".encode()
    return contents


def write_tree(root: Path, contents: Mapping[str, bytes | str]) -> None:
    for path, content in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (root / path).symlink_to(content)
        else:
            (root / path).write_bytes(content)


def package_of(folder: Path, model: str, version: str, contents: Mapping[str, bytes | str], **fields: Any) -> Package:
    """Pack `contents` (bytes are a file, a string is a link's target) and describe them. `fields` replace what the entry would say."""
    number = len(list(folder.glob("tree-*")))
    root = folder / f"tree-{number}"
    root.mkdir()
    write_tree(root, contents)
    archive = folder / f"tree-{number}.tar.gz"
    with archive.open("wb") as file:
        tree = pack(root, file)
    entry = RegistryEntry(
        name=package_name(model),
        model=model,
        version=version,
        key=key_of("test", 1, {"model": model, "version": version, "tree": tree.digest}),
        tree=tree.digest,
        toolchain="2.17.1",
        targets=("x86-64-v2", "x86-64-v3"),
        batch_sizes=(1, 2, 4),
        signature=SIGNATURE,
        license="Apache-2.0",
        description="Handwritten digits",
        blobs={"prefix": BlobRef.of(archive)},
    )
    return Package(entry=replace(entry, **fields), blobs={"prefix": archive})


@pytest.fixture
def registry(tmp_path: Path) -> FolderRegistry:
    return FolderRegistry.create(tmp_path / "a registry")


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, bytes | str]]:
    """`snapshot(folder)`: all that a reader sees there: path to content or link target, without hidden files."""

    def take(root: Path) -> dict[str, bytes | str]:
        paths = [p for p in root.rglob("*") if p.is_symlink() or p.is_file()]
        seen = [p for p in paths if not any(part.startswith(".") for part in p.relative_to(root).parts)]
        return {p.relative_to(root).as_posix(): str(p.readlink()) if p.is_symlink() else p.read_bytes() for p in seen}

    return take


def install(reader: RegistryReader, text: str, prefix: Path) -> InstalledEntry:
    """Install the version that `text` means."""
    (done,) = install_requirements(reader, [Requirement.parse(text)], prefix)
    return done
