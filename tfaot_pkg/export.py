"""Exports a PyTorch model into one file that `tfaot-pkg init` takes, with PyTorch's own answers.

    python -m tfaot_pkg.export taggers:make_tagger --input particles=batch,n,16 --dynamic "n<=128"

    from tfaot_pkg.export import export
    export(model, (particles,), "tagger.onnx", shapes={"particles": "batch,n,16"}, dynamic=["n<=128"])

It runs in the environment in which the model works, and needs PyTorch 2.6 or newer; for ONNX, 2.5 or newer with the
packages onnx and onnxscript. Nothing else of tfaot_pkg is imported: this file may be copied and run alone.

FILE.aten is the program of torch.export in PyTorch's core operators, which needs no other package, and what the model
itself answered. It is a zip archive: `program.json`, and the elements of arrays, little-endian and row-major, as
`arrays/0`, `arrays/1` ... Those of answers are compressed. The document has

    format      1
    framework, version
    symbols     {name: [least, most or null]} of the axes that vary; "batch" is the batch
    guards      what else torch.export assumed of them, as text
    inputs      [{name, value, dtype, axes}]: an axis is a size or the name of a symbol
    outputs     [{name, value}]
    arrays      [{dtype, shape, sha256}]
    weights     {value: number of an array}
    answers     {"in/NAME" or "out/NAME": number of an array}, to the example inputs
    classes     [{name, sizes, inputs, runs}]: answers to the classes of inputs that packages are verified with.
                `sizes` are those of symbols, `inputs` {NAME: number of an array} with a row of each for a batch axis;
                of `runs`, [{rows, ran, outputs, beside}], one has batches of so many `rows`: `ran` says which of them
                the model did not reject, `outputs` {NAME: number} has their answers one after the other, along a first
                axis, and `beside` what tells roundings from faults: {"low/NAME", "high/NAME", "spread/NAME",
                "missing/NAME": number} of inputs that are off by some roundings, and of equal elements in another
                order, {"exact/NAME": number} in float64
    nodes       [{name, op, arguments, results, module, line}], each after what it reads

A node's `arguments` are by the names of the operator's schema, with its defaults: JSON values, or {"value": name of an
input, weight or node}, {"dtype": name}, {"number": "inf"}, {"other": text}. Of `results`, one for each tensor, a size
is a number, or null, or a polynomial: [[coefficient, [symbols]] ...].

FILE.onnx is ONNX, also for other programs. Two of its metadata are for tfaot-pkg: `tfaot.about` (JSON: framework,
version, symbols), and `tfaot.answers`, an .npz file in base64 with "in/NAME" and "out/NAME". FILE.pt2 has the program
of torch.export too, which torch.export.load reads; the ONNX form is the member tfaot/model.onnx.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import copy
import functools
import hashlib
import importlib
import inspect
import io
import json
import logging
import math
import os
import re
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ABOUT, ANSWERS = "tfaot.about", "tfaot.answers"
MEMBER = "tfaot/model.onnx"  # in a .pt2 file, below the archive's own folder

_OLDEST = (2, 5)
_ROWS, _BYTES = 64, 8 << 20  # limits of the inputs that are stored with answers
_DRAWN_ROWS, _DRAWN_SIZE = 16, 12
"""Rows of random inputs, and the size of their other axes if the limits allow it."""
_LARGEST = (1 << 31) - 1  # bytes of a protobuf message

Axes = tuple["int | str", ...]
Limits = Mapping[str, tuple[int, "int | None"]]


class ExportError(Exception):
    """The message says what is wrong and what to do."""


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
    target, limits = Path(path), _limits(dynamic)
    _require_writable(target, has_classes=bool(ranges or batches))
    is_aten = target.suffix.lower() == ".aten"
    torch = _torch(() if is_aten else ("onnx", "onnxscript"))
    script = isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction)
    program = isinstance(model, torch.export.ExportedProgram)
    if script and target.suffix.lower() != ".onnx":
        raise ExportError(f"TorchScript cannot be stored in {target.suffix} files: write an .onnx file")
    names, examples = _inputs(torch, model, example_inputs)
    axes = _axes(names, examples, shapes, limits)
    given = _first_rows(examples, axes)
    # A program of torch.export was made in one mode, and cannot change it.
    with _evaluating(torch, None if program else model):
        try:
            answered = (model.module() if program else model)(*given)
        except Exception as error:
            raise ExportError(f"the model does not take these inputs: {error}") from error
        fetched = _named_outputs(torch, answered, outputs)
        answers = {f"in/{name}": value for name, value in zip(names, given, strict=True)}
        answers |= {f"out/{name}": value for name, value in fetched.items()}
        with _whole_layers(torch) if is_aten else contextlib.nullcontext():
            made = None if script else model if program else _exported(torch, model, names, examples, axes, limits)
            found = _Program(torch, made, names, axes, limits) if is_aten else None
        if found is not None:
            document = found.document(list(fetched), answers)
            answerer = _Answerer(found, document, model.module() if program else model, ranges or {}, batches)
            document["classes"] = answerer.classes(dict(zip(names, given, strict=True)))
            with _replacing(target) as file:
                _write_archive(file, document, found.tensors, found.answers)
            return target
        if script:
            proto = _traced(torch, model, names, examples, axes, list(fetched))
        else:
            proto = _converted(torch, made, names, list(fetched))
    symbols = _name_axes(proto, names, axes, made if program else None)
    _tidy(proto)
    # Limits that the caller gives replace those that an exported program has.
    _add_metadata(torch, proto, {**symbols, **limits}, answers)
    _write(torch, target, proto.SerializeToString(), made)
    return target


def _add_metadata(torch: Any, proto: Any, symbols: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    about = {"framework": "PyTorch", "version": torch.__version__, "symbols": symbols}
    for key, text in ((ABOUT, json.dumps(about)), (ANSWERS, _npz(torch, answers))):
        proto.metadata_props.add(key=key, value=text)
    if proto.ByteSize() > _LARGEST:
        raise ExportError("the model has more than 2 GB: export it as an .aten file")


def _require_writable(target: Path, *, has_classes: bool) -> None:
    """Fail before the export, which may take minutes."""
    if target.suffix.lower() not in (".aten", ".onnx", ".pt2"):
        raise ExportError(f"{target}: give the file a name that ends with .aten, .onnx or .pt2")
    if has_classes and target.suffix.lower() != ".aten":
        raise ExportError(f"{target}: only .aten files have answers to random inputs: leave out ranges and batches")
    if not os.access(target.absolute().parent, os.W_OK | os.X_OK):
        raise ExportError(f"{target}: no such folder, or no permission to write to it")


@contextlib.contextmanager
def _evaluating(torch: Any, model: Any) -> Iterator[None]:
    """Run the block without gradients and warnings, and with the module in evaluation mode.

    Attention runs as its code says: PyTorch's fast path gives NaN for a row whose keys are all masked, and the program
    zeros.
    """
    was_training, mha = getattr(model, "training", False), torch.backends.mha
    was_fast = mha.get_fastpath_enabled()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if was_training:
            model.eval()
        if was_fast:
            mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            if was_fast:
                mha.set_fastpath_enabled(True)
            if was_training:
                model.train()


def _torch(packages: Sequence[str] = ()) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ExportError("PyTorch is not installed here: run this where the model works") from error
    if _version(torch) < _OLDEST:
        raise ExportError(f"this is PyTorch {torch.__version__}: 2.5 is the oldest that is known to work")
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ExportError(f"PyTorch needs {package} for this: pip install onnx onnxscript") from error
    return torch


def _version(torch: Any) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))


def _limits(dynamic: Iterable[str]) -> dict[str, tuple[int, int | None]]:
    found: dict[str, tuple[int, int | None]] = {}
    for text in dynamic:
        match = re.fullmatch(r"(?:(\d+)<=)?([A-Za-z_]\w*)(?:<=(\d+))?", re.sub(r"\s", "", text))
        if not match:
            raise ExportError(f'dynamic {text!r}: write "n<=128" or "4<=n<=128"')
        found[match[2]] = (int(match[1] or 1), int(match[3]) if match[3] else None)
    return found


def _inputs(torch: Any, model: Any, given: Any) -> tuple[list[str], list[Any]]:
    """Names and tensors, in the order of the model's parameters."""
    is_program = isinstance(model, torch.export.ExportedProgram)
    order = list(model.graph_signature.user_inputs) if is_program else _parameters(model)
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


