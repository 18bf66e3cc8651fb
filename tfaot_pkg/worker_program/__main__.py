"""The program that runs inside a toolchain's environment: requests in, answers out, one JSON line each.

It needs the standard library, NumPy and TensorFlow only, because a toolchain holds nothing else, and starts no other
program, because the sandbox takes that away before its first line. Requests come on
standard input; answers go to the file descriptor named by the first argument, so that whatever TensorFlow
prints (standard output and error are a log file) never mixes with them.
"""

import json
import os
import sys


def main() -> int:
    answers = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)
    _say(answers, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        _say(answers, _answer(request, answers))
    return 0


def _answer(request: dict, answers) -> dict:
    from faults import ModelFault

    def report(amount: float, note: str) -> None:
        _say(answers, {"event": {"advance": amount, "note": note}})

    try:
        return {"ok": _operation(request["op"])(request["args"], report)}
    except ModelFault as fault:
        return {"fault": {"message": fault.message, "hint": fault.hint}}
    except MemoryError:
        return {"memory": True}
    except Exception as error:  # the parent must hear of whatever TensorFlow raises; the traceback goes to the log
        import traceback

        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def _operation(name: str):
    """Modules are imported on demand: the first that needs TensorFlow pays for its import."""
    if name == "inspect":
        import inspect_model

        return inspect_model.inspect
    if name == "operations":
        import operations

        return operations.supported
    if name == "flags":
        import operations

        return operations.read_flags
    if name == "freeze":
        import freeze

        return freeze.freeze
    if name == "substitute":
        import substitute

        return substitute.substitute
    if name == "compile":
        import compile_units

        return compile_units.compile_units
    if name == "reference":
        import reference

        return reference.reference
    if name == "branches":
        import branches

        return branches.branches
    raise ValueError(f"unknown operation {name}")


def _say(answers, message: dict) -> None:
    answers.write(json.dumps(message) + "\n")


if __name__ == "__main__":
    sys.exit(main())
