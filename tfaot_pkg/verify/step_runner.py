"""Runs a built library step by step in a process of its own, carrying its state over.

    python -m tfaot_pkg.verify.step_runner JOB.json

The job: {"library", "target", "inputs", "answers": .npz files}. Inputs have all steps on their first axes; answers are
made like the reference's (worker_program/stepping.py), without spreads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.loader import Model, load
from tfaot_pkg.worker_program.messages.archives import write_arrays


def main(argv: list[str]) -> None:
    job = json.loads(Path(argv[0]).read_text())
    with np.load(job["inputs"], allow_pickle=False) as file:
        inputs = dict(file)
    answers = answers_of(load(Path(job["library"]), target=job["target"]), inputs)
    write_arrays(job["answers"], answers)


def answers_of(model: Model, inputs: dict[str, Array]) -> dict[str, Array]:
    """The outputs of all steps as "outputs/NAME", and the variables after the last one as "state/NAME"."""
    state, found = model.state(), dict[str, list[Array]]()
    # What a program does that saves its state: it must make no difference.
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


if __name__ == "__main__":
    main(sys.argv[1:])
