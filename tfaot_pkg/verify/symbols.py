"""Inputs of other sizes than the largest, for models whose calls bring sizes (signature.Symbol)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfaot_pkg.arrays import Array
from tfaot_pkg.signature import Signature
from tfaot_pkg.verify.inputs import BRANCHES, MAIN, drawn, is_drawn_for


def sized_inputs(
    signature: Signature, classes: Sequence[str], *, seed: int, rows: int
) -> Mapping[str, Mapping[str, Array]]:
    """Random rows at the smallest sizes, the next ones and those in the middle; there also those of `classes`.

    By the name of what they are: `n=2` or, of a class, `large n=12`. Empty if there are no symbols.
    """
    if not signature.symbols:
        return {}
    symbols = signature.symbols
    middle = {each.name: (each.minimum + each.maximum) // 2 for each in symbols}
    least, next_ = ({each.name: each.minimum + more for each in symbols} for more in (0, 1))
    found = {
        _name(MAIN, sizes): drawn(MAIN, signature.at(sizes), seed=seed, rows=rows) for sizes in (least, next_, middle)
    }
    for name in classes:
        if name != BRANCHES and is_drawn_for(name, signature):
            found[_name(name, middle)] = drawn(name, signature.at(middle), seed=seed, rows=rows)
    return found


def _name(kind: str, sizes: Mapping[str, int]) -> str:
    shown = " ".join(f"{name}={size}" for name, size in sizes.items())
    return shown if kind == MAIN else f"{kind} {shown}"
