"""Lowers a network of hls4ml to a program of integers, layer by layer, with the bits of hls4ml's emulator.

A layer or a form of one that has no lowering is Unsupported, by its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tfaot_pkg.compiler.lowered import Lowered
from tfaot_pkg.compiler.program import ROWS, Program, Shape, Size, Unsupported
from tfaot_pkg.frontends.hls4ml_lowering import (
    activations,
    convolutions,
    dense,
    einsums,
    merging,
    normalization,
    pooling,
    quantizers,
    recurrent,
    softmax,
    trees,
)
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Arithmetic, Fixed
from tfaot_pkg.frontends.hls4ml_lowering.table import LAYERS, Call
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.table import Refused
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.worker_program.messages.fixed_network import NETWORK, NUMBERS, FixedLayer, FixedNetwork, FixedTensor
from tfaot_pkg.worker_program.messages.wire import decoded

FILLED_BY = (
    activations, convolutions, dense, einsums, merging, normalization, pooling, quantizers, recurrent, softmax, trees,
)  # fmt: skip
"""The modules whose functions are in the table of layers."""
_MOVED = frozenset({"Constant", "Reshape"})
"""Kinds of layers for which hls4ml calls no function."""
_CONTRADICTIONS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, RecursionError)
"""Of a layer whose file was changed by hand, say: what Python, NumPy and types of operations make of its numbers."""
_LONGEST = 200
_MOST_BYTES = 1 << 26
"""Of the document: names, numbers and types."""


def read(folder: Path) -> tuple[FixedNetwork, Mapping[str, Array]]:
    """The network whose parts are in `folder`. Raises ValueError for anything else."""
    content = (folder / NETWORK).read_bytes()
    if len(content) > _MOST_BYTES:
        raise ValueError("the description of the network is too long")
    return decoded(FixedNetwork, json.loads(content), NETWORK), read_arrays(folder / NUMBERS)


def lowered(folder: Path) -> Lowered:
    """The program of the network in `folder`, float32 in and out. Raises ValueError, Unsupported."""
    network, numbers = read(folder)
    return Lowered(program=program_of(network, numbers), inputs=network.inputs, outputs=network.outputs)


def program_of(network: FixedNetwork, numbers: Mapping[str, Array]) -> Program:
    builder = Builder(())
    results = {each.name: each for layer in network.layers for each in layer.outputs}
    if missing := [name for name in (*network.inputs, *network.outputs) if name not in results]:
        raise ValueError(f"no layer computes {missing[0]!r}")
    ends = [results[name] for name in network.inputs]
    shapes = [Shape("f32", (ROWS, *map(Size, each.shape))) for each in ends]

    def body(given: Sequence[Value]) -> list[Value]:
        a = Arithmetic(builder)
        found: dict[str, Fixed] = {}
        for end, value in zip(ends, given, strict=True):
            builder.node = end.name
            with _named(end.name):
                found[end.name] = a.of_floats(value, end.type)
        for layer in network.layers:
            if layer.kind != "Input":
                builder.node = layer.name
                with _named(layer.name):
                    _add(layer, network, numbers, results, a, found)
        return [a.to_floats(found[name]) for name in network.outputs]

    return builder.program(shapes, body)


@contextmanager
def _named(layer: str) -> Iterator[None]:
    """Errors in the block name the layer."""
    try:
        yield
    except Refused:
        raise
    except Unsupported as error:
        raise Refused(f"the layer {layer!r}: {error}", "choose other types for it in hls4ml") from error
    except _CONTRADICTIONS as error:
        why = " ".join(str(error).split())[:_LONGEST]
        raise Refused(
            f"the layer {layer!r}: its attributes contradict its inputs or weights ({type(error).__name__}: {why})",
            "write the file again with hls4ml.utils.serialization.serialize_model",
        ) from error


def _add(
    layer: FixedLayer,
    network: FixedNetwork,
    numbers: Mapping[str, Array],
    results: Mapping[str, FixedTensor],
    a: Arithmetic,
    found: dict[str, Fixed],
) -> None:
    if layer.kind not in LAYERS:
        raise Refused(
            f"the layer {layer.name!r} is of the kind {layer.kind}, which has no lowering",
            f"replace it, or cut the network before it; there are {', '.join(sorted(LAYERS))}",
        )
    if not layer.function and layer.kind not in _MOVED:
        raise Refused(
            f"the layer {layer.name!r} ({layer.kind}): hls4ml itself calls no function for it",
            "its emulator gives numbers that depend on nothing: choose another layer",
        )
    if unknown := [name for name in layer.inputs if name not in found]:
        raise ValueError(f"{layer.name}: nothing computes {unknown[0]!r}")
    call = Call(
        layer=layer, a=a, inputs=tuple(found[name] for name in layer.inputs),
        given=tuple(results[name] for name in layer.inputs), numbers=numbers, io=network.io,
    )  # fmt: skip
    made = LAYERS[layer.kind](call)
    for each in layer.outputs:
        found[each.name] = _shaped(a, made, each.shape)


def _shaped(a: Arithmetic, made: Fixed, shape: tuple[int, ...]) -> Fixed:
    if made.value.known is not None and made.value.rank < len(shape) + 1:
        made = replace(made, value=a.builder.spread(made.value, [*map(Size, shape)]))
    return a.reshape(made, shape)
