"""Builds that Make or Ninja ask for: telling what was read (as `gcc -M` does), and leaving nothing stale behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfaot_pkg import _version
from tfaot_pkg.errors import TfaotError
from tfaot_pkg.prefix.install import uninstall
from tfaot_pkg.spec.tuning import tuning_path
from tfaot_pkg.spec.types import FolderSource, ModelSpec


def depfile_text(output: Path, spec: ModelSpec) -> str:
    """The rule that `output` depends on what the build of `spec` read."""
    return " \\\n  ".join([f"{_escaped(output)}:", *map(_escaped, files_read(spec))]) + "\n"


@contextmanager
def no_leftovers(prefix: Path, model: str | None) -> Iterator[None]:
    """Where the block fails, `prefix` keeps no package of `model`: that of an earlier build would be linked."""
    try:
        yield
    except BaseException:
        if model is not None:
            with suppress(TfaotError):  # it was not there, or cannot be removed: what failed first is to be told
                uninstall(model, prefix)
        raise


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
