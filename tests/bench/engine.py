"""An engine for tests: it speaks the protocol of templates/bench/serving.h and takes the time that it is told.

    engine.py ANSWERS JOURNAL NAME NANOSECONDS [FAULT OPERATION]

Each request is written to JOURNAL. At OPERATION it does FAULT: error, exit, hang, garbage (no JSON) or other (another
answer).
"""

import json
import os
import sys
import time


def main() -> None:
    answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    journal, name, nanoseconds = sys.argv[2], sys.argv[3], float(sys.argv[4])
    fault, at = sys.argv[5:7] if len(sys.argv) > 5 else ("", "")
    for line in sys.stdin:
        operation, *words = line.split()
        with open(journal, "a") as file:
            file.write(f"{name} {line.strip()} core {sorted(os.sched_getaffinity(0))}\n")
        if operation == at and fault == "exit":
            sys.stderr.write("it is broken\n")
            sys.stderr.flush()
            os._exit(7)
        if operation == at and fault == "hang":
            time.sleep(1000)
        if operation == at and fault == "error":
            answer: dict[str, object] = {"error": "no such operation"}
        elif operation == "start":
            answer = {"nanoseconds": 5.0}
        elif operation == "cold":
            answer = {"times": [10 * nanoseconds] * int(words[1])}
        elif operation == "time":
            answer = {"times": [nanoseconds * int(words[0])] * 3}
        elif operation == "answers":
            with open(words[1], "wb") as file:
                file.write(bytes(4 * int(words[0])))
            answer = {}
        elif operation == "memory":
            answer = {"empty": 100, "peak": 300}
        else:
            answer = {"rate": 2e9}
        if operation == at and fault == "other":
            answer = {"nanoseconds": "5", "more": 1}
        answers.write(("{\n" if operation == at and fault == "garbage" else json.dumps(answer)) + "\n")


main()
