"""What follows a layer becomes part of it, and gives the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program, Size
from tfaot_pkg.compiler.verifier import verify

pytestmark = pytest.mark.slow  # each compiles its code

_RANDOM = np.random.default_rng(4)
_WEIGHTS = _RANDOM.normal(size=(9, 21)).astype(np.float32)
_FACTORS, _OFFSETS = (_RANDOM.uniform(-2, 2, 21).astype(np.float32) for _ in range(2))


def _dense(writer: Writer) -> int:
    x = writer.input(9)
    weights = writer.constant(_WEIGHTS)
    return writer.add("dot", (N, 21), x, weights, contracting=((1,), (0,)), batch=((), ()))


def _along(writer: Writer, values: object) -> int:
    return writer.add("broadcast", (N, 21), writer.constant(values), dimensions=(1,))


def _elu(writer: Writer, x: int) -> int:
    test = writer.add("compare", (N, 21), x, writer.spread(0.0, 21), dtype="pred", direction="GT")
    return writer.add("select", (N, 21), test, x, writer.add("exponential-minus-one", (N, 21), x))


def _slope(writer: Writer, x: int) -> int:
    return writer.add("maximum", (N, 21), x, writer.add("multiply", (N, 21), writer.spread(0.25, 21), x))


def _clip(writer: Writer, x: int) -> int:
    above = writer.add("maximum", (N, 21), writer.spread(-0.5, 21), x)
    return writer.add("minimum", (N, 21), above, writer.spread(1.5, 21))


def _clamp(writer: Writer, x: int) -> int:
    return writer.add("clamp", (N, 21), writer.spread(-0.5, 21), x, writer.spread(1.5, 21))


def _least(writer: Writer, x: int) -> int:
    """With no upper limit, as in clamp(x, -0.5, inf)."""
    return writer.add("clamp", (N, 21), writer.spread(-0.5, 21), x, writer.spread(math.inf, 21))


def _most(writer: Writer, x: int) -> int:
    return writer.add("clamp", (N, 21), writer.spread(-math.inf, 21), x, writer.spread(1.5, 21))


def _swish(writer: Writer, x: int) -> int:
    return writer.add("multiply", (N, 21), x, writer.add("logistic", (N, 21), x))


def _gelu(writer: Writer, x: int) -> int:
    scaled = writer.add("multiply", (N, 21), x, writer.spread(math.sqrt(0.5), 21))
    gate = writer.add("add", (N, 21), writer.spread(1.0, 21), writer.add("erf", (N, 21), scaled))
    half = writer.add("multiply", (N, 21), writer.spread(0.5, 21), x)
    return writer.add("multiply", (N, 21), half, gate)


def _gelu_tanh(writer: Writer, x: int) -> int:
    cube = writer.add("multiply", (N, 21), writer.add("multiply", (N, 21), x, x), x)
    rest = writer.add("multiply", (N, 21), writer.spread(0.044715, 21), cube)
    inner = writer.add("multiply", (N, 21), writer.spread(0.7978845608, 21), writer.add("add", (N, 21), x, rest))
    gate = writer.add("add", (N, 21), writer.spread(1.0, 21), writer.add("tanh", (N, 21), inner))
    return writer.add("multiply", (N, 21), writer.add("multiply", (N, 21), writer.spread(0.5, 21), x), gate)


def _nearly_gelu_tanh(writer: Writer, x: int) -> int:
    """With the square instead of the cube."""
    rest = writer.add("multiply", (N, 21), writer.spread(0.044715, 21), writer.add("multiply", (N, 21), x, x))
    inner = writer.add("multiply", (N, 21), writer.spread(0.7978845608, 21), writer.add("add", (N, 21), x, rest))
    gate = writer.add("add", (N, 21), writer.spread(1.0, 21), writer.add("tanh", (N, 21), inner))
    return writer.add("multiply", (N, 21), writer.add("multiply", (N, 21), writer.spread(0.5, 21), x), gate)


_AFTER: Mapping[str, Callable[[Writer, int], int]] = {
    "clamp": _clamp,
    "clip": _clip,
    "divided": lambda writer, x: writer.add("divide", (N, 21), x, writer.spread(3.0, 21)),
    "elu": _elu,
    "gelu": _gelu,
    "gelu by tanh": _gelu_tanh,
    "normalized": lambda writer, x: writer.add(
        "add", (N, 21), writer.add("multiply", (N, 21), x, _along(writer, _FACTORS)), _along(writer, _OFFSETS)
    ),
    "least": _least,
    "most": _most,
    "relu": lambda writer, x: writer.add("maximum", (N, 21), x, writer.spread(0.0, 21)),
    "sigmoid": lambda writer, x: writer.add("logistic", (N, 21), x),
    "slope": _slope,
    "subtracted": lambda writer, x: writer.add("subtract", (N, 21), x, _along(writer, _OFFSETS)),
    "swish": _swish,
    "tanh": lambda writer, x: writer.add("tanh", (N, 21), x),
}


def _opcodes(program: Program) -> list[str]:
    return [each.opcode for each in program.entry.operations if each.opcode not in ("parameter", "constant")]


@pytest.mark.sweep("clamp", "gelu", "normalized", "slope", "subtracted")
@pytest.mark.parametrize("name", _AFTER)
def test_what_follows_a_layer_becomes_part_of_it(compiled: Compile, name: str) -> None:
    writer = Writer()
    program = writer.program(_AFTER[name](writer, _dense(writer)))
    made = recognize(simplify(program))
    verify(made)
    assert _opcodes(made) == ["dense"]
    values = np.random.default_rng(7).normal(size=(13, 9)).astype(np.float32)
    wanted = interpret.run(program, 13, [values])[0]
    np.testing.assert_allclose(compiled(made, 4)(values)[0], wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("name", "opcode"), [("gelu", "gelu-erf"), ("gelu by tanh", "gelu-tanh"), ("swish", "swish")])
def test_an_activation_without_a_layer_is_one_operation_that_keeps_the_digits_of_its_tail(
    compiled: Compile, name: str, opcode: str
) -> None:
    writer = Writer()
    x = writer.input(21)
    total = writer.add("add", (N, 21), x, _AFTER[name](writer, x))  # others may use its input
    made = recognize(simplify(writer.program(_AFTER[name](writer, x), total)))
    verify(made)
    assert opcode in _opcodes(made)
    assert not {"erf", "tanh", "logistic"} & set(_opcodes(made))
    values = np.linspace(-9.0, 3.0, 21 * 40, dtype=np.float32).reshape(-1, 21)
    exact = [_EXACT[opcode](float(each)) for each in values.ravel()]
    np.testing.assert_allclose(compiled(made, 4)(values)[0].ravel(), exact, rtol=8 * 2.0**-23)


_EXACT: Mapping[str, Callable[[float], float]] = {
    "gelu-erf": lambda x: 0.5 * x * math.erfc(-x * math.sqrt(0.5)),
    "gelu-tanh": lambda x: x / (1.0 + math.exp(-math.sqrt(8.0 / math.pi) * (x + 0.044715 * x**3))),
    "swish": lambda x: x / (1.0 + math.exp(-x)),
}


def test_another_polynomial_below_tanh_is_no_gelu() -> None:
    writer = Writer()
    made = recognize(simplify(writer.program(_nearly_gelu_tanh(writer, writer.input(21)))))
    assert "tanh" in _opcodes(made)
    assert "gelu-tanh" not in _opcodes(made)


def test_reshapes_of_what_a_loop_computes_take_no_memory() -> None:
    writer = Writer()
    x = writer.input(6, 4)
    root = writer.add("sqrt", (N, 6, 4), x)
    flat = writer.add("reshape", (N, 24), root)
    weights = writer.constant(np.ones((24, 3), np.float32))
    program = writer.program(writer.add("dot", (N, 3), flat, weights, contracting=((1,), (0,)), batch=((), ())))
    # The square roots: what the product gives is the output.
    assert emit(recognize(simplify(program)), "program", 4).scratch == 4 * 24 * 4


_FILTERS = _RANDOM.normal(size=(3, 3, 2, 8)).astype(np.float32)
_SCALE, _SHIFT = (_RANDOM.uniform(-2, 2, 4).astype(np.float32) for _ in range(2))


def _changed(writer: Writer, shape: tuple[int | Size, ...], x: int, shift: object) -> int:
    """By channel, as a batch normalization behind an activation."""
    shift, last = np.asarray(shift, np.float32), (len(shape) - 1,)
    scaled = writer.add("multiply", shape, x, writer.add("broadcast", shape, writer.constant(_SCALE), dimensions=last))
    if not shift.size:
        return scaled
    return writer.add("add", shape, writer.add("broadcast", shape, writer.constant(shift), dimensions=last), scaled)


def _flat(writer: Writer, x: int) -> int:
    moved = writer.add("reshape", (N, 12), x)
    weights = writer.constant(_RANDOM.normal(size=(5, 12)).astype(np.float32))
    return writer.add("dot", (N, 5), moved, weights, contracting=((1,), (1,)), batch=((), ()))


def _image(padding: int) -> Callable[[Writer, int], int]:
    def layer(writer: Writer, x: int) -> int:
        sides = ((3, 1, padding, padding, 1, 1), (3, 2, padding, padding, 1, 1))
        made = (N, 3 + 2 * padding, 2 + padding, 8)
        return writer.add(
            "convolution", made, x, writer.constant(_FILTERS), input=(0, 3, 1, 2), output=(0, 3, 1, 2),
            kernel=(3, 2, 0, 1), window=sides, feature_groups=2, batch_groups=1,
        )  # fmt: skip

    return layer


@pytest.mark.sweep("groups", "scaled-within-padding")
@pytest.mark.parametrize(
    ("sizes", "shift", "layer", "opcodes"),
    [
        pytest.param((3, 4), _SHIFT, _flat, ["reshape", "dense"], id="products-of-all-channels"),
        pytest.param((3, 4), _SHIFT * 100, _flat, ["multiply", "add", "reshape", "dense"], id="large-offsets"),
        pytest.param((5, 6, 4), _SHIFT, _image(0), ["conv2d"], id="groups"),
        pytest.param((5, 6, 4), (), _image(1), ["conv2d"], id="scaled-within-padding"),
        pytest.param((5, 6, 4), _SHIFT, _image(1), ["multiply", "add", "conv2d"], id="moved-within-padding"),
    ],
)
def test_what_scales_the_input_of_a_layer_becomes_part_of_it(
    compiled: Compile,
    sizes: tuple[int, ...],
    shift: object,
    layer: Callable[[Writer, int], int],
    opcodes: list[str],
) -> None:
    """An offset is no part where padding has none of it, or where it would take digits away."""
    writer = Writer()
    program = writer.program(layer(writer, _changed(writer, (N, *sizes), writer.input(*sizes), shift)))
    made = recognize(simplify(program))
    verify(made)
    assert [each for each in _opcodes(made) if each != "broadcast"] == opcodes
    values = np.random.default_rng(7).normal(size=(13, *sizes)).astype(np.float32)
    wanted = interpret.run(program, 13, [values])[0]
    np.testing.assert_allclose(compiled(made, 4)(values)[0], wanted, rtol=2e-5, atol=1e-5 * np.abs(wanted).max())
