"""Runs a built library in a process of its own: a crash of native code is a result there, not our end.

    python -m tfaot_pkg.verify.runner JOB.json

The job: {"library", "target", "flush": whether subnormal numbers are flushed to zero, "parts": [{"inputs", "answers":
.npz files, "batch_sizes", "most": batches of each size (null: all), "seconds": after which SIGALRM ends the process
(null: never)}]}. For each batch size B and output O the answers hold "B/O", made like the reference's
(worker_program/reference.py). Each part's answers are complete as soon as their file is there.
"""

from __future__ import annotations

import ctypes
import json
import platform
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.loader import Model, load
from tfaot_pkg.worker_program.messages.archives import write_arrays
from tfaot_pkg.worker_program.messages.elements import numbers

_ENVIRONMENT_BYTES = 64  # of fenv_t, or more
_FIELDS = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
"""The control word's place in fenv_t (glibc's bits/fenv.h), and its bits: FTZ and DAZ of MXCSR, FZ of FPCR."""


@contextmanager
def subnormals_flushed() -> Iterator[None]:
    """Flush subnormal numbers to zero in this thread, as TensorFlow does while it runs; nothing on unknown machines."""
    if platform.machine() not in _FIELDS:
        yield
        return
    offset, bits = _FIELDS[platform.machine()]
    # Python itself has no access to the control word.
    library = ctypes.CDLL("libm.so.6")
    before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    library.fegetenv(before)
    flushing = ctypes.create_string_buffer(before.raw, _ENVIRONMENT_BYTES)
    ctypes.c_uint32.from_buffer(flushing, offset).value |= bits
    library.fesetenv(flushing)
    try:
        yield
    finally:
        library.fesetenv(before)


def main(argv: list[str]) -> None:
    job = json.loads(Path(argv[0]).read_text())
    model = load(Path(job["library"]), target=job["target"])
    with subnormals_flushed() if job["flush"] else nullcontext():
        for part in job["parts"]:
            _run(model, part)


def _run(model: Model, part: dict[str, Any]) -> None:
    with np.load(part["inputs"], allow_pickle=False) as file:
        inputs = dict(file)
    # Set after the inputs are read: only runs of the library count.
    signal.setitimer(signal.ITIMER_REAL, part["seconds"] or 0)
    answers: dict[str, Array] = {}
    for size in part["batch_sizes"]:
        found = answers_of(model, inputs, size, part["most"])
        answers.update({f"{size}/{name}": array for name, array in found.items()})
    signal.setitimer(signal.ITIMER_REAL, 0)
    write_arrays(part["answers"], answers)


def answers_of(model: Model, inputs: Mapping[str, Array], size: int, most: int | None = None) -> dict[str, Array]:
    """The outputs of whole batches of `size` rows, one after the other, of at most `most` of them, as numbers."""
    batched = [tensor.name for tensor in model.signature.inputs if tensor.has_batch_axis]
    rows = min((len(inputs[name]) for name in batched), default=size)
    batches = [
        model.run(size, {n: a[start : start + size] if n in batched else a for n, a in inputs.items()})
        for start in range(0, rows - size + 1, size)[:most]
    ]
    return {
        tensor.name: numbers(
            np.concatenate([batch[tensor.name] for batch in batches])
            if tensor.has_batch_axis
            else batches[0][tensor.name],
            tensor.dtype.value,
        )
        for tensor in model.signature.outputs
    }


if __name__ == "__main__":
    main(sys.argv[1:])