def _parameters(model: Any) -> list[str]:
    if hasattr(model, "graph") and hasattr(model, "code"):  # TorchScript
        names = [value.debugName().partition(".")[0] for value in model.graph.inputs()]
        return names[1:] if hasattr(model, "forward") and names[:1] == ["self"] else names
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(model.forward).parameters.values()
    return [each.name for each in parameters if each.kind in kinds]


def _axes(names: list[str], examples: list[Any], shapes: Mapping[str, str] | None, limits: Limits) -> list[Axes]:
    """For each input the sizes of its axes, names for those that vary."""
    if unknown := [name for name in shapes or () if name not in names]:
        raise ExportError(f"there is no input {unknown[0]!r}; there are: {', '.join(names)}")
    firsts = {len(each) for each in examples if each.ndim}
    batched = shapes is None and len(firsts) == 1 and all(each.ndim for each in examples)
    found: list[Axes] = []
    for name, example in zip(names, examples, strict=True):
        sizes: Axes = tuple(example.shape)
        if shapes is None:
            found.append(("batch", *sizes[1:]) if batched else sizes)
        else:
            found.append(_checked(name, sizes, _parsed(name, shapes[name]) if name in shapes else sizes))
    if unused := [name for name in limits if not any(name in axes for axes in found)]:
        raise ExportError(f"no axis of an input is called {unused[0]!r}: name it in the shapes, as in x=batch,n,16")
    return found


def _checked(name: str, sizes: Axes, axes: Axes) -> Axes:
    """`axes`, if an example with `sizes` may have them."""
    if len(axes) != len(sizes) or any(isinstance(a, int) and a != b for a, b in zip(axes, sizes, strict=True)):
        raise ExportError(f"the input {name} has the shape {list(sizes)}, which is not {','.join(map(str, axes))}")
    return axes


def _parsed(name: str, text: str) -> Axes:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    for word in words:
        if not re.fullmatch(r"\d+|[A-Za-z_]\w*", word):
            raise ExportError(f"the input {name}: {word!r} is neither a size nor a name; write {name}=batch,n,16")
    return tuple(int(word) if word.isdigit() else word for word in words)


def _batch(axes: list[Axes]) -> str | None:
    """The name of the axis that is the batch: the first one of the first input, if it varies."""
    first = axes[0][0] if axes and axes[0] else None
    return first if isinstance(first, str) else None


def _first_rows(examples: list[Any], axes: list[Axes]) -> list[Any]:
    """The first rows of the examples, as many as are stored with answers."""
    batch = _batch(axes)
    if batch is None:
        return examples
    batched = [each for each, names in zip(examples, axes, strict=True) if names[:1] == (batch,)]
    rows = len(batched[0])
    size = sum(each.nbytes for each in batched) / max(rows, 1)
    # At least one row, however large it is: without answers there is nothing to compare with.
    rows = max(1, min(rows, _ROWS, int(_BYTES / max(size, 1))))
    return [each[:rows] if names[:1] == (batch,) else each for each, names in zip(examples, axes, strict=True)]


def _named_outputs(torch: Any, found: Any, names: Sequence[str]) -> dict[str, Any]:
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


def _exported(torch: Any, model: Any, names: list[str], examples: list[Any], axes: list[Axes], limits: Limits) -> Any:
    dims: dict[str, Any] = {}
    # 2.6 has the largest integer for "without limit", and then finds that sizes must not be that.
    unlimited = 1 << 31 if _version(torch) < (2, 7) else None
    for name in dict.fromkeys(axis for each in axes for axis in each if isinstance(axis, str)):
        least, most = limits.get(name, (1, None))
        most = most or unlimited
        dims[name] = torch.export.Dim(name, **({"min": least} if least > 1 else {}), **({"max": most} if most else {}))
    shapes = [{place: dims[axis] for place, axis in enumerate(each) if isinstance(axis, str)} for each in axes]
    examples = _at_least_two(examples, axes)
    options = {"dynamic_shapes": tuple(shapes), "strict": False}
    try:
        return _by_torch(torch, model, tuple(examples), options)
    except Exception as error:
        said = ", ".join(f"{name}={','.join(map(str, each))}" for name, each in zip(names, axes, strict=True))
        raise ExportError(
            f"torch.export does not take the model: {error}\n(inputs: {said}; write a number for an axis that cannot "
            "vary, or export torch.jit.trace(model, inputs) instead)"
        ) from error


def _by_torch(torch: Any, model: Any, examples: tuple[Any, ...], options: dict[str, Any]) -> Any:
    try:
        return torch.export.export(model, examples, **options)
    except Exception as error:
        deferred = "prefer_deferred_runtime_asserts_over_guards"
        if (
            "Constraints violated" not in str(error)
            or deferred not in inspect.signature(torch.export.export).parameters
        ):
            raise
    # Conditions that hold at all sizes, which PyTorch cannot see, become assertions.
    return torch.export.export(model, examples, **options, **{deferred: True})


