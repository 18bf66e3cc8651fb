"""What is known of a node of an exported program."""

from __future__ import annotations

import os
import re
from typing import Any

_NO_MODULE = "_empty_nn_module_stack"
"""What PyTorch calls the module of nodes that it makes itself, such as those of sizes."""


def operator_name(target: Any) -> str:
    """A name such as "aten.add.Tensor", or "operator.mul" of a function on sizes."""
    if hasattr(target, "_schema"):
        return str(target)
    return f"{getattr(target, '__module__', '').lstrip('_')}.{getattr(target, '__name__', target)}"


def arguments_of(node: Any) -> dict[str, Any]:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {**{str(place): value for place, value in enumerate(node.args)}, **node.kwargs}
    found: dict[str, Any] = {}
    for place, argument in enumerate(schema.arguments):
        if place < len(node.args) and not argument.kwarg_only:
            found[argument.name] = node.args[place]
        elif argument.name in node.kwargs:
            found[argument.name] = node.kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value
    return found


def module_of(node: Any) -> str:
    """The module around a node by its name in the model; "" if it is the model itself, or unknown."""
    stack = node.meta.get("nn_module_stack") or {}
    last = list(stack.values())[-1] if stack else ("", "")
    if str(last[0]).startswith(_NO_MODULE):
        return ""
    return str(last[0]).removeprefix("L['self'].").removeprefix("L['self']")


def line_of(node: Any) -> str:
    """The line of code that a node is from, without the folders of the author."""
    found = re.findall(r'File "([^"]*)", line (\d+), in \S+\n\s*(.*)', node.meta.get("stack_trace") or "")
    own = [each for each in found if f"{os.sep}torch{os.sep}nn{os.sep}" not in each[0]] or found
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}: {own[-1][2]}"[:200] if own else ""
