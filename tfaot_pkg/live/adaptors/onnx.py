"""Models of ONNX in memory: `onnx.ModelProto`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfaot_pkg.live.source import LiveSource, of_bytes


def source_of(net: Any, example: Any, options: Mapping[str, Any]) -> LiveSource | None:
    if type(net).__name__ != "ModelProto":
        return None
    constants = {each.name for each in net.graph.initializer}
    order = tuple(each.name for each in net.graph.input if each.name not in constants)
    return of_bytes("ONNX", "model.onnx", net.SerializeToString(), order=order)