@contextlib.contextmanager
def _whole_layers(torch: Any) -> Iterator[None]:
    """In the block, recurrent layers have sizes alone.

    PyTorch would run them step by step to know these, and so take the number of steps for a constant.
    """
    names = (("lstm", "input"), ("gru", "input"), ("rnn_tanh", "input"), ("rnn_relu", "input"))
    operators = [getattr(getattr(torch.ops.aten, name), overload) for name, overload in names]
    replaced = ("DispatchKey.CompositeImplicitAutograd", "DispatchKey.Autograd")
    before = [dict(each.py_kernels) for each in operators]
    table = torch._decomp.decomposition_table  # noqa: SLF001  # which sizes are computed with, too
    functions = {each: table[each] for each in operators if each in table}
    try:
        for each, function in functions.items():
            table[each] = functools.partial(_sizes_of_layer, torch, function)
        for each, kernels in zip(operators, before, strict=True):
            for key in kernels:
                if str(key) in replaced:
                    each.py_kernels[key] = functools.partial(_sizes_of_layer, torch, kernels[key])
            each._dispatch_cache.clear()  # noqa: SLF001  # PyTorch has no public way
        yield
    finally:
        table.update(functions)
        for each, kernels in zip(operators, before, strict=True):
            each.py_kernels.clear()
            each.py_kernels.update(kernels)
            each._dispatch_cache.clear()  # noqa: SLF001


def _sizes_of_layer(torch: Any, otherwise: Any, x: Any, states: Any, *more: Any, **named: Any) -> Any:
    """Results without values of a recurrent layer, unless its input is a constant, which has values."""
    if type(x) is torch.Tensor:
        return otherwise(x, states, *more, **named)
    several = list(states) if isinstance(states, list | tuple) else [states]
    # (parameters, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    directions = 2 if (named["bidirectional"] if "bidirectional" in named else more[5]) else 1
    steps = x.new_empty((*x.shape[:-1], directions * several[0].shape[-1]))
    return (steps, *(each.new_empty(each.shape) for each in several))


def _at_least_two(examples: list[Any], axes: list[Axes]) -> list[Any]:
    """Repeat axes of size 1 that vary: torch.export takes a size of 1 for a constant."""
    varies = [
        [isinstance(axis, str) and size == 1 for axis, size in zip(each, example.shape, strict=True)]
        for example, each in zip(examples, axes, strict=True)
    ]
    return [x.repeat([1 + one for one in ones]) if ones else x for x, ones in zip(examples, varies, strict=True)]


def _converted(torch: Any, program: Any, names: list[str], outputs: list[str]) -> Any:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # of packages that are not installed
    try:
        made = torch.onnx.export(program, dynamo=True, verbose=False, input_names=names, output_names=outputs)
        return made.model_proto
    except Exception as error:
        raise ExportError(f"PyTorch cannot write the model as ONNX: {error}") from error


def _traced(torch: Any, model: Any, names: list[str], examples: list[Any], axes: list[Axes], outputs: list[str]) -> Any:
    import onnx

    varying = {name: {place: axis for place, axis in enumerate(each) if isinstance(axis, str)}
               for name, each in zip(names, axes, strict=True)}  # fmt: skip
    batch = _batch(axes)
    if batch is not None:
        varying |= {name: {0: batch} for name in outputs}
    file = io.BytesIO()
    try:
        torch.onnx.export(
            model, tuple(examples), file, dynamo=False, input_names=names, output_names=outputs, dynamic_axes=varying
        )
    except Exception as error:
        raise ExportError(f"PyTorch cannot write the model as ONNX: {error}") from error
    return onnx.load_from_string(file.getvalue())


def _name_axes(proto: Any, names: list[str], axes: list[Axes], program: Any) -> dict[str, tuple[int, int | None]]:
    """Give the axes in the file their names; returns the limits that an exported program has for them."""
    known: dict[str, str] = {}
    for name, value, each in zip(names, proto.graph.input, axes, strict=True):
        for place, (axis, dim) in enumerate(zip(each, value.type.tensor_type.shape.dim, strict=True)):
            if dim.HasField("dim_param"):
                ours = axis if isinstance(axis, str) else known.get(dim.dim_param, "batch" if not place else "")
                known.setdefault(dim.dim_param, ours or f"n{len(known)}")
            elif isinstance(axis, str):
                raise ExportError(
                    f"axis {place} of the input {name} cannot vary in this model: give its size instead of {axis!r}"
                )
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.dim_param = re.sub(r"[A-Za-z_]\w*", lambda found: known.get(found[0], found[0]), dim.dim_param)
    limits: dict[str, tuple[int, int | None]] = {}
    for symbol, bounds in ({} if program is None else program.range_constraints).items():
        if known.get(str(symbol), "batch") != "batch" and str(bounds.upper).isdigit():
            limits[known[str(symbol)]] = (max(1, int(bounds.lower)), int(bounds.upper))
    return limits


def _tidy(proto: Any) -> None:
    """Name nodes after the modules they are from; leave out stack traces, which name the author's files."""
    taken: set[str] = set()
    del proto.graph.value_info[:]
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        del value.metadata_props[:]
    for node in proto.graph.node:
        scopes = next((each.value for each in node.metadata_props if each.key == "pkg.torch.onnx.name_scopes"), "[]")
        inner = [each for each in re.findall(r"'([^']*)'", scopes)[:-1] if not each.startswith("_")]
        stem = "/".join([*(inner[-1].split(".") if inner and inner[-1] else []), node.op_type]) if inner else node.name
        name, number = stem, 0
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        node.name, node.doc_string = name, ""
        del node.metadata_props[:]
    for function in proto.functions:
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]


def _npz(torch: Any, tensors: Mapping[str, Any]) -> str:
    import numpy as np

    own = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # NumPy has no bfloat16, so its bits are stored.
    held = {name: each.view(torch.uint16) if each.dtype == torch.bfloat16 else each for name, each in own.items()}
    file = io.BytesIO()
    np.savez_compressed(file, **{name: each.numpy() for name, each in held.items()})
    return base64.b64encode(file.getvalue()).decode()


def _write(torch: Any, target: Path, model: bytes, program: Any) -> None:
    with _replacing(target) as made:
        if target.suffix.lower() == ".onnx":
            made.write_bytes(model)
        else:
            torch.export.save(program, made)
            with zipfile.ZipFile(made, "a") as archive:
                top = archive.namelist()[0].partition("/")[0]
                archive.writestr(f"{top}/{MEMBER}", model)


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A path for the block to write to: the whole file replaces `target`, or nothing."""
    with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".export-") as folder:
        made = Path(folder, target.name)
        yield made
        # The folder is beside the target, on the same file system: this is a rename, which readers see whole.
        os.replace(made, target)


# -- programs of core operators ------------------------------------------------------------------------------------

_WHOLE = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d avg_pool1d bucketize.Tensor cdist celu elu embedding_bag.padding_idx gelu glu grid_sampler
    group_norm gru.input hardshrink hardsigmoid hardswish hardtanh index_add instance_norm layer_norm leaky_relu linear
    linalg_vector_norm log_sigmoid log_softmax.int logsumexp lstm.input matmul max_pool1d max_pool2d max_pool3d mish
    pad prelu relu6 rms_norm rnn_relu.input rnn_tanh.input scaled_dot_product_attention searchsorted.Tensor selu silu
    softmax.int softplus softshrink threshold upsample_bicubic2d.vec upsample_bilinear2d.vec upsample_linear1d.vec
    upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec upsample_trilinear3d.vec
""".split()
"""Operators that are not decomposed: tfaot-pkg has layers for them, or they would become hundreds of others."""
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


