"""From a model to its file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .axes import Axes, Limits, axes_of, first_rows, limits_of
from .classes import Answerer
from .document import Program
from .ends import inputs_of, named_outputs
from .errors import ExportError, said
from .exported import exported
from .files import replacing, require_writable, write_archive
from .framework import evaluating, pytorch
from .onnx_form import add_metadata, converted, name_axes, tidy, traced, write
from .spaced_numbers import spaced_numbers
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
    is_script = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
    is_program = isinstance(model, torch.export.ExportedProgram)
    if is_script and target.suffix.lower() != ".onnx":
        raise ExportError(f"TorchScript cannot be stored in {target.suffix} files: write an .onnx file")
    names, examples = inputs_of(torch, model, example_inputs)
    axes = axes_of(names, examples, shapes, limits)
    given = dict(zip(names, first_rows(examples, axes), strict=True))
    # A program of torch.export was made in one mode, and cannot change it.
    with evaluating(torch, None if is_program else model):
        function = model.module() if is_program else model
        answered = _Answered(
            torch=torch, model=model, is_script=is_script, is_program=is_program, function=function, examples=examples,
            axes=axes, limits=limits, given=given, fetched=_answers(torch, function, given, outputs),
        )  # fmt: skip
        if is_aten:
            _write_aten(target, answered, ranges=ranges or {}, batches=batches)
        else:
            _write_onnx(target, answered)
    return target


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """A model, the `function` that runs it, and what it answered: `fetched` to the rows `given` of its `examples`."""

    torch: Any
    model: Any
    is_script: bool
    is_program: bool
    function: Any
    examples: list[Any]
    axes: list[Axes]
    limits: Limits
    given: Mapping[str, Any]
    fetched: Mapping[str, Any]

    @property
    def answers(self) -> dict[str, Any]:
        inputs = {f"in/{name}": value for name, value in self.given.items()}
        return inputs | {f"out/{name}": value for name, value in self.fetched.items()}

    def program(self) -> Any:
        """The program of torch.export."""
        if self.is_program:
            return self.model
        return exported(self.torch, self.model, list(self.given), self.examples, self.axes, self.limits)


def _answers(torch: Any, function: Any, given: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    try:
        answered = function(*given.values())
    except Exception as error:
        # The author's code, which raises whatever it likes.
        raise ExportError(f"the model does not take these inputs: {said(error)}") from error
    return named_outputs(torch, answered, outputs)


def _write_aten(target: Path, found: _Answered, *, ranges: Mapping[str, Any], batches: Sequence[int]) -> None:
    with whole_layers(found.torch), spaced_numbers(found.torch):
        program = Program(found.torch, found.program(), list(found.given), found.axes, found.limits)
    document = program.document(list(found.fetched), found.answers)
    answerer = Answerer(program, document, found.function, found.given, ranges=ranges, batches=batches)
    document["classes"] = answerer.classes()
    with replacing(target) as file:
        write_archive(file, document, program.tensors, program.answers)


def _write_onnx(target: Path, found: _Answered) -> None:
    torch, names, outputs = found.torch, list(found.given), list(found.fetched)
    program = None if found.is_script else found.program()
    if program is None:
        proto = traced(torch, found.model, names, found.examples, found.axes, outputs)
    else:
        proto = converted(torch, program, names, outputs)
    symbols = name_axes(proto, names, found.axes, program if found.is_program else None)
    tidy(proto)
    # Limits that the caller gives replace those that an exported program has.
    add_metadata(torch, proto, {**symbols, **found.limits}, found.answers)
    write(torch, target, proto.SerializeToString(), program)
