"""Inputs and outputs of a model by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ExportError


def inputs_of(torch: Any, model: Any, given: Any) -> tuple[list[str], list[Any]]:
    """Names and tensors, in the order of the model's parameters."""
    is_program = isinstance(model, torch.export.ExportedProgram)
    order = list(model.graph_signature.user_inputs) if is_program else _parameters(torch, model)
    if isinstance(given, Mapping):
        names, values = list(given), list(given.values())
        if order[: len(names)] != names:
            known = [name for name in order if name in given]
            if len(known) != len(names) or order[: len(known)] != known:
                raise ExportError(f"the inputs are {', '.join(names)}, the model's parameters {', '.join(order)}")
            names, values = known, [given[name] for name in known]
    else:
        values = [given] if torch.is_tensor(given) else list(given)
        names = (order + [f"input_{place}" for place in range(len(order), len(values))])[: len(values)]
    for name, value in zip(names, values, strict=True):
        if not torch.is_tensor(value):
            raise ExportError(
                f"the input {name} is a {type(value).__name__}: wrap the model in a module whose inputs are tensors"
            )
    return names, [value.detach().cpu() for value in values]


def _parameters(torch: Any, model: Any) -> list[str]:
    # Modules of torch.fx have a graph and code, too.
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        names = [value.debugName().partition(".")[0] for value in model.graph.inputs()]
        return names[1:] if hasattr(model, "forward") and names[:1] == ["self"] else names
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(model.forward).parameters.values()
    return [each.name for each in parameters if each.kind in kinds]


def named_outputs(torch: Any, found: Any, names: Sequence[str]) -> dict[str, Any]:
    """The tensors of `found` by name, in the order in which exporters flatten it."""
    values: list[Any]
    if torch.is_tensor(found):
        own, values = ["output"], [found]
    elif isinstance(found, Mapping):
        own, values = [str(key) for key in found], list(found.values())
    elif isinstance(found, tuple | list):
        values = list(found)
        own = list(getattr(found, "_fields", [f"output_{place}" for place in range(len(values))]))
    else:
        raise ExportError(f"the model returns a {type(found).__name__}: wrap it in a module that returns tensors")
    # Outputs that a module leaves out (the weights of an attention) do not exist in the file either.
    own = [name for name, value in zip(own, values, strict=True) if value is not None]
    values = [value for value in values if value is not None]
    if not values:
        raise ExportError("the model returns nothing: wrap it in a module that returns tensors")
    if not all(map(torch.is_tensor, values)):
        raise ExportError("the model returns nested outputs: wrap it in a module with a dict or a tuple of tensors")
    if names and len(names) != len(values):
        raise ExportError(f"the model has {len(values)} outputs ({', '.join(own)}), and {len(names)} names are given")
    return dict(zip(names or own, values, strict=True))
