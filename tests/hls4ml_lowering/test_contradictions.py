"""Layers whose attributes contradict their inputs or weights are errors that name the layer, and take no time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tfaot_pkg.frontends.hls4ml_lowering.lowering import program_of
from tfaot_pkg.frontends.onnx_lowering.table import Refused
from tfaot_pkg.worker_program.messages.fixed_network import FixedLayer, FixedNetwork, FixedTensor, FixedType

_TYPE = FixedType(width=16, integer=6, signed=True)
_POOLING = {"in_height": 4, "in_width": 4, "out_height": 2, "out_width": 2, "pool_height": 2, "pool_width": 2,
            "stride_height": 2, "stride_width": 2}  # fmt: skip


def _layer(kind: str, given: tuple[str, ...], shape: tuple[int, ...], **numbers: int) -> FixedLayer:
    return FixedLayer(
        name="layer", kind=kind, function="nnet::f", inputs=given, numbers=numbers, lists={},
        outputs=(FixedTensor(name="y", shape=shape, type=_TYPE),),
        texts={"activation": "sigmoid", "pool_op": "average"},
        types={"weight_t": _TYPE, "bias_t": _TYPE, "accum_t": _TYPE, "table_t": _TYPE,
               "exp_table_t": _TYPE, "inv_table_t": _TYPE},
        arrays={"weight": "w", "bias": "b", "sigmoid_table": "s", "exp_table": "s", "inv_table": "s"},
    )  # fmt: skip


def _program(layer: FixedLayer, shape: tuple[int, ...] = (4, 4, 1), **arrays: Any) -> object:
    given = _layer("Input", (), shape)
    entry = replace(given, name="x", outputs=(replace(given.outputs[0], name="x"),))
    network = FixedNetwork(inputs=("x",), outputs=("y",), io="io_parallel", layers=(entry, layer))
    return program_of(network, {name: np.asarray(each) for name, each in arrays.items()})


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("layer", "shape", "arrays"),
    [
        (_layer("Dense", ("x",), (3,), n_in=4, n_out=3), (5,), {"w": np.ones((4, 3), int), "b": np.ones(3, int)}),
        (_layer("Dense", (), (3,), n_in=4, n_out=3), (4,), {"w": np.ones((4, 3), int), "b": np.ones(3, int)}),
        (_layer("Dense", ("y",), (3,), n_in=4, n_out=3), (4,), {}),
        (_layer("Dense", ("x",), (), n_in=4, n_out=3), (4,), {"w": np.ones((4, 3), int), "b": np.ones(3, int)}),
        (_layer("Dense", ("x",), (3,), n_in=1 << 32, n_out=1 << 32), (4,), {"w": np.ones((0,), int)}),
        (_layer("Softmax", ("x",), (4,), n_outer=0), (4,), {}),
        (_layer("Softmax", ("x",), (4,)), (4,), {"s": np.asarray(3)}),
        (_layer("Activation", (), (4,)), (4,), {}),
        (_layer("Merge", ("x",), (4,)), (4,), {}),
        (_layer("Pooling2D", ("x",), (2, 2, 1), **{**_POOLING, "pool_height": 10**9}), (4, 4, 1), {}),
        (_layer("Pooling2D", ("x",), (2, 2, 1), **{**_POOLING, "pool_height": 0}), (4, 4, 1), {}),
        (_layer("Pooling2D", ("x",), (2, 2, 1), **{**_POOLING, "out_width": 10**9}), (4, 4, 1), {}),
        (_layer("Pooling2D", ("x",), (2, 2, 1), **{**_POOLING, "stride_width": -1}), (4, 4, 1), {}),
        (_layer("Pooling2D", ("x",), (2, 2, 1), **{**_POOLING, "pad_top": -3}), (4, 4, 1), {}),
        (_layer("Resize", ("x",), (4, 4, 1), in_height=4, out_height=10**9, in_width=4, out_width=4), (4, 4, 1), {}),
        (_layer("Resize", ("x",), (4, 4, 1), in_height=9, out_height=4, in_width=4, out_width=4), (4, 4, 1), {}),
    ],
)
def test_contradictions_name_the_layer(layer: FixedLayer, shape: tuple[int, ...], arrays: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=r"the layer 'layer'") as raised:
        _program(layer, shape, **arrays)
    assert raised.value.hint and len(str(raised.value)) < 400