class _Program:
    """The program of torch.export as the document of an .aten file, and its arrays."""

    def __init__(self, torch: Any, program: Any, names: list[str], axes: list[Axes], limits: Limits) -> None:
        self.torch, self._program, self._limits = torch, _decomposed(torch, program), limits
        self._names, self._axes = names, axes
        self._symbols: dict[str, str] = {}  # PyTorch's names -> ours
        self._arrays: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        self.tensors: list[Any] = []
        self.answers: set[int] = set()
        """The arrays of the document, and the numbers of those that are answers."""

    @property
    def nodes(self) -> list[Any]:
        return [node for node in self._program.graph.nodes if node.op == "call_function"]

    def document(self, outputs: list[str], answers: Mapping[str, Any]) -> dict[str, Any]:
        """The document without `classes`; `answer` adds to its arrays."""
        program = self._program
        placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        specs = program.graph_signature.input_specs
        taken = [spec.arg.name for spec in specs if spec.kind.name == "USER_INPUT"]
        inputs = [self._input(name, axes, placeholders[value]) for value, name, axes in self._given(taken)]
        weights = {spec.arg.name: self._array(self._weight(spec)) for spec in specs if spec.kind.name != "USER_INPUT"}
        results = [s.arg.name for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"
                   and s.arg.name is not None and type(s.arg).__name__ == "TensorArgument"]  # fmt: skip
        if len(results) != len(outputs):
            raise ExportError("the model returns an output in one way and not in another: wrap it")
        return {
            "format": 1,
            "framework": "PyTorch",
            "version": self.torch.__version__,
            "inputs": inputs,
            "outputs": [{"name": name, "value": value} for name, value in zip(outputs, results, strict=True)],
            "weights": weights,
            "nodes": [self._node(node) for node in self.nodes],
            "answers": {name: self.answer(tensor) for name, tensor in answers.items()},
            "symbols": self._ranges(),
            "guards": self._guards(),
            "arrays": self._arrays,
        }

    def answer(self, tensor: Any) -> int:
        """The number of an array that is an answer, or an input for one."""
        number = self._array(tensor)
        self.answers.add(number)
        return number

    def _given(self, taken: list[str]) -> Iterator[tuple[str, str, Axes]]:
        if len(taken) != len(self._names):
            raise ExportError(f"the program takes {len(taken)} tensors, and there are {len(self._names)} inputs")
        return zip(taken, self._names, self._axes, strict=True)

    def _input(self, name: str, axes: Axes, node: Any) -> dict[str, Any]:
        found: list[int | str] = []
        for place, (axis, size) in enumerate(zip(axes, node.meta["val"].shape, strict=True)):
            text = str(size)
            if text.isdigit():
                if isinstance(axis, str):
                    raise ExportError(
                        f"axis {place} of the input {name} cannot vary in this model: give its size instead of {axis!r}"
                    )
                found.append(int(text))
                continue
            if not _PLAIN_NAME.fullmatch(text):
                raise ExportError(f"axis {place} of the input {name} must be {text}: give its size")
            ours = axis if isinstance(axis, str) else "batch" if not place else f"n{len(self._symbols)}"
            found.append(self._symbols.setdefault(text, ours))
        return {"name": name, "value": node.name, "dtype": _dtype_name(node.meta["val"].dtype), "axes": found}

    def _weight(self, spec: Any) -> Any:
        program = self._program
        if spec.kind.name == "CONSTANT_TENSOR" or spec.target in program.constants:
            return program.constants[spec.target]
        if spec.target not in program.state_dict:
            raise ExportError(f"the model has {spec.kind.name.lower()} {spec.target}, which is no tensor")
        return program.state_dict[spec.target]

    def _array(self, tensor: Any) -> int:
        own = tensor.detach().cpu()
        # Of weights that several modules share, one copy.
        key = tensor.data_ptr() if own.is_contiguous() and own.numel() else -1 - len(self._arrays)
        place = self._places.get(key)
        same = None if place is None else self._arrays[place]
        wanted = {"dtype": _dtype_name(own.dtype), "shape": list(own.shape)}
        if same is None or place is None or any(same[name] != value for name, value in wanted.items()):
            place = len(self._arrays)
            # Kept here, so that no other tensor gets its address.
            self.tensors.append(own.contiguous())
            digest = hashlib.sha256(_bytes(self.torch, self.tensors[-1])).hexdigest()
            self._arrays.append({**wanted, "sha256": digest})
            self._places[key] = place
        return place

    def _node(self, node: Any) -> dict[str, Any]:
        found = node.meta.get("val")
        tensors = found if isinstance(found, list | tuple) else [found]
        is_tensor = [self.torch.is_tensor(each) for each in tensors]
        return {
            "name": node.name,
            "op": _operator_name(node.target),
            "arguments": {name: self._argument(value) for name, value in _arguments_of(node).items()},
            "results": [self._type(each) if ok else None for each, ok in zip(tensors, is_tensor, strict=True)],
            "module": _module_of(node),
            "line": _line_of(node),
        }

    def _type(self, tensor: Any) -> dict[str, Any]:
        return {"dtype": _dtype_name(tensor.dtype), "shape": [self.size(each) for each in tensor.shape]}

    def size(self, size: Any) -> Any:
        """A size in the document's form."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        symbols = sorted(expression.free_symbols, key=str)
        polynomial = expression.as_poly(*symbols) if symbols else None
        # None is no polynomial: a quotient, or a number that values decide.
        if polynomial is None or not all(str(symbol) in self._symbols for symbol in symbols):
            return None
        terms = polynomial.terms()
        named = [self._symbols[str(symbol)] for symbol in symbols]
        found = [
            [int(coefficient), [name for name, many in zip(named, powers, strict=True) for _ in range(many)]]
            for powers, coefficient in terms
        ]
        return found if all(whole == exact for (whole, _), (_, exact) in zip(found, terms, strict=True)) else None

    def _argument(self, value: Any) -> Any:
        torch = self.torch
        if isinstance(value, torch.fx.Node):
            return {"value": value.name}
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if abs(value) < float("inf") else {"number": str(value)}
        if isinstance(value, list | tuple):
            return [self._argument(each) for each in value]
        if isinstance(value, torch.dtype):
            return {"dtype": _dtype_name(value)}
        if isinstance(value, torch.device | torch.layout | torch.memory_format):
            return None  # where and how elements are stored says nothing of their values
        return {"other": str(value)[:100]}

    def _ranges(self) -> dict[str, list[int | None]]:
        found: dict[str, list[int | None]] = {}
        for symbol, bounds in self._program.range_constraints.items():
            if name := self._symbols.get(str(symbol)):
                lower, upper = (int(str(end)) if str(end).isdigit() else None for end in (bounds.lower, bounds.upper))
                # Examples have two rows at least; one is as good, if the author does not say more.
                least = 1 if lower is None or (lower <= 2 and self._limits.get(name, (1, None))[0] <= 1) else lower
                found[name] = [least, None if upper is not None and upper >= 1 << 31 else upper]
        return {**found, **{name: [*ends] for name, ends in self._limits.items() if name in found}}

    def _guards(self) -> list[str]:
        node = next((n.meta["val"].shape for n in self._program.graph.nodes if n.op == "placeholder"
                     and self.torch.is_tensor(n.meta.get("val"))), ())  # fmt: skip
        environment = next((size.node.shape_env for size in node if not isinstance(size, int)), None)
        said = [str(guard.expr) for guard in environment.guards] if environment is not None else []
        named = {re.sub(r"[A-Za-z_]\w*", lambda found: self._symbols.get(found[0], found[0]), each) for each in said}
        return sorted(named)


def _decomposed(torch: Any, program: Any) -> Any:
    if not hasattr(torch.export, "default_decompositions"):
        raise ExportError(f"this is PyTorch {torch.__version__}: .aten files need 2.6 or newer; write an .onnx file")
    table = torch.export.default_decompositions()
    for name in _WHOLE:
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if operator is not None:
            table.pop(operator, None)
    try:
        return program.run_decompositions(table)
    except Exception as error:
        raise ExportError(f"PyTorch cannot write the model in its core operators: {error}") from error


def _operator_name(target: Any) -> str:
    """A name such as "aten.add.Tensor", or "operator.mul" of a function on sizes."""
    if hasattr(target, "_schema"):
        return str(target)
    return f"{getattr(target, '__module__', '').lstrip('_')}.{getattr(target, '__name__', target)}"


def _arguments_of(node: Any) -> dict[str, Any]:
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


def _module_of(node: Any) -> str:
    """The module around a node by its name in the model; "" if it is the model itself, or unknown."""
    stack = node.meta.get("nn_module_stack") or {}
    last = list(stack.values())[-1] if stack else ("", "")
    return str(last[0]).removeprefix("L['self'].").removeprefix("L['self']")


def _line_of(node: Any) -> str:
    """The line of code that a node is from, without the folders of the author."""
    found = re.findall(r'File "([^"]*)", line (\d+), in \S+\n\s*(.*)', node.meta.get("stack_trace") or "")
    own = [each for each in found if f"{os.sep}torch{os.sep}nn{os.sep}" not in each[0]] or found
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}: {own[-1][2]}"[:200] if own else ""


def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _bytes(torch: Any, tensor: Any) -> bytes:
    """Its elements in order, little-endian as PyTorch's machines are."""
    return bytes(tensor.reshape(-1).view(torch.uint8).numpy().data) if tensor.numel() else b""


