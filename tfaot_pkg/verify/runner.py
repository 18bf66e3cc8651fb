"""Runs a built library in a process of its own, so that a crash of native code is a result, not the end of validation.

    python -m tfaot_pkg.verify.runner JOB.json

The job has "library", "target" and one of

- "parts", [{"inputs", "answers": .npz files, "batch_sizes", "most": batches of each size (null: all), "seconds": after
  which SIGALRM ends the process (null: never)}], with "flush": whether subnormal numbers are flushed to zero. For each
  batch size B and output O the answers hold "B/O", made like the reference's (worker_program/reference.py). Each part's
  answers are complete as soon as their file is there.
- "steps", {"inputs", "answers": .npz files}. Inputs have all steps on their first axes; answers are made like the
  reference's (worker_program/stateful_reference.py), without spreads. The state is carried over.
- "draws", {"inputs", "answers": .npz files, "seed": the input, "count", "batch_size"}: one seed after the other. Only
  the `features` of each output are kept (worker_program/messages/elements.py).
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

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.runtime.loader import Model, load
from tfaot_pkg.worker_program.messages.elements import features, numbers, write_arrays

_ENVIRONMENT_BYTES = 64  # at least the size of fenv_t
_FIELDS = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
"""The offset of the control word in fenv_t (glibc's bits/fenv.h), and its bits: FTZ and DAZ of MXCSR, FZ of FPCR."""


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
    for kind, run in (("steps", _run_steps), ("draws", _run_draws)):
        if kind in job:
            run(model, job[kind])
    with subnormals_flushed() if job.get("flush") else nullcontext():
        for part in job.get("parts", ()):
            _run(model, part)


def _run(model: Model, part: dict[str, Any]) -> None:
    inputs = _inputs(part)
    # Set after the inputs are read, so that only runs of the library count.
    signal.setitimer(signal.ITIMER_REAL, part["seconds"] or 0)
    answers: dict[str, Array] = {}
    for size in part["batch_sizes"]:
        found = answers_in_both_ways(model, inputs, size, part["most"])
        answers.update({f"{size}/{name}": array for name, array in found.items()})
    signal.setitimer(signal.ITIMER_REAL, 0)
    write_arrays(part["answers"], answers)


def answers_in_both_ways(
    model: Model, inputs: Mapping[str, Array], size: int, most: int | None = None
) -> dict[str, Array]:
    """`answers_of`. Ends the process if there are others by tiles of the CPU (AMX) than without, if it may use some."""
    found = answers_of(model, inputs, size, most)
    if model.use_tiles(False):
        for name, array in answers_of(model, inputs, size, most).items():
            if not same_bits(array, found[name]):
                sys.exit(f"output {name} of {size} rows has other bits with AMX than without")
        model.use_tiles()
    return found


def same_bits(first: Array, second: Array) -> bool:
    """Whether two arrays of numbers are the same, NaN of any bits, and zeros of one sign."""
    differs = np.signbit(first) != np.signbit(second) if first.dtype.kind == "f" else np.zeros(first.shape, bool)
    isnan = np.isnan(first) if first.dtype.kind == "f" else differs
    return np.array_equal(first, second, equal_nan=first.dtype.kind in "fc") and not (differs & ~isnan).any()


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


def _run_steps(model: Model, job: dict[str, Any]) -> None:
    write_arrays(job["answers"], answers_of_steps(model, _inputs(job)))


def answers_of_steps(model: Model, inputs: dict[str, Array]) -> dict[str, Array]:
    """The outputs of all steps as "outputs/NAME", and the variables after the last one as "state/NAME"."""
    state, found = model.state(), dict[str, list[Array]]()
    # In the middle, the state is saved and restored, as by a program that continues later: it must make no difference.
    steps = len(next(iter(inputs.values())))
    for step in range(steps):
        if step == steps // 2:
            saved, state = state.save(), model.state()
            state.restore(saved)
        feeds = {tensor.name: inputs[tensor.name][step] for tensor in model.signature.step_inputs}
        for name, array in state.step(**feeds).items():
            found.setdefault(f"outputs/{name}", []).append(array)
    return {
        **{name: np.stack(arrays) for name, arrays in found.items()},
        **{f"state/{name}": array for name, array in state.tensors.items()},
    }


def _run_draws(model: Model, job: dict[str, Any]) -> None:
    inputs, found = _inputs(job), dict[str, list[Array]]()
    types = {tensor.name: tensor.dtype.value for tensor in model.signature.outputs}
    for number in range(job["count"]):
        given = {**inputs, job["seed"]: np.array([number, 1], np.int64)}
        for name, array in model.run(job["batch_size"], given).items():
            found.setdefault(name, []).append(features(numbers(array, types[name])))
    write_arrays(job["answers"], {name: np.stack(rows) for name, rows in found.items()})


def _inputs(job: dict[str, Any]) -> dict[str, Array]:
    with np.load(job["inputs"], allow_pickle=False) as file:
        return dict(file)


if __name__ == "__main__":
    main(sys.argv[1:])
