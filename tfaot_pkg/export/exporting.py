"""From a model to its file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .axes import axes_of, first_rows, limits_of
from .classes import Answerer
from .document import Program
from .ends import inputs_of, named_outputs
from .errors import ExportError
from .exported import exported
from .files import replacing, require_writable, write_archive
from .framework import evaluating, pytorch
from .onnx_form import add_metadata, converted, name_axes, tidy, traced, write
from .whole_layers import whole_layers


def export(
    model: Any,
    example_inputs: Any,
    path: str | os.PathLike[str],
    *,
    shapes: Mapping[str, str] | None = None,
    dynamic: Iterable[str] = (),
    outputs: Sequence[str] = (),
    ranges: Mapping[str, tuple[float | str, float | str]] | None = None,
    batches: Sequence[int] = (),
) -> Path:
    """Write `model`, a torch.nn.Module, an ExportedProgram or a TorchScript module, to `path` (.aten, .onnx, .pt2).

    `example_inputs` are a tensor, a tuple, or a dict by the names of forward's parameters. Real data is best: what the
    model answers to its first rows (64 at most) is stored, and packages are compared with it.
    `shapes` gives the axes of inputs, such as {"x": "batch,n,16"}: names are sizes that vary. Without it the first axis
    is the batch if all inputs have one of the same size. `dynamic` limits names: "n<=128" or "4<=n<=128".
    `outputs` names the outputs; else they have the keys of a dict, the fields of a named tuple, or `output`.
    An .aten file has answers to random inputs, too. `ranges` are the least and the largest number of an input, or the
    names of sizes, as in {"edges": (0, "n-1")}: by default those of indices are found in the program, other integers
    are some of the examples. If rows of a batch depend on one another, `batches` are the sizes of batches to answer.

    Modules are exported in evaluation mode. Raises ExportError.
    """
    target, limits = Path(path), limits_of(dynamic)
    require_writable(target, has_classes=bool(ranges or batches))
    is_aten = target.suffix.lower() == ".aten"
    torch = pytorch(() if is_aten else ("onnx", "onnxscript"))
    script = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
    program = isinstance(model, torch.export.ExportedProgram)
    if script and target.suffix.lower() != ".onnx":
        raise ExportError(f"TorchScript cannot be stored in {target.suffix} files: write an .onnx file")
    names, examples = inputs_of(torch, model, example_inputs)
    axes = axes_of(names, examples, shapes, limits)
    given = first_rows(examples, axes)
    # A program of torch.export was made in one mode, and cannot change it.
    with evaluating(torch, None if program else model):
        try:
            answered = (model.module() if program else model)(*given)
        except Exception as error:
            raise ExportError(f"the model does not take these inputs: {error}") from error
        fetched = named_outputs(torch, answered, outputs)
        answers = {f"in/{name}": value for name, value in zip(names, given, strict=True)}
        answers |= {f"out/{name}": value for name, value in fetched.items()}
        with whole_layers(torch) if is_aten else contextlib.nullcontext():
            made = None if script else model if program else exported(torch, model, names, examples, axes, limits)
            found = Program(torch, made, names, axes, limits) if is_aten else None
        if found is not None:
            document = found.document(list(fetched), answers)
            answerer = Answerer(
                found, document, model.module() if program else model, dict(zip(names, given, strict=True)),
                ranges=ranges or {}, batches=batches,
            )  # fmt: skip
            document["classes"] = answerer.classes()
            with replacing(target) as file:
                write_archive(file, document, found.tensors, found.answers)
            return target
        if script:
            proto = traced(torch, model, names, examples, axes, list(fetched))
        else:
            proto = converted(torch, made, names, list(fetched))
    symbols = name_axes(proto, names, axes, made if program else None)
    tidy(proto)
    # Limits that the caller gives replace those that an exported program has.
    add_metadata(torch, proto, {**symbols, **limits}, answers)
    write(torch, target, proto.SerializeToString(), made)
    return target
