"""The paths and digests of the tool's files that are not Python.

In a checkout they are in its top folder, in a wheel inside the package.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.keys import files_below, sha256_file, sha256_tree

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parent
_BUNDLED = _PACKAGE / "_bundled"

_PAGES = ("tutorial.md", "security.md", "onnx-coverage.md")
"""Those of the documentation's top folder that users read."""

_Stamps = dict[Path, tuple[int, int, int]]
_stamps: dict[Path, _Stamps] = {}
"""Times, sizes and inodes of all files that were digested, which show changes."""


@cache
def _resource(relative: str) -> Path:
    bundled = _BUNDLED / relative
    return bundled if bundled.exists() else _CHECKOUT / relative


@cache
def digest(path: Path) -> str:
    """SHA-256 of one of these files, or of all names and contents below one of these folders.

    It is computed once: `require_unchanged` checks whether it is still valid.
    """
    # Before the digest, so that a change in between shows as a difference.
    _stamps[path] = _stamps_of(path)
    return _digest(path)


def require_unchanged() -> None:
    """Raise StorageError if a file has changed since it was digested.

    Results of that time may come from either content, so they must not be stored under a key (decision 031).
    """
    # A copy, made in one step: other threads digest files meanwhile.
    for path, before in _stamps.copy().items():
        now = _stamps_of(path)
        # Stamps are cheap; only if they differ is the content read again, since a checkout may touch equal files.
        if now != before and (not now or _digest(path) != digest(path)):
            raise StorageError(
                f"a part of tfaot-pkg itself was changed while it ran: {path}",
                hint="repeat the command; no result was kept",
            )


def are_touched() -> bool:
    """Whether a file that was digested has other times, or another size or inode."""
    return any(_stamps_of(path) != before for path, before in _stamps.copy().items())


def _digest(path: Path) -> str:
    return sha256_tree(path, _files(path)) if path.is_dir() else sha256_file(path)


def _files(folder: Path) -> list[Path]:
    # Python writes .pyc files below a folder when its modules are first imported.
    return [path for path in files_below(folder) if path.suffix != ".pyc"]


def _stamps_of(path: Path) -> _Stamps:
    """The stamps of the files at `path`; empty if a file no longer exists."""
    files = _files(path) if path.is_dir() else [path]
    try:
        found = {file: os.stat(file) for file in files}
    except OSError:
        return {}
    return {file: (status.st_mtime_ns, status.st_size, status.st_ino) for file, status in found.items()}


def templates() -> Path:
    """Templates of generated files."""
    return _resource("templates")


def headers() -> Path:
    """The include folder with `tfaot/*.h`."""
    return _resource("recipes/tfaot/all/include")


def kernels() -> Path:
    """The folder of the kernel library: `include/` and `src/`."""
    return _resource("recipes/tfaot-kernels/all")


def base_recipe() -> Path:
    """The folder of the `conanfile.py` that all models' recipes extend."""
    return _BUNDLED if _BUNDLED.exists() else _CHECKOUT


def samples() -> dict[str, Path]:
    """The folders of sample models and of example projects, by name."""
    models = _resource("recipes").glob("tfaot-model-*/all")
    examples = (folder for folder in _resource("examples").iterdir() if folder.is_dir())
    return {
        **{folder.parent.name.removeprefix("tfaot-model-"): folder for folder in models},
        **{folder.name: folder for folder in examples},
    }


def pages() -> dict[str, Path]:
    """The pages of the documentation for users, by their paths without `.md`, such as `how-to/validation`."""
    root = _resource("docs")
    found = [*root.glob("how-to/*.md"), *root.glob("reference/*.md"), *(root / name for name in _PAGES)]
    return {file.relative_to(root).as_posix().removesuffix(".md"): file for file in sorted(found)}


def licence() -> Path:
    """The project's licence, which also covers our code in packages."""
    return _resource("LICENSE")


def cmake_package() -> Path:
    """The folder with the CMake package `tfaot-pkg`."""
    return _PACKAGE / "cmake"
