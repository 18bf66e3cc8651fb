"""Runs an installed library on the pinned inputs, in a process of its own, and writes the hashes of its answers.

    python -m tfaot_pkg.verify.answering LIBRARY TARGET HASHES.json SIZE...

They are written as JSON, by batch size and output.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tfaot_pkg.documents import write
from tfaot_pkg.errors import RunError
from tfaot_pkg.loader import load
from tfaot_pkg.verify.corpus import corpus, sizes_of
from tfaot_pkg.verify.hashes import digests
from tfaot_pkg.verify.inputs import MOST
from tfaot_pkg.verify.runner import answers_of


def main(argv: list[str]) -> None:
    library, target, file, *words = argv
    sizes = tuple(map(int, words))
    model = load(Path(library), target=target)
    # A document that was changed must not make this process take all memory.
    if not set(sizes) <= set(sizes_of(model.signature)):
        raise RunError(f"a batch of {max(sizes)} rows is too large for the pinned inputs")
    inputs = corpus(model.signature, sizes)
    answers = {
        f"{size}/{name}": array
        for size in sizes
        for name, array in answers_of(model, inputs, size, MOST).items()
    }  # fmt: skip
    Path(file).write_bytes(write(digests(answers, model.signature, sizes)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except RunError as error:
        sys.exit(error.message)