def _write_archive(path: Path, document: Mapping[str, Any], arrays: list[Any], answers: set[int]) -> None:
    import torch

    with zipfile.ZipFile(path, "w") as archive:
        # The same bytes from the same model: members have no date.
        archive.writestr(zipfile.ZipInfo("program.json"), json.dumps(document, allow_nan=False))
        for place, tensor in enumerate(arrays):
            kind = zipfile.ZIP_DEFLATED if place in answers else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(f"arrays/{place}"), _bytes(torch, tensor), kind)


# -- answers to classes of inputs ----------------------------------------------------------------------------------

_FLOATS = ("scaled", "large", "huge", "subnormal", "boundary", "nonfinite")
_INTEGERS, _NEGATIVE, _MAIN = "integers", "integers negative", "main"
_ROWS_OF_MAIN, _ROWS_OF_CLASS, _MOST_BYTES = 64, 8, 4 << 20
"""Rows of the classes, and the most bytes of the inputs of one, or of its outputs."""
_OPEN = 128
"""The largest size of axes without a limit: `tfaot-pkg init` proposes the same."""
_TRIES, _SHIFT = 9, 2
"""Runs on inputs that are off by at most so many units in the last place."""
_KNOWN_TYPES = frozenset("bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float32 float64".split())
_MOVING = frozenset(
    "_to_copy alias clone contiguous detach expand flatten getitem lift_fresh_copy permute repeat reshape select slice "
    "split split_with_sizes squeeze t to transpose unbind unsqueeze unsafe_view _unsafe_view view view_copy".split()
)
"""Operators whose results have no other elements than their operand."""
_INDEXED = {
    "embedding": ("weight", "indices"), "embedding_bag": ("weight", "indices"), "gather": ("self", "index"),
    "index_add": ("self", "index"), "index_copy": ("self", "index"), "index_fill": ("self", "index"),
    "index_select": ("self", "index"), "scatter": ("self", "index"), "scatter_add": ("self", "index"),
    "scatter_reduce": ("self", "index"),
}  # fmt: skip
"""The operands of operators by their schemas: what is indexed, and by what; along `dim`, or the first axis."""


