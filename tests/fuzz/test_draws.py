"""Random models of each kind: the program gives the framework's answers, and a row has the same bits in every batch.

A draw has a fixed seed and 300 models, of which 25 are one graph: TensorFlow starts once, and compilers seldom.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.conftest import FLAGS, HEADERS, WORKER_PROGRAM, Code, compiled_together, constants_of, kernel_object
from tests.kept import REPOSITORY
from tests.onnx_lowering.graphs import frontend, model_in, valid
from tfaot_pkg.analysis.program import hlo
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.reroll import rolled
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.worker_program.messages.listing import HloListing
from tfaot_pkg.worker_program.messages.wire import decoded

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1800)]

_MODELS = 300
_KINDS = ("functions", "keras", "onnx")
_BATCHES = (1, 2, 5)
"""Beside all 17 rows."""
_BLOCK = 4
_COMPILED = 3
"""One graph of so many is compiled, which takes ten times as long as to interpret it; others in each draw."""
_QUICKLY = ["-O0", *(flag for flag in FLAGS[1:] if not flag.startswith("-W"))]
"""Optimizing takes as long as all the rest. Without it GCC warns of what cannot happen; other tests compile with both."""
_RELATIVE, _ABSOLUTE, _SPREAD = 5e-5, 1e-6, 16.0
"""A float may differ from the framework's by this share of it, by this, and by so many times what the framework's own
rounding, and a rounding of the inputs, change in its row."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the framework gives for a model: for all rows, and for inputs that differ by a rounding.

    `real` shows its own roundings; `exact` is as right as its answer.
    """

    got: Array
    real: Array
    moved: Array
    exact: Array


def fault_of(ours: Array, answer: Answer) -> str:
    """How `ours` differs from the framework's answer by more than rounding does; empty if it does not."""
    theirs, rows = answer.got, len(answer.got)
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return f"{ours.dtype}{ours.shape}, and not {theirs.dtype}{theirs.shape}"
    others = [answer.real.astype(np.float64), answer.moved.astype(np.float64)]
    one, wanted = (each.astype(np.float64).reshape(rows, -1) for each in (ours, theirs))
    with np.errstate(all="ignore"):
        apart = np.max([np.abs(each.reshape(rows, -1) - wanted) for each in others], axis=0)
        wide = np.where(np.isfinite(apart), apart, 0.0).max(axis=1, keepdims=True, initial=0.0)
        if ours.dtype.kind == "f":
            limit = _ABSOLUTE + _RELATIVE * np.abs(wanted) + _SPREAD * wide
            right = np.abs(one - wanted) <= limit
            exact = answer.exact.astype(np.float64).reshape(rows, -1)
            right |= np.abs(one - exact) <= _ABSOLUTE + _RELATIVE * np.abs(exact)
        else:
            # What a rounding changes is open; everything else is exact.
            right = np.broadcast_to(wide > 0, one.shape).copy()
        right |= (one == wanted) | (np.isnan(one) & np.isnan(wanted))
        # Rounding decides whether it is finite.
        right |= ~np.isfinite(apart) & ~(np.isnan(apart) & ~np.isfinite(wanted) & np.isnan(others[0].reshape(rows, -1)))
    if right.all():
        return ""
    row, place = np.argwhere(~right)[0]
    return f"{(~right).sum()} of {right.size}, row {row} of {rows}: {one[row, place]!r}, and not {wanted[row, place]!r}"


def other_bits(code: Code, inputs: Sequence[Array], whole: Sequence[Array]) -> dict[int, str]:
    """Outputs of which a row has other bits alone, or in a smaller batch, than in the whole one. Every NaN is the same."""
    count, found = len(inputs[0]), {}
    for size in _BATCHES:
        parts = [code(*(each[start : start + size] for each in inputs)) for start in range(0, count, size)]
        for place, outputs in enumerate(whole):
            if _bits(np.concatenate([each[place] for each in parts])) != _bits(outputs):
                found[place] = f"other bits in batches of {size}"
    return found


