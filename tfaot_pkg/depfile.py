"""Depfiles: what a build read, as Make and Ninja want to be told (the output of `gcc -M`)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tfaot_pkg import _version
from tfaot_pkg.spec.tuning import tuning_path
from tfaot_pkg.spec.types import FolderSource, ModelSpec


def depfile(output: Path, read: Iterable[Path]) -> str:
    """A rule that `output` depends on the files and folders `read`."""
    return " \\\n  ".join([f"{_escaped(output)}:", *map(_escaped, read)]) + "\n"


def _escaped(path: Path) -> str:
    text = str(path).replace("$", "$$")
    return "".join(f"\\{letter}" if letter in " #" else letter for letter in text)


def files_read(spec: ModelSpec) -> list[Path]:
    """What on this machine decides about the package of `spec`, which has been built.

    Folders of a SavedModel are in it too: their time tells of files that come and go. So is this tool's version.
    Archives and repositories are not: the spec pins them.
    """
    read = [spec.path, Path(_version.__file__)]
    if spec.tuning is not None:
        read.append(tuning_path(spec.path))
    if spec.validation.inputs is not None:
        read.append(spec.validation.inputs)
    if isinstance(spec.source, FolderSource):
        read += _below(spec.source.path / spec.model.saved_model)
    return read


def _below(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = []
    for folder, folders, files in os.walk(path, followlinks=True):  # without loops: the source was read
        folders.sort()
        found += [Path(folder), *(Path(folder, name) for name in sorted(files))]
    return found
