"""The program that runs an inference engine for `tfaot-pkg bench`, inside an environment that has it.

    python bench_program ANSWERS < requests

It needs the standard library, NumPy and the engine. The first line on standard input is JSON:

    engine      litert, onnxruntime, openvino, iree, tensorflow or tensorflow_jit
    models      the model's file by batch size
    identity    the file of a model that gives one float back
    inputs      [{name, dtype, shape, file}]: shape with null for the batch axis; file holds the values of `rows` rows
    outputs     [{name, dtype, shape}]
    rows        of the inputs' files
    calls       the shared library of templates/bench/calls.cc
    paths       folders to import from, beside those of the environment

The requests after it, one a line, and their answers are those of templates/bench/library.cc, and `overhead S D`: as
`time`, for the identity; more words of an error are
in the log, as are all that an engine prints.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback

BEGAN = time.monotonic_ns()


def main() -> int:
    answers = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)
    options = json.loads(sys.stdin.readline())
    sys.path += options["paths"]
    import served

    server = served.Server(options, BEGAN)
    for line in sys.stdin:
        operation, *words = line.split()
        try:
            answer = getattr(server, operation)(*words)
        except Exception as error:  # whatever an engine raises is a row of the table
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
        answers.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
