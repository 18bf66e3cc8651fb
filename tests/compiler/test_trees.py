"""Forests: their form, their answers, and the code of them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import compiled_together
from tfaot_pkg.compiler.attributes import Trees
from tfaot_pkg.compiler.program import Number, Operation, Program, Region, Shape, Size
from tfaot_pkg.ground.arrays import Array
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
        ({"left": [2, -2]}, "a node that does not exist"),
        ({"right": [-4, -3]}, "a node that does not exist"),
        ({"feature": [2, 0]}, "not below 2"),
        ({"feature": [2**40, 0]}, "beyond int32"),
        ({"threshold": [np.nan, 0]}, "is NaN"),
        ({"threshold": [0, 1]}, "outside"),
        ({"words": [1, 1]}, "a set's length"),
        ({"target": [0, 1]}, "an output that does not exist"),
        ({"values": [[1, 2], [2, 3], [4, 5]]}, "values of leaves"),
        ({"roots": [], "target": []}, "no trees"),
    ],
)
def test_a_forest_that_leads_nowhere_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**changed)


def grown(
    generator: np.random.Generator, trees: int, splits: int, *, dtype: str = "float32", total: str = "float32",
    features: int = 7, outputs: int = 1, width: int = 1, deep: bool = False, kinds: tuple[int, ...] = tuple(range(8)),
) -> Forest:  # fmt: skip
    """A forest of random trees with up to `splits` nodes each, with every comparison and every rule for missing."""
    made: dict[str, list[Any]] = {name: [] for name in forests.ARRAYS}
    leaves = 0
    grid = np.array(
        [0.0, -0.0, 0.5, 1, 2.5, -1, 1e-35, -1e-35, 1e-45, np.inf, -np.inf, 3.4028235e38, 0.1, 1 / 3, 1e300]
    )
    for tree in range(trees):
        waiting: list[tuple[str, int]] = [("roots", -1)]
        made["target"].append(tree % outputs if width == 1 else 0)
        left = int(generator.integers(0, splits + 1))
        while waiting:
            side, parent = waiting.pop(-1 if deep else int(generator.integers(len(waiting))))
            number = len(made["feature"]) if left else -1 - leaves
            if side == "roots":
                made["roots"].append(number)
            else:
                made[side][parent] = number
            if not left:
                leaves += 1
                made["values"].append(generator.normal(size=width))
                continue
            left -= 1
            kind = int(generator.choice(kinds))
            made["feature"].append(int(generator.integers(features)))
            made["comparison"].append(kind)
            words: Any = generator.integers(0, 2**32, int(generator.integers(0, 4))) if kind >= IN else []
            made["threshold"].append(len(made["sets"]) if kind >= IN else generator.choice([*grid, generator.normal()]))
            made["words"].append(len(words))
            made["sets"].extend(words)
            made["missing"].append(int(generator.choice([forests.NAN, forests.NONE] if kind >= IN else [0, 1, 2])))
            made["default"].append(bool(generator.integers(2)))
            made["left"].append(0)
            made["right"].append(0)
            waiting += [("left", number), ("right", number)]
    base = generator.normal(size=outputs)
    return forest(dtype=dtype, total=total, features=features, outputs=outputs, **{**made, "base": base})  # type: ignore[arg-type]


def rows(generator: np.random.Generator, found: Forest, count: int) -> Array:
    """Numbers around thresholds, categories, and all that is special."""
    special = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1e-35,
        -1e-35,
        1.1e-35,
        1e-45,
        3.4028235e38,
        -0.5,
        -1,
        0.5,
        95.5,
        1e9,
    ]
    with np.errstate(all="ignore"):
        thresholds = found.threshold.astype(found.dtype)
        near = [thresholds, np.nextafter(thresholds, -np.inf), np.nextafter(thresholds, np.inf)]
        pool = np.concatenate([np.array(special), *near, generator.normal(size=50), np.arange(100)])
        return generator.choice(pool, (count, found.features)).astype(found.dtype)


def program_of(found: Forest) -> Program:
    types = {"float32": "f32", "float64": "f64"}
    x = Operation(
        id=0, opcode="parameter", attributes=Number(number=0),
        type=Shape(types[found.dtype], (Size(0, 1), Size(found.features))),
    )  # fmt: skip
    trees = Operation(
        id=1, opcode="trees", operands=(0,), attributes=Trees(forest=found),
        type=Shape(types[found.total], (Size(0, 1), Size(found.outputs))),
    )  # fmt: skip
    return Program(entry=Region(operations=(x, trees), results=(1,)))


@pytest.mark.slow
def test_code_gives_the_bits_of_the_forest_in_every_batch(kernels: Path) -> None:
    generator = np.random.default_rng(3)
    grow = partial(grown, generator)
    found = {
        "complete": grow(13, 20),
        "complete, deeper": grow(9, 90),
        "complete, double": grow(9, 12, dtype="float64", total="float64"),
        "many columns": grow(40, 30, features=300),
        "many thresholds": grow(60, 60, features=2, kinds=(LESS,)),
        "unbalanced": grow(11, 60, deep=True),
        "unbalanced, double sums": grow(11, 200, deep=True, total="float64"),
        "large": grow(5, 700, deep=True),
        "several outputs": grow(17, 8, outputs=3),
        "several outputs, unbalanced": grow(17, 90, outputs=3, deep=True),
        "vectors": grow(7, 8, outputs=4, width=4),
        "leaves alone": grow(3, 0),
    }
    code = compiled_together({name: program_of(each) for name, each in found.items()}, kernels, 64)

    for name, each in found.items():
        x = rows(generator, each, 131)
        right = margins(each, x)
        for size in (1, 2, 7, 8, 16, 17, 31, 33, 64, 131):
            given = [code[name](x[at : at + size])[0] for at in range(0, 131, size)]
            assert np.array_equal(np.concatenate(given), right), f"{name}, {size} rows"
