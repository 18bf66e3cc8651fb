"""A digest of what an ONNX graph computes, by which a reader knows that a file is still the one that was exported.

It is SHA-256 of JSON: operators, the names of the values that they read and make, attributes, and SHA-256 of the
elements of each constant. Names of nodes, shapes, documentation, metadata and versions of formats are left out, and so
is where elements are stored: a file may be saved again, with its weights beside it, by any release of the ONNX package.
tfaot_pkg/export/graph_digest.py computes the same: neither folder imports anything of the other.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np


def digest_of(model: Any) -> str:
    """The digest of an ONNX model whose tensors are loaded, also those of other files."""
    functions = [
        [each.domain, each.name, [*each.input], [*each.output], [*each.attribute], _nodes(each.node)]
        for each in model.functions
    ]
    opsets = sorted([each.domain, each.version] for each in model.opset_import)
    return _sha256(json.dumps([opsets, _graph(model.graph), functions], separators=(",", ":")).encode())


def _graph(graph: Any) -> list[Any]:
    ends = [[each.name for each in values] for values in (graph.input, graph.output)]
    return [*ends, [[each.name, *_tensor(each)] for each in graph.initializer], _nodes(graph.node)]


def _nodes(nodes: Any) -> list[Any]:
    return [
        [each.domain, each.op_type, [*each.input], [*each.output], sorted(_attribute(one) for one in each.attribute)]
        for each in nodes
    ]


def _attribute(attribute: Any) -> list[Any]:
    """A name, and a value as text: lists of attributes are sorted."""
    value: Any
    kind = attribute.type  # its values are names of the message
    if attribute.ref_attr_name:
        value = ["of the function", attribute.ref_attr_name]
    elif kind == attribute.INT:
        value = attribute.i
    elif kind == attribute.FLOAT:
        value = attribute.f.hex()
    elif kind == attribute.STRING:
        value = attribute.s.hex()
    elif kind == attribute.TENSOR:
        value = _tensor(attribute.t)
    elif kind == attribute.GRAPH:
        value = _graph(attribute.g)
    elif kind == attribute.INTS:
        value = [*attribute.ints]
    elif kind == attribute.FLOATS:
        value = [each.hex() for each in attribute.floats]
    elif kind == attribute.STRINGS:
        value = [each.hex() for each in attribute.strings]
    else:  # sparse tensors, types, several graphs: rare
        value = _sha256(attribute.SerializeToString(deterministic=True))
    return [attribute.name, int(kind), json.dumps(value, separators=(",", ":"))]


def _tensor(tensor: Any) -> list[Any]:
    return [int(tensor.data_type), [*tensor.dims], _sha256(_elements(tensor))]


def _elements(tensor: Any) -> bytes:
    """Little-endian, as in files of their own."""
    if tensor.HasField("raw_data"):
        return bytes(tensor.raw_data)
    if tensor.string_data:
        return json.dumps([each.hex() for each in tensor.string_data]).encode()
    short = dict.fromkeys((tensor.INT16, tensor.UINT16, tensor.FLOAT16, tensor.BFLOAT16), "<u2")
    fields = (
        (tensor.float_data, "<f4"),
        (tensor.double_data, "<f8"),
        (tensor.int64_data, "<i8"),
        (tensor.uint64_data, "<u4" if tensor.data_type == tensor.UINT32 else "<u8"),
        (tensor.int32_data, {**short, tensor.INT32: "<i4"}.get(tensor.data_type, "<u1")),
    )
    return b"".join(np.array(values).astype(dtype).tobytes() for values, dtype in fields if values)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
