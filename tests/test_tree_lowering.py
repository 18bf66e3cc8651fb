"""Decision trees become programs on the host: operations on sums compute what mathematics says, and types are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.test_trees import grown, small
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.passes.pipeline import PASSES, run
from tfaot_pkg.compiler.text import TextError, parse, text_of
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.frontends.tree_lowering import lowered
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.forest import LESS, Forest, margins, packed
from tfaot_pkg.worker_program.messages.sources import ENCODER, FOREST, TREES, FittedTrees, TreesLink
from tfaot_pkg.worker_program.messages.wire import encoded

_BARE = FittedTrees(
    links=(), output="score", margin="", dtype="float64", is_flat=False, input="float32", missing=None
)  # fmt: skip


def _parts(folder: Path, fitted: FittedTrees, forest: Forest | None, encoder: Forest | None = None) -> Path:
    folder.mkdir()
    (folder / TREES).write_text(encoded(fitted))
    for name, each in ((FOREST, forest), (ENCODER, encoder)):
        if each is not None:
            np.save(folder / name, packed(each), allow_pickle=False)
    return folder


def _answers(parts: Path, x: Array) -> dict[str, Array]:
    """By NumPy, after all passes, and as the program is written to be read again."""
    made = lowered(parts)
    program = verified(made.program, "lowering")
    beside: list[Array] = []
    text = text_of(program, beside)
    read = verified(parse(text, beside), "reading")
    assert text_of(read) == text_of(program)
    answers = [interpret.run(each, len(x), [x]) for each in (program, read, run(program, PASSES))]
    for one, two, three in zip(*answers, strict=True):
        assert one.tobytes() == two.tobytes()
        np.testing.assert_allclose(three, one, rtol=1e-12)
    assert emit(run(program, PASSES), "f").source
    return dict(zip(made.outputs, answers[0], strict=True))


def _softmax(sums: Array) -> Array:
    powers = np.exp(sums - sums.max(1, keepdims=True))
    made: Array = powers / powers.sum(1, keepdims=True)
    return made


def _sigmoid(sums: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-sums)))


_RIGHT: Mapping[str, tuple[float, int, Callable[[Array], Array]]] = {
    "divide": (7.0, 3, lambda sums: sums / 7),
    "multiply": (0.25, 3, lambda sums: sums * 0.25),
    "add": (1.5, 3, lambda sums: sums + 1.5),
    "exp": (1.0, 3, np.exp),
    "sigmoid": (1.0, 3, _sigmoid),
    "softmax": (1.0, 3, _softmax),
    "softplus": (1.0, 3, lambda sums: np.log1p(np.exp(sums))),
    "square with sign": (0.0, 3, lambda sums: np.sign(sums) * sums**2),
    "above zero": (0.0, 3, lambda sums: (sums > 0).astype(float)),
    "largest": (1.0, 3, lambda sums: sums.argmax(1)[:, None].astype(float)),
    "sigmoid of second": (2.0, 1, lambda sums: np.hstack([1 - _sigmoid(2 * sums), _sigmoid(2 * sums)])),
    "difference": (3.0, 2, lambda sums: np.stack([sums[:, 0] - sums[:, 1], sums[:, 1] - sums[:, 0]], 1) / 3),
    "gradient boost": (0.0, 3, lambda sums: 2 / (1 + np.exp(-2 * sums)) - 1),
}
"""Link -> its number, how many sums it takes, and what it is."""


@pytest.mark.parametrize("name", _RIGHT)
def test_operations_on_sums_are_those_of_mathematics(name: str, tmp_path: Path) -> None:
    number, outputs, right = _RIGHT[name]
    generator = np.random.default_rng(1)
    forest = grown(generator, 12, 5, dtype="float32", total="float64", outputs=outputs)
    forest = replace(forest, values=forest.values / max(1.0, float(np.abs(forest.values).max())))
    fitted = replace(_BARE, links=(TreesLink(name=name, number=number),), margin="margin")
    x = generator.standard_normal((9, forest.features)).astype(np.float32)
    found = _answers(_parts(tmp_path / "parts", fitted, forest), x)
    sums = margins(forest, x)
    assert list(found) == ["margin", "score"]
    assert found["margin"].tobytes() == sums.tobytes()
    np.testing.assert_allclose(found["score"], right(sums), rtol=1e-14, atol=1e-15)


def test_division_by_zero_gives_zeros(tmp_path: Path) -> None:
    fitted = replace(_BARE, links=(TreesLink(name="divide", number=0.0),), is_flat=True)
    found = _answers(_parts(tmp_path / "parts", fitted, small(total="float64")), np.ones((3, 2), np.float32))
    assert found["score"].tolist() == [0, 0, 0]


def test_missing_numbers_and_codes_of_categories_come_before_the_trees(tmp_path: Path) -> None:
    # Column 1 has categories 10 and 20, whose codes are 0 and 1; unknown ones are -1.
    from tfaot_pkg.worker_program.messages import forest as forests

    encoder = forests.forest(
        dtype="float32", total="float32", features=2, outputs=2, roots=[0], target=[1], feature=[1, 1],
        comparison=[forests.EQUAL, forests.EQUAL], threshold=[10, 20], words=[0, 0], missing=[0, 0],
        default=[False, False], left=[-1, -2], right=[1, -3], sets=[], values=[[0], [1], [-1]], base=[0, 0],
    )  # fmt: skip
    forest = small(comparison=[LESS, LESS], threshold=[0.5, 0.5], words=[0, 0], sets=[], total="float64")
    x = np.array([[0, 10], [0, 20], [-999, 10], [1, 20], [0, 7]], np.float32)
    seen = np.array([[0, 0], [0, 1], [np.nan, 0], [1, 1], [0, -1]], np.float32)
    parts = _parts(tmp_path / "parts", replace(_BARE, missing=-999.0), forest, encoder)
    assert _answers(parts, x)["score"].tobytes() == margins(forest, seen).tobytes()


@pytest.mark.parametrize(
    ("fitted", "forest", "encoder"),
    [
        (_BARE, None, None),
        (replace(_BARE, dtype="int8"), small(), None),
        (replace(_BARE, links=(TreesLink(name="__import__", number=1.0),)), small(), None),
        (replace(_BARE, links=(TreesLink(name="difference", number=1.0),)), small(), None),
        (_BARE, small(), small()),
    ],
    ids=["no trees", "type", "link", "columns", "codes"],
)
def test_parts_that_do_not_fit_are_refused(
    fitted: FittedTrees, forest: Forest | None, encoder: Forest | None, tmp_path: Path
) -> None:
    with pytest.raises((ValueError, LookupError)):
        lowered(_parts(tmp_path / "parts", fitted, forest, encoder))


def test_files_of_another_form_are_refused(tmp_path: Path) -> None:
    parts = _parts(tmp_path / "parts", _BARE, small())
    whole = (parts / FOREST).read_bytes()
    for content in (whole[:100], whole[:-40], b"", whole.replace(b"roots", b"rootz")):
        (parts / FOREST).write_bytes(content)
        with pytest.raises(ValueError):
            lowered(parts)


def test_a_text_names_only_arrays_that_are_beside_it() -> None:
    text = "%0 f32[3,40] = constant literal={array:0}\ngive %0\n"
    assert parse(text, [np.ones((3, 40), np.float32)]).entry.results == (0,)
    for beside in ([], [np.ones((3, 40), np.float64)], [np.ones((2, 2), np.float32)]):
        with pytest.raises(TextError):
            parse(text, beside)
