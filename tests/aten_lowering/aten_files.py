"""Reads .aten files, lowers them, and compares what NumPy computes of the programs with PyTorch's answers."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.program import BATCH, Program, Symbol
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.aten_lowering.document import Document, Module
from tfaot_pkg.frontends.aten_lowering.lowering import lower
from tfaot_pkg.frontends.frozen.aten_file import read_answers, read_module
from tfaot_pkg.ground.arrays import Array

ARTIFACTS = Path(__file__).with_name("artifacts")
MOST = 32
"""The largest size of axes for which a file has no limit."""


def symbols_of(document: Document) -> list[Symbol]:
    return [Symbol(name, most or MOST, least) for name, (least, most) in document.symbols.items() if name != BATCH]


def lowered(module: Module, *, layers: bool = True) -> Program:
    program = lower(module, symbols_of(module.document), layers=layers)
    verify(program)
    return program


def difference_from_pytorch(path: Path, *, finite: bool = True) -> float:
    """The largest difference of all outputs, relative to their largest number, or to 1; with layers and without.

    PyTorch's answers are `finite`, or others are where ours are, of the same kind; else it is infinite.
    """
    module, answers = read_module(path), read_answers(path)
    return max(
        _difference(lowered(module, layers=layers), module.document, answers, finite=finite) for layers in (True, False)
    )


def _difference(program: Program, document: Document, answers: dict[str, Array], *, finite: bool) -> float:
    inputs = [answers[f"in/{each.name}"] for each in document.inputs]
    sizes = {
        axis: size
        for each, array in zip(document.inputs, inputs, strict=True)
        for axis, size in zip(each.axes, array.shape, strict=True)
        if isinstance(axis, str)
    }
    with np.errstate(all="warn" if finite else "ignore"):
        ours = interpret.run(program, sizes.pop(BATCH, 1), inputs, sizes)
    theirs = [answers[f"out/{each.name}"] for each in document.outputs]
    assert [(each.dtype, each.shape) for each in ours] == [(each.dtype, each.shape) for each in theirs]
    return max(
        (_relative(*pair, finite=finite) for pair in zip(ours, theirs, strict=True) if pair[1].size), default=0.0
    )


def _relative(ours: Array, theirs: Array, *, finite: bool) -> float:
    is_finite = np.isfinite(theirs)
    assert is_finite.all() or not finite
    if not np.array_equal(ours[~is_finite], theirs[~is_finite], equal_nan=True):
        return np.inf
    ours, theirs = ours[is_finite], theirs[is_finite]
    if not theirs.size:
        return 0.0
    return float(np.abs(ours.astype(float) - theirs.astype(float)).max() / max(1.0, np.abs(theirs).max()))


def with_array(path: Path, target: Path, chosen: Callable[[Any], int], change: Callable[[Array], Array]) -> Path:
    """A copy of the file with the array `chosen` of its document changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["program.json"])
    number = chosen(document)
    kind = document["arrays"][number]
    made = change(np.frombuffer(members[f"arrays/{number}"], kind["dtype"]).reshape(kind["shape"]))
    members[f"arrays/{number}"] = content = made.astype(kind["dtype"]).tobytes()
    kind["sha256"] = hashlib.sha256(content).hexdigest()
    members["program.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def changed(path: Path, target: Path, change: Callable[[Any], None], **options: Any) -> Path:
    """A copy of the file with its document changed in place."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(target, "w", **options) as made:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "program.json":
                document = json.loads(content)
                change(document)
                content = json.dumps(document).encode()
            made.writestr(name, content)
    return target
