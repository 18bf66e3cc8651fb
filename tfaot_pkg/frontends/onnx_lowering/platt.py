"""Probabilities of classes from those of pairs of classes, as support vector machines give them.

Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling" (2004), algorithm 2, with
the limits of libsvm and ONNX Runtime, which stop before the numbers are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfaot_pkg.compiler.program import ONE, Size
from tfaot_pkg.frontends.lowering import loops
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.moving import join
from tfaot_pkg.frontends.onnx_lowering.reductions import total
from tfaot_pkg.ground.arrays import Array

_LEAST = 1e-7
"""libsvm's min_prob."""
_CLOSE = 0.005
"""How far, divided by the number of classes, an equation may be from holding at the end (libsvm's eps)."""
_LEAST_PASSES = 100
"""The limit of passes over all classes; as many as there are classes if these are more."""


def probabilities(b: Builder, scores: Value, platt: Sequence[Array], pairs: Sequence[tuple[int, int]]) -> Value:
    """[rows, classes] from the scores [rows, pairs] of machines, and Platt's factors and offsets of each."""
    a, classes = Arithmetic(b, scores), max(second for _, second in pairs) + 1
    factors, offsets = (known(each, "f32") for each in platt)
    inner = a.add(a.mul(scores, factors), offsets)
    each = a.min(a.max(a.unary("logistic", a.unary("negate", inner)), _LEAST), 1 - _LEAST)
    return _coupled(b, _equations(b, each, pairs, classes), classes)


def _equations(b: Builder, each: Value, pairs: Sequence[tuple[int, int]], classes: int) -> Value:
    """[rows, classes, classes]: the matrix Q of the paper."""
    a, rows, many = Arithmetic(b, each), each.sizes[0], Size(classes)
    # Columns by pairs of classes: r[i, j], then r[j, i] = 1 - r[i, j], last a zero for the diagonal.
    places = np.full((classes, classes), 2 * len(pairs))
    for place, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = place, len(pairs) + place
    columns = join(b, [each, a.sub(1, each), b.spread(a.value(0), [rows, ONE])], 1)
    r = b.reshape(take(b, columns, known(places.reshape(-1), "s64"), 1), [rows, many, many])
    squares = total(b, a.mul(r, r), [1], keep=False)
    on_diagonal = a.mul(b.reshape(squares, [rows, many, ONE]), known(np.eye(classes), "f32"))
    return a.sub(on_diagonal, a.mul(r, b.transpose(r, [0, 2, 1])))


def _coupled(b: Builder, q: Value, classes: int) -> Value:
    """The probabilities p of which all elements of Q p are equal, nearly."""
    a, rows, many = Arithmetic(b, q), q.sizes[0], Size(classes)

    def updated(step: Value, state: Sequence[Value]) -> list[Value]:
        """One class's probability is set so that its equation holds, then all are scaled to a sum of 1."""
        p, qp, going = state
        now = b.op("remainder", step, b.constant(classes, "s32"))
        whole = total(b, a.mul(p, qp), [1], keep=True)
        apart = a.compare("GE", a.unary("abs", a.sub(qp, whole)), float(np.float32(_CLOSE / classes)))
        # A row with NaN has settled: all keep the same probability.
        is_open = b.reshape(b.reduce("or", apart, [1], False), [rows, ONE])
        is_within = b.compare("GT", now, b.constant(0, "s32"))
        going = b.map("and", going, b.map("or", is_within, is_open))
        chosen = b.compare("EQ", b.iota("s32", [many], 0), now)
        row = total(b, a.where(b.reshape(chosen, [many, ONE]), q, 0), [1], keep=False)
        own, slope = (total(b, a.where(chosen, x, 0), [1], keep=True) for x in (qp, row))
        change = a.div(a.sub(whole, own), slope)
        over = a.add(change, 1)
        found = a.div(a.add(p, a.where(chosen, change, 0)), over), a.div(a.add(qp, a.mul(change, row)), over)
        # Rows that have settled stay as they are, so other rows decide only how long a call takes.
        kept = [a.where(going, new, old) for new, old in zip(found, (p, qp), strict=True)]
        return [*kept, going]

    qp = a.div(total(b, q, [2], keep=False), classes)
    start = [b.spread(a.value(1 / classes), [rows, many]), qp, b.spread(b.constant(True, "pred"), [rows, ONE])]
    steps = Size(max(_LEAST_PASSES, classes) * classes)
    return loops.repeated(b, steps, start, updated, going=lambda state: b.reduce("or", state[2], [0, 1], False))[0]