class _Answerer:
    """Draws classes of inputs, by the rules of tfaot_pkg/verify/inputs.py, and runs the module itself on them."""

    def __init__(
        self,
        program: _Program,
        document: Mapping[str, Any],
        model: Any,
        ranges: Mapping[str, Any],
        batches: Sequence[int],
    ) -> None:
        import numpy as np

        self._np, self._torch, self._program, self._model = np, program.torch, program, model
        self._inputs, self._outputs = document["inputs"], [each["name"] for each in document["outputs"]]
        types = {node["name"]: node["results"] for node in document["nodes"]}
        self._types = {each["name"]: next(iter(types.get(each["value"], [])), None) for each in document["outputs"]}
        self._batches = sorted(set(batches))
        ends = dict(document["symbols"])
        self._unit: int = max(1, ends.pop("batch", (1, None))[0])
        self._most = document["symbols"].get("batch", (1, None))[1]
        self._largest = {name: most or max(_OPEN, 2 * least) for name, (least, most) in ends.items()}
        self._least = {name: max(least, 1) for name, (least, _) in ends.items()}
        self._found = {name: (0, size) for name, size in _index_sizes(program, document).items()}
        self._stated = {name: self._checked(name, pair) for name, pair in ranges.items()}
        self._double = self._in_float64()
        self._way, self._fault = "", ""
        self._examples: dict[str, Any] = {}

    def classes(self, examples: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The entries of the document; none of models with types, or places of the batch, that packages do not have."""
        if not all(each["dtype"] in _KNOWN_TYPES and "batch" not in each["axes"][1:] for each in self._inputs):
            return []
        self._examples = {name: tensor.numpy() for name, tensor in examples.items()}
        for self._way in ("usual", "positive", "rows"):
            if self._tells(self._drawn(_MAIN, self._largest, self._unit)):
                break
        else:
            raise ExportError(
                f"the model gives no answers to inputs of the sizes {self._largest}{self._fault}: state which numbers "
                'its inputs take, ranges={"ids": (0, 999)}, or limit its sizes, dynamic=["n<=32"]'
            )
        middle = {name: (least + self._largest[name]) // 2 for name, least in self._least.items()}
        next_ = {name: least + 1 for name, least in self._least.items()}
        names = self._names()
        sized = [self._least, next_, middle] if self._least else []
        wanted = [(_MAIN, self._largest), *((name, self._largest) for name in names)]
        wanted += [(_MAIN, each) for each in sized] + [(name, middle) for name in names if sized]
        unique = {(name, *sizes.items()): (name, sizes) for name, sizes in wanted}
        # A range of one size has no next one.
        fits = [each for each in unique.values() if all(size <= self._largest[n] for n, size in each[1].items())]
        entries = [self._entry(name, sizes) for name, sizes in fits]
        return [*entries, self._answered("examples", self._sizes_of_examples(), self._examples)]

    def _sizes_of_examples(self) -> dict[str, int]:
        axes = {
            axis: size
            for each in self._inputs
            for axis, size in zip(each["axes"], self._examples[each["name"]].shape, strict=True)
        }
        return {name: axes[name] for name in self._largest}

    def _names(self) -> list[str]:
        kinds = {each["dtype"].startswith("float") for each in self._inputs if each["dtype"] != "bool"}
        names = [*(_FLOATS if True in kinds else ()), *([_INTEGERS] if False in kinds else [])]
        indices = any(each["name"] in self._found and each["dtype"].startswith("int") for each in self._inputs)
        return [*names, *([_NEGATIVE] if indices else [])]

    # -- numbers --------------------------------------------------------------------------------------------------

    def _checked(self, name: str, pair: Any) -> tuple[Any, Any]:
        known = [each["name"] for each in self._inputs]
        if name not in known:
            raise ExportError(f"there is no input {name!r}; there are: {', '.join(known)}")
        for end in pair:
            match = re.fullmatch(r"([A-Za-z_]\w*)\s*(?:[+-]\s*\d+)?", end) if isinstance(end, str) else None
            is_known = match is not None and match[1] in self._largest if isinstance(end, str) else math.isfinite(end)
            if not is_known:
                raise ExportError(f"the range of {name}: {end!r} is neither a number nor a size such as n-1")
        low, high = pair
        return low, high

    def _ends(self, name: str, sizes: Mapping[str, int]) -> tuple[float, float] | None:
        if name in self._stated:
            low, high = (_end(each, sizes) for each in self._stated[name])
            return low, max(low, high)
        if name not in self._found:
            return None
        many = _size({"batch": 1, **sizes}, self._found[name][1])
        return 0, max(0, (many or 1) - 1)

    def _drawn(self, name: str, sizes: Mapping[str, int], rows: int) -> dict[str, Any]:
        return {each["name"]: self._draw(name, each, sizes, rows) for each in self._inputs}

    def _draw(self, name: str, given: Mapping[str, Any], sizes: Mapping[str, int], rows: int) -> Any:
        np = self._np
        generator = np.random.default_rng([0, *f"{name} {given['name']}".encode()])
        shape = [rows if axis == "batch" else sizes.get(axis, axis) for axis in given["axes"]]
        dtype, ends = np.dtype(given["dtype"]), self._ends(given["name"], sizes)
        if dtype.kind == "b":
            return self._like_examples(given, shape) if self._way == "rows" else generator.integers(0, 2, shape) > 0
        if dtype.kind == "f":
            return self._floats(name, given, generator, shape, ends)
        usual = self._whole(given, generator, shape, ends)
        if name == _NEGATIVE and ends is not None and given["name"] in self._found and dtype.kind == "i":
            return generator.integers(-int(ends[1]) - 1, int(ends[1]) + 1, shape).astype(dtype)
        if name != _INTEGERS:
            return usual
        limits = np.iinfo(dtype)
        numbers = (limits.min, limits.min + 1, -1, 0, 1, 2, 7, 100, limits.max - 1, limits.max)
        special = generator.choice(np.array([n for n in numbers if limits.min <= n <= limits.max], dtype), shape)
        if ends is not None:
            special = np.where(generator.random(shape) < 0.5, _beyond(np, generator, ends, dtype, shape), special)
        if given["axes"][:1] != ["batch"]:
            return np.where(generator.random(shape) < 0.4, special, usual)
        # Every second row has usual numbers.
        even = (np.arange(rows) % 2 == 0).reshape(-1, *[1] * (len(shape) - 1))
        return np.where(even, usual, special)

    def _floats(self, name: str, given: Mapping[str, Any], generator: Any, shape: list[int], ends: Any) -> Any:
        np, dtype = self._np, self._np.dtype(given["dtype"])
        if self._way == "rows" and name == _MAIN:
            return self._like_examples(given, shape)
        if given["name"] in self._stated:
            if name in (_MAIN, _INTEGERS, _NEGATIVE):
                return generator.uniform(*ends, shape).astype(dtype)
        elif ends is not None:  # floats that become indices
            return generator.integers(int(ends[0]), int(ends[1]) + 1, shape).astype(dtype)
        found = floats_of(name, generator, shape, dtype)
        return np.abs(found) if self._way == "positive" else found

    def _whole(self, given: Mapping[str, Any], generator: Any, shape: list[int], ends: Any) -> Any:
        dtype = self._np.dtype(given["dtype"])
        if self._way == "rows" and given["name"] not in self._stated:
            return self._like_examples(given, shape)
        if ends is not None:
            limits = self._np.iinfo(dtype)
            low, high = max(int(ends[0]), limits.min), min(int(ends[1]), limits.max)
            return generator.integers(low, high, shape, dtype=dtype, endpoint=True)
        known = self._examples[given["name"]]
        return generator.choice(known.ravel(), shape) if known.size else generator.integers(0, 2, shape).astype(dtype)

    def _like_examples(self, given: Mapping[str, Any], shape: list[int]) -> Any:
        """The example, cut or again and again along each axis."""
        np, found = self._np, self._examples[given["name"]]
        if not all(found.shape):
            return np.zeros(shape, found.dtype)
        for axis, size in enumerate(shape):
            found = np.take(found, np.arange(size) % found.shape[axis], axis)
        return found

    # -- answers --------------------------------------------------------------------------------------------------

    def _entry(self, name: str, sizes: Mapping[str, int]) -> dict[str, Any]:
        rows = self._rows(_ROWS_OF_MAIN if name == _MAIN and sizes == self._largest else _ROWS_OF_CLASS, sizes)
        return self._answered(name, sizes, self._drawn(name, sizes, rows))

    def _answered(self, name: str, sizes: Mapping[str, int], inputs: Mapping[str, Any]) -> dict[str, Any]:
        rows = min((len(value) for key, value in inputs.items() if self._is_batched(key)), default=1)
        unit = min(self._unit, rows)
        ran, alone = self._batched(inputs, unit)
        self._require_axes(alone, unit, sizes)
        runs = [self._stored(unit, ran, alone, {})]
        kept = self._np.repeat(ran, unit)
        # What roundings change is seen in whole batches: rows that the model rejects have others in their place.
        order = self._np.where(kept, self._np.arange(rows), self._np.argmax(kept))
        safe = {key: value[order] if self._is_batched(key) else value for key, value in inputs.items()}
        for size in dict.fromkeys((rows, *(each for each in self._batches if each <= rows))):
            if size == unit:
                if ran.any():
                    runs[0] = self._stored(unit, ran, alone, self._beside(safe, size))
                continue
            if self._most is not None and size > self._most:
                continue
            whole, answers = self._batched(inputs, size)
            beside = self._beside(safe, size) if kept.any() else {}
            runs.append(self._stored(size, whole, answers, beside))
        numbers = {key: self._keep(value) for key, value in inputs.items()}
        return {"name": name, "sizes": dict(sizes), "inputs": numbers, "runs": runs}

    def _rows(self, wanted: int, sizes: Mapping[str, int]) -> int:
        """How many rows a class has: as many as are wanted, or fewer of a large model; whole batches."""
        if not any(each["axes"][:1] == ["batch"] for each in self._inputs):
            return 1
        one = self._drawn(_MAIN, sizes, self._unit)
        answers = self._answers(self._model, one) or []
        largest: float = max(sum(each.nbytes for each in arrays) for arrays in (one.values(), answers)) / self._unit
        wanted = max([wanted, *self._batches]) if self._batches else min(wanted, int(_MOST_BYTES / max(largest, 1)))
        return max(1, -(-wanted // self._unit)) * self._unit

    def _is_batched(self, name: str) -> bool:
        return any(each["name"] == name and each["axes"][:1] == ["batch"] for each in self._inputs)

    def _batched(self, inputs: Mapping[str, Any], size: int) -> tuple[Any, list[Any]]:
        """Which batches of `size` rows ran, and the outputs of all of them, one after the other along a first axis."""
        np = self._np
        counts = [len(value) for name, value in inputs.items() if self._is_batched(name)]
        batches: list[list[Any] | None] = []
        for start in range(0, min(counts, default=size) - size + 1, size):
            cut = {n: v[start : start + size] if self._is_batched(n) else v for n, v in inputs.items()}
            batches.append(self._answers(self._model, cut))
        first = next((each for each in batches if each is not None), None)
        if first is None:
            return np.zeros(len(batches), bool), []
        ran = [
            each is not None and all(a.shape == b.shape for a, b in zip(each, first, strict=True)) for each in batches
        ]
        nothing = [np.zeros_like(each) for each in first]
        columns = zip(*(each if ok and each else nothing for each, ok in zip(batches, ran, strict=True)), strict=True)
        return np.array(ran), [np.stack(each) for each in columns]

    def _answers(self, model: Any, feeds: Mapping[str, Any]) -> list[Any] | None:
        """The outputs; None if the model rejects `feeds`."""
        tensors = [self._torch.from_numpy(self._np.array(value, order="C")) for value in feeds.values()]
        try:
            found = _named_outputs(self._torch, model(*tensors), self._outputs)
        except ExportError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever a module raises for numbers that it does not take
            self._fault = f" ({' '.join(str(error).split())[:200]})"
            return None
        return [each.detach().cpu().contiguous().numpy() for each in found.values()]

    def _tells(self, inputs: Mapping[str, Any]) -> bool:
        """Whether the answers to `inputs` have finite numbers."""
        np, found = self._np, self._answers(self._model, inputs)
        floats = [each for each in found or [] if each.dtype.kind == "f" and each.size]
        return found is not None and all(np.isfinite(each).any() for each in floats)

    def _beside(self, inputs: Mapping[str, Any], size: int) -> dict[str, Any]:
        """What the model gives if inputs are off by some roundings, and in float64."""
        np, generator = self._np, self._np.random.default_rng(0)
        ran, answers = self._batched(inputs, size)
        if not ran.any():
            return {}
        low, high = ([each.astype(np.float64) for each in answers] for _ in range(2))
        spread = [np.zeros(each.shape) for each in answers]
        missing = [np.isnan(each) for each in low]
        floats = any(value.dtype.kind == "f" for value in inputs.values())
        nudged = (
            {name: _nudged(np, generator, v) for name, v in inputs.items()} for _ in range(_TRIES if floats else 0)
        )
        tries = [functools.partial(self._batched, each, size) for each in nudged]
        ordered = [functools.partial(self._in_order, inputs, size, first=first) for first in (True, False)]
        for attempt in (*tries, *ordered):
            moved, others = attempt()
            for place, other in enumerate(others):
                if not moved.all() or other.shape != answers[place].shape:
                    break
                numbers = other.astype(np.float64)
                missing[place] |= np.isnan(numbers)
                np.fmin(low[place], numbers, out=low[place])
                np.fmax(high[place], numbers, out=high[place])
                np.maximum(spread[place], _distance(np, answers[place], other), out=spread[place])
        found: dict[str, Any] = {}
        for place, name in enumerate(self._outputs):
            dtype = answers[place].dtype
            found |= {f"low/{name}": low[place].astype(dtype), f"high/{name}": high[place].astype(dtype)}
            found |= {f"spread/{name}": spread[place].astype(np.float32), f"missing/{name}": missing[place]}
        return found | self._exact(inputs, size, answers)

    def _in_order(self, inputs: Mapping[str, Any], size: int, *, first: bool) -> tuple[Any, list[Any]]:
        """As `_batched`, with the `first` or the last of equal elements first in a `topk` or a sort that is not stable.

        PyTorch documents no order of them, and packages have one of these.
        """
        from torch.utils._python_dispatch import TorchDispatchMode

        aten = self._torch.ops.aten
        operators = (aten.topk.default, aten.sort.default, aten.sort.stable)

        class Ordered(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not there when types are checked
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                schema = func._schema.arguments  # noqa: SLF001  # PyTorch has no public way
                found: dict[str, Any] = {**dict(zip((a.name for a in schema), args, strict=False)), **(kwargs or {})}
                x: Any = found.get("self")
                if func not in operators or found.get("stable") or not x.ndim:
                    return func(*args, **(kwargs or {}))
                axis, is_topk = found.get("dim", -1), func is aten.topk.default
                descending = found.get("largest", True) if is_topk else found.get("descending", False)
                given = x if first else x.flip(axis)
                values, places = aten.sort.stable(given, stable=True, dim=axis, descending=descending)
                if is_topk:
                    values, places = (each.narrow(axis, 0, found["k"]) for each in (values, places))
                return values, places if first else x.shape[axis] - 1 - places

        with Ordered():
            return self._batched(inputs, size)

    def _exact(self, inputs: Mapping[str, Any], size: int, answers: list[Any]) -> dict[str, Any]:
        """The answers in float64, if the model works with it."""
        if self._double is None:
            return {}
        np, usual, default = self._np, self._model, self._torch.get_default_dtype()
        doubled = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in inputs.items()}
        self._torch.set_default_dtype(self._torch.float64)
        try:
            self._model = self._double
            ran, found = self._batched(doubled, size)
        finally:
            self._model = usual
            self._torch.set_default_dtype(default)
        if not ran.all() or [each.shape for each in found] != [each.shape for each in answers]:
            return {}
        return {
            f"exact/{name}": exact.astype(np.float64)
            for name, exact, own in zip(self._outputs, found, answers, strict=True)
            if own.dtype.kind == "f"
        }

    def _in_float64(self) -> Any:
        try:
            return copy.deepcopy(self._model).double()
        except Exception:  # noqa: BLE001  # a module that cannot be copied, or a function
            return None

    def _require_axes(self, answers: list[Any], size: int, sizes: Mapping[str, int]) -> None:
        """Raise ExportError if outputs have other axes in batches of `size` rows: `squeeze()` drops the batch, too."""
        for name, array in zip(self._outputs, answers, strict=False):
            kind = self._types[name]
            wanted = (
                array.shape[1:]
                if kind is None
                else tuple(map(functools.partial(_size, {**sizes, "batch": size}), kind["shape"]))
            )
            fits = len(wanted) == array.ndim - 1 and all(
                a in (None, b) for a, b in zip(wanted, array.shape[1:], strict=True)
            )
            if not fits:
                raise ExportError(
                    f"the output {name} has the shape {list(array.shape[1:])} for {size} rows, and {list(wanted)} as "
                    "others have it: name the axis that squeeze() drops, or give a least batch, dynamic=['2<=batch']"
                )

    def _stored(self, rows: int, ran: Any, answers: list[Any], beside: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "rows": rows,
            "ran": self._keep(ran),
            "outputs": {name: self._keep(each) for name, each in zip(self._outputs, answers, strict=False)},
            "beside": {name: self._keep(each) for name, each in beside.items()},
        }

    def _keep(self, array: Any) -> int:
        return self._program.answer(self._torch.from_numpy(self._np.array(array, order="C")))


def floats_of(name: str, generator: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Floats of a class, as tfaot_pkg/verify/inputs.py draws them (a test compares both)."""
    import numpy as np

    limits = np.finfo(dtype)
    normal = generator.standard_normal(shape)
    with np.errstate(all="ignore"):
        if name == "scaled":
            values = 1000.0 * normal
        elif name in ("large", "huge"):
            magnitudes = (1e4, 1e6, 1e8) if name == "large" else (1e15, 1e20, 1e30)
            size = generator.choice(magnitudes, [*shape[:1], *[1] * (len(shape) - 1)])
            values = np.copysign(size * generator.uniform(0.5, 1, shape), normal)
        elif name == "subnormal":
            values = normal * float(limits.smallest_normal) * 1e-2
        elif name == "boundary":
            most, least = float(limits.max), float(limits.smallest_normal)
            values = generator.choice([0.0, -0.0, 1.0, -1.0, most, -most, least, -least], shape)
        elif name == "nonfinite":
            special = generator.choice([np.nan, np.inf, -np.inf], shape)
            values = np.where(generator.random(shape) < 0.4, special, normal)
        else:
            values = normal
        return np.asarray(values).astype(dtype)


def _beyond(np: Any, generator: Any, ends: tuple[float, float], dtype: Any, shape: Sequence[int]) -> Any:
    """Integers just out of range."""
    size, limits = int(ends[1]) + 1, np.iinfo(dtype)
    near = [int(ends[0]) - 1, -size, -size - 1, size, size + 1]
    return generator.choice(np.clip(near, max(limits.min, -(1 << 53)), min(limits.max, 1 << 53)), shape).astype(dtype)


def _nudged(np: Any, generator: Any, values: Any) -> Any:
    if values.dtype.kind != "f":
        return values
    off = generator.uniform(-_SHIFT, _SHIFT, values.shape) * np.finfo(values.dtype).eps
    with np.errstate(all="ignore"):
        return values + values * off.astype(values.dtype)


def _distance(np: Any, first: Any, second: Any) -> Any:
    """|first - second|; infinite between a number and NaN, and between integers that differ."""
    if first.dtype.kind != "f":
        return np.where(first == second, 0.0, np.inf)
    with np.errstate(all="ignore"):
        distance = np.abs(first.astype(np.float64) - second.astype(np.float64))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _end(value: Any, sizes: Mapping[str, int]) -> float:
    """A number, or a size and what is added to it, as `_Answerer` has checked."""
    if not isinstance(value, str):
        return float(value)
    name, sign, more = re.fullmatch(r"(\w+)\s*(?:([+-])\s*(\d+))?", value).groups()  # type: ignore[union-attr]
    return sizes[str(name)] + int(f"{sign}{more}" if sign else 0)


def _size(sizes: Mapping[str, int], size: Any) -> int | None:
    """A size of the document's form; None if it is not known."""
    if size is None or isinstance(size, int):
        return size
    return sum(int(coefficient) * math.prod(sizes[name] for name in names) for coefficient, names in size)


def _index_sizes(program: _Program, document: Mapping[str, Any]) -> dict[str, Any]:
    """For each input that is an index as it is, how many elements it may name: the least size that it indexes."""
    known = {each["value"]: each["name"] for each in document["inputs"]}
    sizes: dict[str, list[Any]] = {}

    def add(index: Any, indexed: Any, axis: Any) -> None:
        shape = getattr(getattr(indexed, "meta", {}).get("val"), "shape", ())
        if getattr(index, "name", None) in known and isinstance(axis, int) and -len(shape) <= axis < len(shape):
            sizes.setdefault(known[index.name], []).append(program.size(shape[axis]))

    for node in program.nodes:
        name = _operator_name(node.target).split(".")[1] if "." in _operator_name(node.target) else ""
        arguments = _arguments_of(node)
        first = next(iter(arguments.values()), None)
        if name in _MOVING and getattr(first, "name", None) in known:
            known[node.name] = known[str(getattr(first, "name", None))]
        elif name in _INDEXED:
            what, by = _INDEXED[name]
            add(arguments.get(by), arguments.get(what), arguments.get("dim", 0) if what == "self" else 0)
        elif name in ("index", "index_put", "_unsafe_index"):
            for axis, index in enumerate(arguments.get("indices") or ()):
                add(index, arguments.get("self"), axis)
    numbers = {name: [each for each in found if isinstance(each, int)] for name, found in sizes.items()}
    return {
        name: min(numbers[name]) if numbers[name] else found[0] for name, found in sizes.items() if None not in found
    }


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
        axes, dtype = _parsed(name, axes_text), getattr(torch, dtype_name or "float32", None)
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
    torch = _torch()
    given = dict(each.partition("=")[::2] for each in arguments.input)
    model = _loaded(torch, arguments.model)
    limits = _limits(arguments.dynamic)
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


if __name__ == "__main__":
    if Path(__file__).with_name("__init__.py").exists() and sys.path[0] == str(Path(__file__).parent):
        del sys.path[0]  # run by its path: modules beside it are not the standard library's
    sys.exit(main())