def _bits(values: Array) -> bytes:
    return (np.where(np.isnan(values), np.nan, values) if values.dtype.kind == "f" else values).tobytes()


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Models that are one graph: their names, the program, the inputs and the framework's answers."""

    names: Sequence[str]
    program: Program
    inputs: Sequence[Array]
    answers: Mapping[str, Array]

    @staticmethod
    def read(folder: Path) -> _Group:
        """Raises Unsupported."""
        first, second = decoded(HloListing, json.loads((folder / "listing.json").read_text()), "listing.json").modules
        with np.load(folder / "answers.npz") as file:
            answers = dict(file)
        inputs = [value for name, value in answers.items() if name.startswith("in_")]
        # A third listing, of a large batch, would show whether the graph has branches on its size. These have none.
        program = import_program(hlo.read_program([first, second, second]), len(inputs), constants_of(folder))
        verify(program)
        names = [name.removeprefix("got_") for name in answers if name.startswith("got_")]
        return _Group(names=names, program=simplify(program), inputs=inputs, answers=answers)

    @staticmethod
    def lowered(folder: Path) -> _Group:
        """Of a graph of ONNX. Raises Unsupported."""
        model = model_in(folder)
        with np.load(folder / "data.npz") as file:
            answers = dict(file)
        return _Group(
            names=[each.key for each in model.outputs],
            program=simplify(valid(model)),
            inputs=[answers[f"in_{each.key}"] for each in model.inputs],
            answers=answers,
        )

    def interpreted(self) -> dict[str, str]:
        """Faults, by output, of what the interpreter gives."""
        return self._faults(interpret.run(self.program, len(self.inputs[0]), self.inputs))

    def compiled(self, kernels: Path) -> dict[str, str]:
        """Faults, by output, of what compiled code gives. Raises Unsupported."""
        program = recognize(rolled(self.program))
        verify(program)
        code = compiled_together({"all": program}, kernels, block=_BLOCK, flags=_QUICKLY)["all"]
        outputs = code(*self.inputs)
        others = other_bits(code, self.inputs, outputs)
        return {self.names[place]: text for place, text in others.items()} | self._faults(outputs)

    def _faults(self, outputs: Sequence[Array]) -> dict[str, str]:
        found = {}
        for name, ours in zip(self.names, outputs, strict=True):
            got, real, moved = (self.answers[f"{kind}_{name}"] for kind in ("got", "real", "moved"))
            exact = self.answers.get(f"exact_{name}", real)
            if fault := fault_of(ours, Answer(got=got, real=real, moved=moved, exact=exact)):
                found[name] = fault
        return found


def _python(home: Path) -> Path:
    return ensure(DEFAULT_VERSION, folders=Folders(cache=home / "cache", data=home / "data"), progress=Silent()).python


@pytest.mark.sweep(night=["functions-1", "keras-2", "onnx-3", "onnx-4"])
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("kind", _KINDS)
def test_random_models_give_the_frameworks_answers(
    shared_home_folder: Path, tmp_path: Path, kind: str, seed: int
) -> None:
    kernels = kernel_object(shared_home_folder, "g++", _QUICKLY, headers=HEADERS)
    here = REPOSITORY / "tests" / "fuzz"
    drawn: list[str | Path] = [str(seed), str(_MODELS), tmp_path, WORKER_PROGRAM]
    if kind == "onnx":
        run([frontend(shared_home_folder), "-I", here / "drawn_onnx.py", *drawn], timeout=1500)
        found = json.loads((tmp_path / "index.json").read_text())
        folders = [Path(place) for place, _ in found["groups"]]
        texts = {name: text for _, each in found["groups"] for name, text in each.items()}
    else:
        run([_python(shared_home_folder), "-I", here / "draws.py", kind, *drawn], timeout=1500)
        found = json.loads((tmp_path / "models.json").read_text())
        folders, texts = sorted(path.parent for path in tmp_path.glob("*/listing.json")), found["texts"]
    assert found["broken"] == found["refused"] == {}
    faults: dict[str, str] = {}
    for number, folder in enumerate(folders):
        group = _Group.lowered(folder) if kind == "onnx" else _Group.read(folder)
        is_compiled = number % _COMPILED == seed % _COMPILED
        wrong = group.compiled(kernels) if is_compiled else group.interpreted()
        faults.update({f"{name}: {texts[name]}": fault for name, fault in wrong.items()})
    assert faults == {}
    assert len(texts) == _MODELS
