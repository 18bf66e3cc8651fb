"""Small package trees in real folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.registry.conftest import files_of, snapshot, write_tree
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.package.tree import PackageTree
from tfaot_pkg.spec.rules import package_name

__all__ = ["snapshot"]

Deliver = Callable[..., PackageTree]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "my prefix with a space"


@pytest.fixture
def deliver(tmp_path: Path) -> Deliver:
    """`deliver("digits", "1.0", {"lib/liba.a": b"..."}, headers=10000)`: a package that was built."""

    def make(
        model: str = "digits",
        version: str = "1.0",
        files: Mapping[str, bytes | str] | None = None,
        *,
        headers: int | None = None,
        header_text: str = "",
    ) -> PackageTree:
        contents = files_of(model, version, files, headers, header_text)
        root = tmp_path / f"tree-{len(list(tmp_path.glob('tree-*')))}"
        write_tree(root, contents)
        key = key_of("test", 1, {"model": model, "version": version})
        return PackageTree(root=root, key=key, package_name=package_name(model), version=version)

    return make
