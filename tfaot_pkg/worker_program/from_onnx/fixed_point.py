"""QONNX's domain of operators in ONNX files."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from from_onnx.authored_nodes import is_authored
from from_onnx.graphs import QONNX, QONNX_DOMAINS
from messages.requests import ModelFault

if TYPE_CHECKING:
    from onnx import ModelProto


def require_none(model: ModelProto, operations: Collection[str]) -> None:
    """ModelFault if a file that is read as ONNX has operators of QONNX that are not its author's."""
    for node in model.graph.node:
        if node.domain in QONNX_DOMAINS and not is_authored(node.domain, node.op_type, operations):
            raise ModelFault(
                f"{node.op_type} (node {node.name!r}) is an operator of QONNX, which ONNX Runtime does not have",
                "name the file as a quantized network: model: {qonnx: FILE.onnx}",
            )


def use_one_domain(model: ModelProto) -> None:
    """Call QONNX's domain by its name in all nodes, as its own `cleanup` does."""
    import onnx

    for node in model.graph.node:
        if node.domain in QONNX_DOMAINS:
            node.domain = QONNX
    if all(each.domain != QONNX for each in model.opset_import):
        # Nodes of a domain that is not imported are of version 1 for QONNX.
        model.opset_import.append(onnx.helper.make_opsetid(QONNX, 1))
