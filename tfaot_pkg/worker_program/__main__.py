"""The program that runs inside a toolchain's environment: reads requests, writes answers, one JSON line each.

It needs only the standard library, NumPy and TensorFlow, because a toolchain has nothing else. It starts no other
program, because the sandbox forbids that before the first line runs. Requests (messages/) come on standard input.
Answers go to the file descriptor named by the first argument: standard output and error are a log file, into which
TensorFlow may print at any time.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import TextIO, TypeAlias

import asking
import preloading
from messages import requests, wire

_FUNCTIONS = {
    "keras": ("keras_file", "convert"),
    "read onnx": ("from_onnx.reading", "read"),
    "read mlir": ("from_mlir.reading", "read"),
    "build mlir": ("from_mlir.building", "build"),
    "read trees": ("from_trees.reading", "read"),
    "read hls4ml": ("from_hls4ml.reading", "read"),
    "read conifer": ("from_conifer.reading", "read"),
    "convert": ("dialects", "convert"),
    "graph": ("graph_file", "convert"),
    "propose": ("graph_file", "propose"),
    "rename": ("saved_model", "rename"),
    "join": ("saved_model", "join"),
    "pin": ("pinned_inputs", "pin"),
    "expose": ("exposed_inputs", "expose"),
    "lift": ("lifting", "lift"),
    "steps": ("stateful_reference", "run_steps"),
    "draws": ("stateful_reference", "draw"),
    "inspect": ("saved_model", "inspect"),
    "operations": ("operations", "supported"),
    "flags": ("operations", "read_flags"),
    "check": ("freeze", "check"),
    "freeze": ("freeze", "freeze"),
    "compile": ("compile_units", "compile_units"),
    "reference": ("reference", "reference"),
    "operation": ("run_operation", "run"),
    "branches": ("branches", "branches"),
    "translate": ("dialects", "translate"),
    "trace": ("tracing", "trace"),
    "sizes": ("sizing", "find"),
    "corpus": ("corpus", "write_corpus"),
}
"""Operation -> the module and function that answer it."""


def main() -> int:
    preloading.prepare_import()
    # Line buffered: the host waits for each answer, and shows progress as it comes.
    answers = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)
    asking.connect(lambda ask: _told(ask, answers))
    _say(answers, requests.Ready(ready=True))
    while line := sys.stdin.readline():
        call = wire.decoded(requests.Call, json.loads(line), "request")
        _say(answers, _reply(call, answers))
    return 0


Reply: TypeAlias = requests.Done | requests.Faulty | requests.OutOfMemory | requests.Failed


def _reply(call: requests.Call, answers: TextIO) -> Reply:
    def report(amount: float, note: str) -> None:
        _say(answers, requests.Event(event=requests.Advance(advance=amount, note=note)))

    try:
        asked, answered = requests.OPERATIONS[call.op]
        module, function = _FUNCTIONS[call.op]
        request = wire.decoded(asked, call.args, call.op)
        # Imported on demand: the first module that needs TensorFlow pays for its import, which takes seconds.
        answer = getattr(importlib.import_module(module), function)(request, report)
        # The host decodes an answer as this type. Another type would fail there, far from its cause.
        assert type(answer) is answered, f"{call.op} answered {type(answer).__name__}"
    except requests.ModelFault as fault:
        return requests.Faulty(fault=requests.FaultText(message=fault.message, hint=fault.hint, newer=fault.newer))
    except MemoryError:
        # Not a fault of the model: the host names the limit of memory and how to raise it.
        return requests.OutOfMemory(memory=True)
    except Exception as error:  # the parent must hear of whatever TensorFlow raises; the traceback goes to the log
        import traceback

        traceback.print_exc()
        return requests.Failed(error=f"{type(error).__name__}: {error}")
    return requests.Done(ok=answer)


def _told(ask: requests.Ask, answers: TextIO) -> requests.Told:
    _say(answers, requests.Asked(asked=ask))
    return wire.decoded(requests.Told, json.loads(sys.stdin.readline()), "told")


def _say(answers: TextIO, message: object) -> None:
    answers.write(wire.encoded(message) + "\n")


if __name__ == "__main__":
    sys.exit(main())
