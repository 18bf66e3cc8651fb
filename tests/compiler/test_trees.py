"""Forests: their form, their answers, and the code of them."""

import numpy as np
import pytest

from tfaot_pkg.worker_program.messages import forest as forests
from tfaot_pkg.worker_program.messages.forest import IN, IN_CUT, LESS, LESS_EQUAL, Forest, forest, margins

_SMALL = {
    "dtype": "float32", "total": "float32", "features": 2, "outputs": 1,
    "roots": [0, -1], "target": [0, 0], "feature": [0, 1], "comparison": [LESS, IN], "threshold": [0.5, 0],
    "words": [0, 1], "missing": [forests.NAN, forests.NAN], "default": [True, False], "left": [1, -2], "right": [-1, -3],
    "sets": [0b101], "values": [[1], [2], [4]], "base": [0.5],
}  # fmt: skip


def small(**changed: object) -> Forest:
    return forest(**{**_SMALL, **changed})  # type: ignore[arg-type]


def test_a_forest_sums_the_leaves_of_its_trees() -> None:
    x = np.array([[0, 0], [0, 1], [0, 2], [0, -0.5], [0.5, 0], [-0.0, 2.5], [np.nan, np.nan], [0, 1e30]], np.float32)

    found = margins(small(), x)

    assert found.dtype == np.float32
    assert found[:, 0].tolist() == [3.5, 5.5, 3.5, 5.5, 2.5, 3.5, 5.5, 5.5]
    assert margins(small(comparison=[LESS_EQUAL, IN_CUT]), x)[:, 0].tolist() == [3.5, 5.5, 3.5, 3.5, 3.5, 3.5, 5.5, 5.5]


def test_bytes_of_a_forest_give_the_forest() -> None:
    made = small()

    again = forests.unpacked(forests.packed(made))

    assert all(np.array_equal(getattr(made, name), getattr(again, name)) for name in forests.ARRAYS)
    for damaged in (forests.packed(made)[:300], np.zeros(300, np.uint8)):
        with pytest.raises(ValueError, match=r"cut off|no forest|Expecting value"):
            forests.unpacked(damaged)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"left": [0, -2]}, "reached in two ways"),
        ({"left": [2, -2]}, "a node that there is not"),
        ({"right": [-4, -3]}, "a node that there is not"),
        ({"feature": [2, 0]}, "not below 2"),
        ({"feature": [2**40, 0]}, "beyond int32"),
        ({"threshold": [np.nan, 0]}, "is NaN"),
        ({"threshold": [0, 1]}, "outside"),
        ({"words": [1, 1]}, "a set's length"),
        ({"target": [0, 1]}, "an output that there is not"),
        ({"values": [[1, 2], [2, 3], [4, 5]]}, "values of leaves"),
        ({"roots": [], "target": []}, "no trees"),
    ],
)
def test_a_forest_that_leads_nowhere_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**changed)
