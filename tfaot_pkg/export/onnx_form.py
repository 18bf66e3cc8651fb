"""Models as ONNX, with metadata for tfaot-pkg."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .axes import Axes, batch_of
from .errors import ExportError, said
from .files import replacing
from .graph_digest import digest_of

ABOUT, ANSWERS = "tfaot.about", "tfaot.answers"


MEMBER = "tfaot/model.onnx"  # in a .pt2 file, below the archive's own folder


_LARGEST = (1 << 31) - 1  # bytes of a protobuf message


def add_metadata(torch: Any, proto: Any, symbols: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    about = {"framework": "PyTorch", "version": torch.__version__, "symbols": symbols, "graph": digest_of(proto)}
    for key, text in ((ABOUT, json.dumps(about)), (ANSWERS, _npz(torch, answers))):
        proto.metadata_props.add(key=key, value=text)
    if proto.ByteSize() > _LARGEST:
        raise ExportError("the model has more than 2 GB: export it as an .aten file")


def converted(torch: Any, program: Any, names: list[str], outputs: list[str]) -> Any:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # of packages that are not installed
    try:
        made = torch.onnx.export(program, dynamo=True, verbose=False, input_names=names, output_names=outputs)
        return made.model_proto
    except Exception as error:
        # The translations of operators are code of two packages, which raise whatever they like.
        raise ExportError(f"PyTorch cannot write the model as ONNX: {said(error)}") from error


def traced(torch: Any, model: Any, names: list[str], examples: list[Any], axes: list[Axes], outputs: list[str]) -> Any:
    import onnx

    varying = {name: {place: axis for place, axis in enumerate(each) if isinstance(axis, str)}
               for name, each in zip(names, axes, strict=True)}  # fmt: skip
    batch = batch_of(axes)
    if batch is not None:
        varying |= {name: {0: batch} for name in outputs}
    file = io.BytesIO()
    try:
        torch.onnx.export(
            model, tuple(examples), file, dynamo=False, input_names=names, output_names=outputs, dynamic_axes=varying
        )
    except Exception as error:
        # It runs the author's code, and translations of operators; both raise whatever they like.
        raise ExportError(f"PyTorch cannot write the model as ONNX: {said(error)}") from error
    return onnx.load_from_string(file.getvalue())


def name_axes(proto: Any, names: list[str], axes: list[Axes], program: Any) -> dict[str, tuple[int, int | None]]:
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


def tidy(proto: Any) -> None:
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


def write(torch: Any, target: Path, model: bytes, program: Any) -> None:
    with replacing(target) as made:
        if target.suffix.lower() == ".onnx":
            made.write_bytes(model)
        else:
            torch.export.save(program, made)
            with zipfile.ZipFile(made, "a") as archive:
                top = archive.namelist()[0].partition("/")[0]
                archive.writestr(f"{top}/{MEMBER}", model)
