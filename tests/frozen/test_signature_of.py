"""The worker's words for inputs and outputs as a signature."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tfaot_pkg.cli.packages import border_rows
from tfaot_pkg.frontends.frozen.model import signature_of, weight_size
from tfaot_pkg.frontends.frozen.source_model import proposed_shapes, with_names_of_axes
from tfaot_pkg.ground.documents import convert, plain
from tfaot_pkg.ground.signature import DType, Part, Signature
from tfaot_pkg.pipeline.check import CheckResult
from tfaot_pkg.worker_program.messages.graph import Interface, Tensor, Weight


def _tensor(name: str, dtype: str, shape: tuple[int | None, ...]) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape)


def test_names_dtypes_and_shapes_are_taken_in_the_order_given() -> None:
    description = Interface(
        inputs=(_tensor("b", "int8", (None, 2)), _tensor("a", "bool", ())), outputs=(_tensor("y", "float64", (3,)),)
    )
    signature = signature_of(description)
    assert [(t.name, t.dtype, t.shape) for t in signature.inputs] == [
        ("b", DType.INT8, (None, 2)),
        ("a", DType.BOOL, ()),
    ]
    assert signature.inputs[0].has_batch_axis and not signature.inputs[1].has_batch_axis
    assert signature.outputs[0].shape_at(7) == (3,)


def test_axes_without_a_size_get_one_name_at_one_place() -> None:
    x, m = _tensor("x", "float32", (None, None, 4)), _tensor("m", "bool", (None, None))
    found = proposed_shapes(with_names_of_axes(Interface(inputs=(x, m), outputs=())))
    assert found.shapes == {"x": (None, 128, 4), "m": (None, 128)}
    assert found.axes == {"x": ("", "n", ""), "m": ("", "n")}
    assert [str(each) for each in found.symbols] == ["n <= 128"]
    image = _tensor("image", "float32", (1, None, None, 3))
    assert proposed_shapes(with_names_of_axes(Interface(inputs=(image,), outputs=()))).axes == {
        "image": ("", "n1", "n2", "")
    }


def test_nodes_beside_edges_are_no_batch() -> None:
    nodes, edges = _tensor("nodes", "float32", (None, 4)), _tensor("edges", "int64", (2, None))
    found = proposed_shapes(with_names_of_axes(Interface(inputs=(nodes, edges), outputs=())))
    assert found.shapes == {"nodes": (128, 4), "edges": (2, 128)}
    assert found.axes == {"nodes": ("n0", ""), "edges": ("", "n1")}


def test_a_model_without_inputs_has_a_signature() -> None:
    assert signature_of(Interface(inputs=(), outputs=(_tensor("y", "float32", (2,)),))).inputs == ()


def test_a_signature_survives_its_dictionary() -> None:
    signature = signature_of(Interface(inputs=(_tensor("x", "uint16", (None,)),), outputs=(_tensor("y", "int64", ()),)))
    assert convert(Signature, plain(signature)) == signature


def test_several_signatures_are_shown_one_by_one() -> None:
    names = {"encode": ("encode/x", "encode/z"), "decode": ("decode/z", "decode/x")}
    whole = signature_of(
        Interface(
            inputs=tuple(_tensor(given, "float32", (None, 2)) for given, _ in names.values()),
            outputs=tuple(_tensor(made, "float32", (None, 2)) for _, made in names.values()),
        )
    )
    parts = tuple(Part(name=name, inputs=(given,), outputs=(made,)) for name, (given, made) in names.items())
    found = CheckResult(
        toolchain="", signature=replace(whole, parts=parts), rows=None, operations=(), warnings=(), table=None
    )
    assert found.interface == (
        "signature encode", "  input x: float32[N, 2]", "  output z: float32[N, 2]",
        "signature decode", "  input z: float32[N, 2]", "  output x: float32[N, 2]",
    )  # fmt: skip
    assert border_rows(found.signature) == {
        "signatures": "encode: x: float32[N, 2] -> z: float32[N, 2]\ndecode: z: float32[N, 2] -> x: float32[N, 2]"
    }


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [("float32", (3, 4), 48), ("float64", (2,), 16), ("bool", (5,), 5), ("uint16", (), 2), ("int8", (0, 3), 0)],
)
def test_the_size_of_weights_is_in_bytes(dtype: str, shape: tuple[int, ...], size: int) -> None:
    assert weight_size(Weight(node="n", dtype=dtype, shape=shape, offset=0)) == size
