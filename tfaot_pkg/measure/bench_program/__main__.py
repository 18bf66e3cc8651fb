"""The program that runs an inference engine for `tfaot-pkg bench`, inside an environment that has it.

    python bench_program ANSWERS < requests

It needs the standard library, NumPy and the engine. The first line on standard input is `messages.Options`. The
requests after it, one a line, are those of templates/bench/serving.h.
All that an engine prints is in the log.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback

import messages


def main() -> int:
    # Not standard output: engines print there.
    answers = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)
    import served

    server = served.Server(messages.Options.of(json.loads(sys.stdin.readline())))
    for line in sys.stdin:
        operation, *words = line.split()
        try:
            answer = getattr(server, operation)(*words)
        except Exception as error:  # whatever an engine raises is a row of the table
            traceback.print_exc()
            answer = messages.Failure(error=f"{type(error).__name__}: {error}"[:1000])
        answers.write(json.dumps(dataclasses.asdict(answer)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
