"""How each operation of TensorFlow computes with sizes: the content of its results from that of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import shape_arithmetic as arithmetic
import shape_elements as elements
import shape_rules as rules
import tensorflow as tf
from shape_default import default
from shape_values import DATA, Choice, Content, Known, is_program, known

if TYPE_CHECKING:
    from shape_values import Shape, Value


Rule: TypeAlias = Callable[["Step"], "Content | Sequence[Content]"]
"""The content of each result of an operation, or the one that all of them have."""


@dataclass(frozen=True)
class Step:
    """An operation, its operands, the shapes of its results, and the ranges of sizes."""

    op: tf.Operation
    operands: tuple[Value, ...]
    shapes: tuple[Shape, ...]
    ranges: arithmetic.Ranges

    @property
    def contents(self) -> list[Content]:
        return [each.content for each in self.operands]

    def choice(self, sizes: Iterable[str]) -> Choice:
        return Choice(self.op.name, self.op.type, frozenset(sizes))


def contents_of(step: Step) -> list[Content]:
    """The content of each result."""
    found = _RULES.get(step.op.type, default)(step)
    contents = [found] * len(step.shapes) if isinstance(found, Content) else found
    return [_within(step, each) for each in contents]


def _within(step: Step, content: Content) -> Content:
    """`content`, with a Choice for each polynomial that no program computes."""
    if not isinstance(content, Known) or all(isinstance(e, Choice) or is_program(e) for e in content.values.flat):
        return content
    return known([e if isinstance(e, Choice) or is_program(e) else step.choice(e.names) for e in content.values.flat])


_IDENTITIES = frozenset("Identity Snapshot StopGradient PreventGradient EnsureShape CheckNumerics IdentityN".split())
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_IDENTITIES, elements.kept),
    **{f"Logical{name.title()}": elements.elementwise(function) for name, function in arithmetic.LOGICAL.items()},
    **{
        name: elements.elementwise(arithmetic.COMPARED[kind])
        for name, kind in zip(
            "Equal Greater GreaterEqual Less LessEqual NotEqual".split(), "EQ GT GE LT LE NE".split(), strict=True
        )
    },
    **dict.fromkeys(("Add", "AddV2"), elements.elementwise(arithmetic.added)),
    "Pack": elements.moved(),
    **dict.fromkeys(("Div", "RealDiv"), elements.divided),
    **dict.fromkeys(("Gather", "GatherV2"), rules.gathered),
    **dict.fromkeys(
        "StatelessRandomUniform StatelessRandomNormal StatelessRandomUniformV2 StatelessRandomNormalV2 "
        "StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessTruncatedNormal StatelessTruncatedNormalV2 "
        "StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2".split(),
        rules.random,
    ),
    **dict.fromkeys(("Mod", "TruncateMod"), elements.elementwise(arithmetic.remainder(arithmetic.toward_zero))),
    **dict.fromkeys(("Select", "SelectV2"), elements.selected),
    **dict.fromkeys(("Shape", "ShapeN"), rules.shape),
    **dict.fromkeys(
        "ExpandDims Squeeze Reshape Transpose Tile BroadcastTo Reverse ReverseV2 Roll StridedSlice Slice GatherNd "
        "Unpack SplitV Pad MirrorPad DataFormatVecPermute".split(),
        elements.moved(0),
    ),
    "Abs": elements.elementwise(arithmetic.absolute),
    "AddN": elements.elementwise(arithmetic.added),
    "All": elements.reduced(arithmetic.LOGICAL["and"], 1),
    "Any": elements.reduced(arithmetic.LOGICAL["or"], 0),
    "BroadcastArgs": rules.broadcast_shape,
    "BroadcastGradientArgs": rules.summed_axes,
    "Cast": elements.cast,
    "Ceil": elements.elementwise(arithmetic.ROUNDED["ceil"]),
    "Concat": elements.moved(*range(1, 64)),
    "ConcatV2": elements.moved(-1),
    "Fill": elements.moved(1),
    "Floor": elements.elementwise(arithmetic.ROUNDED["floor"]),
    "FloorDiv": elements.elementwise(arithmetic.floored),
    "FloorMod": elements.elementwise(arithmetic.remainder(arithmetic.floored)),
    **dict.fromkeys(("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"), rules.diagonal),
    "Max": elements.reduced(arithmetic.larger, None),
    "Maximum": elements.elementwise(arithmetic.larger),
    "Min": elements.reduced(arithmetic.smaller, None),
    "Minimum": elements.elementwise(arithmetic.smaller),
    "Mul": elements.times,
    "Neg": elements.elementwise(arithmetic.negated),
    "OnesLike": elements.filled(1),
    "PadV2": elements.moved(0, 2),
    "Pow": elements.elementwise(arithmetic.power),
    "Prod": elements.reduced(arithmetic.multiplied, 1),
    "Range": rules.range_,
    "Rank": rules.rank,
    "Rint": elements.elementwise(arithmetic.ROUNDED["round"]),
    "Round": elements.elementwise(arithmetic.ROUNDED["round"]),
    "ScatterNd": rules.scattered,
    "Sign": elements.elementwise(arithmetic.sign),
    "Size": rules.size,
    "Split": elements.moved(1),
    "Square": elements.elementwise(lambda step, one: one * one),
    "Sub": elements.elementwise(arithmetic.subtracted),
    "Sum": elements.reduced(arithmetic.added, 0),
    "TensorListFromTensor": rules.from_array,
    "TensorListLength": elements.kept,
    "TensorListReserve": rules.listed,
    "TensorListSetItem": lambda step: step.contents[0],
    "TensorListStack": lambda step: DATA,
    "TensorListGetItem": lambda step: DATA,
    "TensorScatterUpdate": elements.moved(0, 2),
    "TruncateDiv": elements.elementwise(arithmetic.toward_zero),
    "ZerosLike": elements.filled(0),
}
