"""The command line: `python -m tfaot_pkg.export`."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .axes import Limits, limits_of, parsed
from .errors import ExportError
from .exporting import export
from .framework import pytorch

_DRAWN_ROWS, _DRAWN_SIZE = 16, 12
"""Rows of random inputs, and the size of their other axes if the limits allow it."""


def _loaded(torch: Any, name: str) -> Any:
    """The model that the command line names."""
    if not Path(name).is_file():
        return _from_module(name)
    try:
        with zipfile.ZipFile(name) as archive:
            members = [each.partition("/")[2] for each in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise ExportError(f"{name} is neither a file of torch.export nor TorchScript") from error
    if "models/model.json" in members or "archive_format" in members or name.endswith(".pt2"):
        return torch.export.load(name)
    if "constants.pkl" in members:
        return torch.jit.load(name, map_location="cpu")
    raise ExportError(
        f"{name} contains weights without the network: write a function that creates the module and loads them, "
        f"def make(): net = Net(); net.load_state_dict(torch.load({name!r})); return net; and give MODULE:make"
    )


def _from_module(name: str) -> Any:
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ExportError(f"{name} is not a file; name a function that returns the model as in taggers:make_tagger")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise ExportError(f"cannot import {module}: {error}") from error
    if not hasattr(found, attribute):
        raise ExportError(f"{module} has no {attribute!r}")
    made = getattr(found, attribute)
    return made if hasattr(made, "parameters") and not inspect.isclass(made) else made()


def _drawn(torch: Any, given: Mapping[str, str], limits: Limits) -> tuple[dict[str, Any], dict[str, str]]:
    """Inputs as the command line describes them, and their shapes."""
    # The same numbers in each run: a file must not differ because it was exported twice.
    generator, tensors, shapes = torch.Generator().manual_seed(0), {}, {}
    batch: int | str | None = None
    for name, text in given.items():
        axes_text, _, dtype_name = text.partition(":")
        axes, dtype = parsed(name, axes_text), getattr(torch, dtype_name or "float32", None)
        if not isinstance(dtype, torch.dtype):
            raise ExportError(f"the input {name}: {dtype_name!r} is not a dtype of PyTorch, such as float32 or int64")
        batch = batch if batch is not None or not axes else axes[0]
        sizes = []
        for axis in axes:
            least, most = (0, None) if isinstance(axis, int) else limits.get(axis, (1, None))
            usual = _DRAWN_ROWS if axis == batch else _DRAWN_SIZE
            sizes.append(axis if isinstance(axis, int) else max(least, min(usual, most or usual)))
        if dtype.is_floating_point:
            tensors[name] = torch.randn(sizes, generator=generator).to(dtype)
        else:
            tensors[name] = torch.randint(0, 2, sizes, generator=generator).to(dtype)
        shapes[name] = axes_text
    return tensors, shapes


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tfaot_pkg.export", description="Export a PyTorch model for tfaot-pkg, with its own answers."
    )
    parser.add_argument("model", help="MODULE:FUNCTION, a .pt2 file of torch.export, or a TorchScript file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="the .aten, .onnx or .pt2 file to write (default: NAME.aten; TorchScript: .onnx)",
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=AXES[:DTYPE]",
        help="an input, such as x=batch,16 or ids=batch,n:int64; not needed for .pt2 files",
    )  # fmt: skip
    parser.add_argument(
        "--dynamic", action="append", default=[], metavar="LIMITS", help='limits of a named axis, such as "n<=128"'
    )
    parser.add_argument(
        "--range", action="append", default=[], metavar="NAME=LOW:HIGH", dest="ranges",
        help="the least and largest number of an input, such as ids=0:999 or edges=0:n-1",
    )  # fmt: skip
    parser.add_argument(
        "--batch", action="append", default=[], type=int, metavar="ROWS", dest="batches",
        help="a batch size to answer, if rows of a batch depend on one another",
    )  # fmt: skip
    parser.add_argument("--outputs", default="", metavar="NAMES", help="names of the outputs, such as score,mass")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> Path:
    torch = pytorch()
    given = dict(each.partition("=")[::2] for each in arguments.input)
    model = _loaded(torch, arguments.model)
    limits = limits_of(arguments.dynamic)
    program = isinstance(model, torch.export.ExportedProgram)
    if not program and not given:
        raise ExportError("name the inputs, in the order of forward's parameters: --input x=batch,16")
    inputs, shapes = (_examples_of(torch, model), None) if program else _drawn(torch, given, limits)
    stem = arguments.model.rpartition(":")[2] if ":" in arguments.model else Path(arguments.model).stem
    script = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
    target = arguments.output or Path(f"{stem}.onnx" if script else f"{stem}.aten")
    outputs = [name.strip() for name in arguments.outputs.split(",") if name.strip()]
    return export(
        model, inputs, target, shapes=shapes, dynamic=arguments.dynamic, outputs=outputs,
        ranges=dict(map(_range, arguments.ranges)), batches=arguments.batches,
    )  # fmt: skip


def _range(text: str) -> tuple[str, tuple[float | str, float | str]]:
    match = re.fullmatch(r"(\w+)=([^:]+):([^:]+)", text)
    if match is None:
        raise ExportError(f"--range {text}: write NAME=LOW:HIGH, as in ids=0:999 or edges=0:n-1")
    return match[1], (_number_or_size(match[2]), _number_or_size(match[3]))


def _number_or_size(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _examples_of(torch: Any, program: Any) -> Any:
    """The inputs that a file of torch.export was made with."""
    positional, named = program.example_inputs or ((), {})
    found = [*positional, *named.values()]
    if not found or not all(map(torch.is_tensor, found)):
        raise ExportError("the file has no example inputs, which are tensors: export the module itself")
    return tuple(found)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    try:
        made = _run(arguments)
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"wrote {made} ({made.stat().st_size / 1024:.0f} KB), with PyTorch's answers\nnext: tfaot-pkg init {made}")
    return 0
