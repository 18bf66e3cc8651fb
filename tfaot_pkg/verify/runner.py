"""Runs a built library in a process of its own: a crash of native code is a result there, not our end.

    python -m tfaot_pkg.verify.runner LIBRARY INPUTS.npz ANSWERS.npz TARGET BATCH_SIZE...

For each batch size B and output O the answers hold "B/O", made like the reference's (worker_program/reference.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from tfaot_pkg.runtime import Array, Model, load


def main(argv: list[str]) -> None:
    library, inputs_file, answers_file, target, *sizes = argv
    model = load(Path(library), target=target)
    with np.load(inputs_file, allow_pickle=False) as file:
        inputs = dict(file)
    answers: dict[str, Array] = {}
    for size in map(int, sizes):
        answers.update({f"{size}/{name}": array for name, array in _answers(model, inputs, size).items()})
    np.savez(answers_file, **answers)  # type: ignore[arg-type]  # NumPy's stub takes keywords for options


def _answers(model: Model, inputs: dict[str, Array], size: int) -> dict[str, Array]:
    batched = [tensor.name for tensor in model.signature.inputs if tensor.has_batch_axis]
    rows = min((len(inputs[name]) for name in batched), default=size)
    batches = [
        model.run(size, {n: a[start : start + size] if n in batched else a for n, a in inputs.items()})
        for start in range(0, rows - size + 1, size)
    ]
    return {
        tensor.name: np.concatenate([batch[tensor.name] for batch in batches])
        if tensor.has_batch_axis
        else batches[0][tensor.name]
        for tensor in model.signature.outputs
    }


if __name__ == "__main__":
    main(sys.argv[1:])
