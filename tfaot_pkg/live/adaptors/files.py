"""Models that are files already: SavedModels, files of any format, and specs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import SpecError
from tfaot_pkg.live.source import LiveSource

_BLOCK = 1 << 20


def source_of(net: Any, example: Any, options: Mapping[str, Any]) -> LiveSource | None:
    path = Path(net)
    if not path.exists():
        raise SpecError(f"{path}: no such file or folder", hint="name the folder of a SavedModel, or a model's file")
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path, *_beside(path)]
    root = path if path.is_dir() else path.parent
    content = [part for file in files for part in (str(file.relative_to(root)).encode(), file.read_bytes())]
    return LiveSource(framework="files", content=[path.name.encode(), *content], write=partial(_copied, path))


def _beside(path: Path) -> list[Path]:
    """The external data of an ONNX file."""
    return [each for suffix in (".data", "_data") if (each := path.with_name(path.name + suffix)).is_file()]


def _copied(path: Path, folder: Path) -> Path:
    target = folder / path.name
    if path.is_dir():
        shutil.copytree(path, target)
        return target
    for each in (path, *_beside(path)):
        shutil.copyfile(each, folder / each.name)
    return target
