"""Sizes that are computed from others, as text."""

from __future__ import annotations

import pytest

from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.worker_program.messages.formulas import Formula


@pytest.mark.parametrize("text", ["n", "7", "n - 4", "2*n", "n*n + 3*n", "m*n - m - 2", "-n + 8", "0"])
def test_formulas_are_written_as_they_are_read(text: str) -> None:
    formula = Formula.read(text)
    assert str(formula) == text
    for n, m in ((1, 1), (5, 3)):
        assert formula.at({"n": n, "m": m}) == eval(text, {"n": n, "m": m})
    assert formula.is_symbol == (text == "n") and formula.never_falls == (text not in ("m*n - m - 2", "-n + 8"))


@pytest.mark.parametrize("text", ["", "n-4", "n / 2", "n + ", "(n)", "n; m", "n" * 501])
def test_other_text_is_no_formula(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        Formula.read(text)


def test_a_tensor_has_the_sizes_that_its_formulas_give() -> None:
    pairs = Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 64, 28, 3), axes=("", "n*n", "4*n - 4", ""))
    assert pairs.at({"n": 5}).shape == (None, 25, 16, 3) and pairs.at({}).shape == pairs.shape
    assert str(pairs) == "y: float32[batch, n*n, 4*n - 4, 3]"
    assert {place: str(each) for place, each in pairs.computed.items()} == {1: "n*n", 2: "4*n - 4"}
    with pytest.raises(ValueError, match="is no size"):
        Tensor(name="y", dtype=DType.FLOAT32, shape=(4,), axes=("os.system()",))
    # Lengths of inputs determine symbols; outputs do not.
    symbols = (Symbol(name="n", minimum=2, maximum=8),)
    assert Signature(inputs=(), outputs=(pairs,), symbols=symbols).determined_symbols() == frozenset()
