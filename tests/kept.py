"""What tests make once and share: all workers of a run, and later runs, find it in the shared home by its key.

A key is the digest of everything that the content depends on: of the script that makes it, of the tool's own files
where the tool makes it, of the toolchain. So nothing old is ever taken for new, and nothing is made twice.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from tfaot_pkg.ground.keys import files_below, key_of, sha256_file, sha256_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.storage import locked

REPOSITORY = Path(__file__).resolve().parent.parent

_COMPLETE = ".complete"
_UNUSED = 7 * 24 * 3600  # seconds after which what no run has asked for is removed
_MADE_HERE = frozenset({"__pycache__", "build"})  # by Python, and by Conan beside a recipe
_OF_THE_TOOL = ("tfaot_pkg", "templates", "recipes", "conanfile.py", "LICENSE")


def kept(home: Path, name: str, parts: object, make: Callable[[Path], object]) -> Path:
    """The folder that `make(folder)` fills, in `home`: made now if no run has made it yet. Read only.

    `parts` (JSON values) hold all that the content depends on. The folder has its final path while it is made.
    """
    root = home / "kept" / name
    folder = root / key_of(name, 1, {"parts": parts})[:16]
    with locked(root / f"{folder.name}.lock", what=f"the tests' {name}", timeout=1800):
        if not (folder / _COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            _remove_unused(root)
        (folder / _COMPLETE).touch()
    return folder


def saved_models(home: Path, maker: Path, python: Path, names: Sequence[str] = ()) -> Path:
    """The folder of SavedModels that the script `maker` writes, run by a toolchain's `python`. Read only.

    `names`, for a script that takes them: those models, and not all.
    """
    parts = {"maker": sha256_file(maker), "python": str(python), "names": [*names]}
    return kept(home, maker.stem, parts, lambda folder: run([python, "-I", maker, folder, *names], timeout=900))


@cache
def digest_of_tool() -> str:
    """Of every file that a command of the tool may read, and of the compilers that it may start."""
    files = [file for name in _OF_THE_TOOL for file in _files(REPOSITORY / name)]
    compilers = [
        run([path, "--version"]).stdout
        for path in map(shutil.which, ("c++", "clang++", "ld", "as"))
        if path is not None
    ]
    return key_of("tool", 1, {"files": sha256_tree(REPOSITORY, files), "compilers": compilers})


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file for file in files_below(path) if not _MADE_HERE.intersection(file.relative_to(path).parts)]


def _remove_unused(root: Path) -> None:
    for mark in root.glob(f"*/{_COMPLETE}"):
        if time.time() - os.stat(mark).st_mtime > _UNUSED:
            shutil.rmtree(mark.parent, ignore_errors=True)
