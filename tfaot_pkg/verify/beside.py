"""How far the answers of two libraries of one model are apart, and how much memory each takes.

Both run in one sandboxed process, on the pinned inputs (corpus.py):

    python -m tfaot_pkg.verify.beside BEFORE AFTER TARGET RESULT.json

A library may be hostile: what the process writes is taken for a figure, never for a reason to trust something.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaot_pkg.errors import RunError, ValidationError
from tfaot_pkg.ground.documents import read, write
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.ground.temporary import temporary_folder

# NumPy is imported in functions of the other process: nights plan without it.
if TYPE_CHECKING:
    from tfaot_pkg.ground.arrays import Array
    from tfaot_pkg.runtime.model import Model

_SECONDS = 60
"""Of all runs: a loop that counts to a large input may take any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """`differing` of `elements` have other bits; `output` has the largest difference.

    `largest` is |a - b|, and `relative` |a - b| / max(|a|, |b|), each over the finite ones; `not_finite` are those that
    only one library makes infinite or NaN.
    """

    output: str
    differing: int
    elements: int
    largest: float
    relative: float
    not_finite: int = 0

    def __str__(self) -> str:
        odd = f"; {self.not_finite:,} not finite in one of both" if self.not_finite else ""
        return (
            f"{self.differing:,} of {self.elements:,} numbers differ, by at most {self.relative:.2g} of the value "
            f"(by {self.largest:.2g}), output {self.output}{odd}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """`apart` is None if all answers have the same bits. `memory` has bytes of scratch memory, (before, now), of a call
    with the largest batch that was compiled; None if a library is too old to tell.
    """

    apart: Apart | None
    memory: tuple[int, int] | None


def beside(before: Path, after: Path, target: str) -> Beside:
    """Compare two shared libraries with the code of `target`, which this machine must be able to run.

    Raises ValidationError if one does not run, has another interface, or does not end in time; SandboxError.
    """
    with temporary_folder(prefix="tfaot-beside-") as scratch:
        result = scratch / "out" / "result.json"
        result.parent.mkdir()
        limits = Limits.of_user().within(Limits(timeout=3 * _SECONDS))
        box = Sandbox(readable=(before, after), writable=(result.parent,), limits=limits)
        try:
            box.own_python("tfaot_pkg.verify.beside", [before, after, target, result]).run()
            data = result.read_bytes()
        except CommandFailed as error:
            raise ValidationError(f"the answers cannot be compared: {error.tail or error.reason}") from error
        except OSError as error:
            raise ValidationError("the answers cannot be compared: nothing was written") from error
    return read(Beside, data, "the comparison of answers", error=ValidationError, hint="a library wrote it")


def main(argv: list[str]) -> None:
    """Raises RunError if a library does not run."""
    from tfaot_pkg.runtime.loader import load
    from tfaot_pkg.verify.corpus import MOST, corpus, sizes_of
    from tfaot_pkg.verify.runner import answers_of

    before, after = (load(Path(path), target=argv[2]) for path in argv[:2])
    if _interface(before) != _interface(after):
        raise RunError("they have other inputs or outputs")
    sizes = sizes_of(before.signature)
    if not before.any_batch_size:
        sizes = tuple(size for size in sizes if size in before.batch_sizes and size in after.batch_sizes)
    apart = None
    if sizes:
        signal.alarm(_SECONDS)
        inputs = corpus(before.signature, sizes)
        answers = [
            {f"{size}/{name}": array for size in sizes for name, array in answers_of(model, inputs, size, MOST).items()}
            for model in (before, after)
        ]
        signal.alarm(0)
        apart = apart_of(*answers)
    Path(argv[3]).write_bytes(write(Beside(apart=apart, memory=_memory(before, after))))


def apart_of(before: Mapping[str, Array], after: Mapping[str, Array]) -> Apart | None:
    """The difference of answers, which are by "SIZE/OUTPUT"; None if they have the same bits, NaN of any."""
    import numpy as np

    found: list[tuple[float, Apart]] = []
    differing = elements = 0
    for name in before:
        old, new = np.asarray(before[name]), np.asarray(after[name])
        if old.shape != new.shape or old.dtype != new.dtype:
            raise RunError(f"the output {name.partition('/')[2]} has another shape or type")
        elements += old.size
        same = (old == new) & (np.signbit(old) == np.signbit(new)) if old.dtype.kind == "f" else old == new
        if old.dtype.kind in "fc":
            same |= np.isnan(old) & np.isnan(new)
        if same.all():
            continue
        wide = np.complex128 if old.dtype.kind == "c" else np.float64
        a, b = old[~same].astype(wide), new[~same].astype(wide)
        differing += a.size
        finite = np.isfinite(a) & np.isfinite(b)
        with np.errstate(all="ignore"):
            off = np.abs(a[finite] - b[finite])
            share = off / np.maximum(np.maximum(np.abs(a[finite]), np.abs(b[finite])), np.finfo(np.float64).tiny)
        made = Apart(
            output=name.partition("/")[2], differing=a.size, elements=old.size,
            largest=float(np.nan_to_num(off).max(initial=0.0)), relative=float(np.nan_to_num(share).max(initial=0.0)),
            not_finite=int((~finite).sum()),
        )  # fmt: skip
        found.append((made.relative, made))
    if not found:
        return None
    worst = max(found, key=lambda each: each[0])[1]
    return Apart(
        output=worst.output, differing=differing, elements=elements, largest=worst.largest, relative=worst.relative,
        not_finite=sum(each.not_finite for _, each in found),
    )  # fmt: skip


def _interface(model: Model) -> Any:
    return model.signature.inputs, model.signature.outputs


def _memory(before: Model, after: Model) -> tuple[int, int] | None:
    size = min(max(before.batch_sizes, default=1), max(after.batch_sizes, default=1))
    try:
        return before.scratch_bytes(size), after.scratch_bytes(size)
    except RunError:
        return None


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RunError as error:
        sys.exit(error.message)
