"""Runs a built library with one seed after the other, in a process of its own.

    python -m tfaot_pkg.verify.draw_runner JOB.json

The job: {"library", "target", "inputs", "answers": .npz files, "seed": the input, "count", "batch_size"}. What is
kept of each output is told by worker_program/messages/draws.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.loader import load
from tfaot_pkg.worker_program.messages.archives import write_arrays
from tfaot_pkg.worker_program.messages.draws import features
from tfaot_pkg.worker_program.messages.elements import numbers


def main(argv: list[str]) -> None:
    job = json.loads(Path(argv[0]).read_text())
    model, found = load(Path(job["library"]), target=job["target"]), dict[str, list[Array]]()
    types = {tensor.name: tensor.dtype.value for tensor in model.signature.outputs}
    with np.load(job["inputs"], allow_pickle=False) as file:
        inputs = dict(file)
    for number in range(job["count"]):
        given = {**inputs, job["seed"]: np.array([number, 1], np.int64)}
        for name, array in model.run(job["batch_size"], given).items():
            found.setdefault(name, []).append(features(numbers(array, types[name])))
    write_arrays(job["answers"], {name: np.stack(rows) for name, rows in found.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
