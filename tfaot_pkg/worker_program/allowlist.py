"""Which operations a model may hold: those of operations.txt that XLA compiles, and a few that only give it structure.

Every operation of every toolchain has a line in that file (tools/classify_operations.py keeps it); what has none is
refused.
"""

import functools
import os

from faults import ModelFault

_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "operations.txt")
ALLOWED = frozenset("compiled structural inspected".split())
"""Classes of what is imported. `inspected` ones only after their content was looked at (modules.py)."""

OUTSIDE = {
    "code": "calls code by its name",
    "datasets": "reads data sets",
    "debugging": "writes what a debugger reads",
    "devices": "talks to other devices or processes",
    "files": "reads or writes files",
    "internal": "is TensorFlow's own, and never in an exported model",
    "network": "opens connections",
    "printing": "prints",
    "python": "runs Python",
    "restoring": "reads or writes the checkpoint",
    "summaries": "writes event files",
}
"""Families of refused operations that reach out of the model."""

_UNCOMPILED = {
    "kernel": "XLA has no kernel for it",
    "queues": "XLA has no kernel for it: queues keep state between calls",
    "tables": "lookup tables cannot be compiled: their content is loaded when the model is, and nothing runs then",
    "text": "XLA has no kernel for it: text cannot be compiled",
    "training": "XLA has no kernel for it: it changes variables",
    "unclassified": "no operation that this version of the tool knows",
}
_PLACEHOLDERS = frozenset("Placeholder PlaceholderV2".split())
VARIABLES = frozenset("VarHandleOp VariableV2 Variable".split())
_MOST_SHOWN = 20


@functools.cache
def classes() -> dict:
    """Operation -> (class, family); the family is empty except for `refused`."""
    found = {}
    with open(_FILE, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, kind, *family = line.split()
                found[name] = (kind, family[0] if family else "")
    return found


def is_allowed(operation: str) -> bool:
    return classes().get(operation, ("unclassified", ""))[0] in ALLOWED


def faults_of(signature: str, placed: list, functions: list) -> list:
    """[(operation, node, why)], sorted, of `placed` nodes ([(node, function)]) that cannot be compiled.

    ModelFault where some would reach out of the model, or where a function hides an operation of TensorFlow's.
    """
    _refuse_hidden(functions)
    outside, uncompiled = [], []
    for node, function in placed:
        kind, family = classes().get(node.op, ("refused", "unclassified"))
        if node.op in functions:
            continue
        if kind not in ALLOWED:
            family = family or kind
            fault = (node.op, _shown(node, family), OUTSIDE.get(family) or _UNCOMPILED[family])
            (outside if family in OUTSIDE else uncompiled).append(fault)
        elif why := _misplaced(node, function):
            uncompiled.append((node.op, node.name, why))
    if outside:
        raise ModelFault(
            f"the signature {signature!r} runs operations that reach out of the model:\n{listing(sorted(outside))}",
            "such a model is not loaded; export it without them",
        )
    return sorted(uncompiled)


def _misplaced(node, function: str) -> str:
    """Why an operation that is allowed elsewhere is not at this place; "" where it is."""
    if node.op in _PLACEHOLDERS:
        return "no input of the signature feeds it"
    if function and node.op in VARIABLES:
        return "a variable that a function makes for itself has no value in the checkpoint"
    return ""


def _refuse_hidden(functions: list) -> None:
    hidden = sorted(set(functions) & set(classes()))
    if hidden:
        raise ModelFault(
            f"the model's function {hidden[0]!r} has the name of an operation of TensorFlow's",
            "such a model is not loaded; export it again",
        )


def _shown(node, family: str) -> str:
    shared = node.attr["shared_name"].s.decode("utf-8", "replace") if "shared_name" in node.attr else ""
    return f"{node.name}, table {shared!r}" if family == "tables" and shared else node.name


def listing(faults: list) -> str:
    """A line per fault, the first ones."""
    lines = [f"  {operation} (node {node}): {why}" for operation, node, why in faults[:_MOST_SHOWN]]
    more = [f"  and {len(faults) - _MOST_SHOWN} more"] if len(faults) > _MOST_SHOWN else []
    return "\n".join([*lines, *more])
