"""Each pass alone, on programs as text: passes/NAME.txt has inputs of the pass NAME beside what it makes of them.

A case begins with `## ` and a sentence. The output stands behind `->`; `-> unchanged` if the pass must not change the
program, `-> rejected: REASON` if it must reject it. Values are numbered anew before texts are compared.

`python -m tests.compiler.test_passes NAME` prints the file with what the pass makes now, for a reader to judge.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.random_programs import Grower
from tests.compiler.test_text import renumbered
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes import pipeline
from tfaot_pkg.compiler.passes.pipeline import ON_REQUEST, PASSES, UnknownPass, named, passes_for, run, until
from tfaot_pkg.compiler.program import NUMPY_TYPES, Program, Unsupported
from tfaot_pkg.compiler.text import parse, text_of
from tfaot_pkg.compiler.verifier import verified, verify

FOLDER = Path(__file__).parent / "passes"
_UNCHANGED, _REJECTED = "unchanged", "rejected: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`wanted` is a program's text, or what stands behind `->`."""

    name: str
    title: str
    given: str
    wanted: str

    def made(self) -> str:
        """What the pass makes of it now, in the form of `wanted`."""
        program = verified(parse(self.given), "reading")
        try:
            found = run(program, [named(self.name)])
        except Unsupported as error:
            return f"{_REJECTED}{error}"
        text = renumbered(text_of(found))
        return _UNCHANGED if text == renumbered(text_of(program)) else text


def cases_of(name: str, text: str) -> Iterator[Case]:
    for part in text.split("## ")[1:]:
        title, rest = part.split("\n", 1)
        given, _, wanted = rest.partition("->")
        is_program = wanted.startswith("\n")
        yield Case(name=name, title=title, given=given, wanted=wanted.strip() + "\n" if is_program else wanted.strip())


CASES = [case for file in sorted(FOLDER.glob("*.txt")) for case in cases_of(file.stem, file.read_text())]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_a_pass_makes_what_its_text_says(case: Case) -> None:
    assert case.made() == (renumbered(case.wanted) if case.wanted.startswith("%") else case.wanted)


def test_each_pass_is_a_module_of_its_name() -> None:
    names = {file.stem.replace("_", "-") for file in Path(pipeline.__file__).parent.glob("*.py")}
    assert {each.name for each in (*PASSES, *ON_REQUEST)} - names == set()


def test_every_pass_has_texts_and_a_negative() -> None:
    """Fusions and raisings that never stop would show in no positive case."""
    wanted = {each.name: [case.wanted for case in CASES if case.name == each.name] for each in (*PASSES, *ON_REQUEST)}
    assert {name for name, found in wanted.items() if _UNCHANGED not in found} == set()
    assert {case.name for case in CASES} <= wanted.keys()
    positive = {name for name, found in wanted.items() if any(each != _UNCHANGED for each in found)}
    assert positive == wanted.keys()


def test_no_pass_has_more_positives_than_negatives() -> None:
    """A condition that was left out would show only in the case that it is about."""
    negatives = Counter(case.name for case in CASES if case.wanted == _UNCHANGED or case.wanted.startswith(_REJECTED))
    cases = Counter(case.name for case in CASES)
    assert {name: (count, negatives[name]) for name, count in cases.items() if count > 2 * negatives[name]} == {}


def test_passes_are_found_by_their_names() -> None:
    assert until("import") == () and until(PASSES[-1].name) == PASSES and until("simplify") == PASSES[:1]
    assert until("store-bfloat16") == passes_for("bfloat16") and passes_for() == PASSES
    assert until("reduce-precision") == passes_for("bfloat16")[:-2]
    assert until("float32x6-products") == passes_for("float32x6") == (*PASSES, named("float32x6-products"))
    assert until("int8-weights") == passes_for(weights="int8") == (*PASSES, named("int8-weights"))
    with pytest.raises(UnknownPass, match="there is no pass fold: simplify, "):
        until("fold")


def _answers(program: Program, batch: int) -> list[np.ndarray]:
    sizes = {each.name: 3 for each in program.symbols}
    random = np.random.default_rng(batch)
    inputs = [
        random.integers(-4, 9, each.shape.at(batch, sizes)).astype(NUMPY_TYPES[each.shape.dtype])
        for each in program.entry.parameters
    ]
    return interpret.run(program, batch, inputs, sizes)


def _require_same_answers(before: Program, after: Program) -> None:
    for batch in (1, 3):
        for wanted, given in zip(_answers(before, batch), _answers(after, batch), strict=True):
            np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_a_pass_keeps_the_meaning_of_its_text(case: Case) -> None:
    """As the interpreter has it, which knows nothing of passes. `unify-nan` changes the signs of NaN."""
    program = parse(case.given)
    if case.wanted.startswith("%") and case.name != "unify-nan":
        _require_same_answers(program, run(program, [named(case.name)]))


_CORNERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.0,
    100.0,
    -100.0,
    1e-40,
    -1e-40,
    1e9,
    -1e9,
    1e20,
    -1e20,
    np.inf,
    -np.inf,
    np.nan,
]
_WITHOUT_SIGNS_OF_ZEROS = {
    # A sum of zeros times a negative scale is -0.0, and not with negative weights: inference engines merge these, too.
    "fuse-epilogues",
    "fuse-prologues",
    # 0 + a * b or a * b: TensorFlow's and ONNX Runtime's products give the former, XLA's, JAX's and torch.mm the latter.
    "a product that adds nothing up is elementwise",
}
_WITHOUT_NAN = {
    # What is raised ignores NaN, as TensorFlow's and ONNX Runtime's own kernels do; HLO's maximum keeps it.
    "raise-max-pool",
}


def _of_corners(program: Program, seed: int, corners_of: Sequence[float]) -> list[np.ndarray]:
    """Results for corner values among plain ones, and for nothing else."""
    sizes, random = {each.name: 3 for each in program.symbols}, np.random.default_rng(seed)
    inputs = []
    for each in program.entry.parameters:
        kind, shape = NUMPY_TYPES[each.shape.dtype], each.shape.at(3, sizes)
        plain = random.integers(-4, 9, shape).astype(kind)
        corners = random.choice(corners_of, shape).astype(kind) if kind.kind == "f" else plain
        inputs.append(np.where(random.random(shape) < (1.0 if seed % 2 else 0.2), corners, plain))
    with np.errstate(all="ignore"):
        return interpret.run(program, 3, inputs, sizes)


def _class(values: np.ndarray, signed: bool) -> np.ndarray:
    """Of each number: whether it is NaN, infinite or finite, and its sign; of numbers near zero only if `signed`."""
    values = values if signed else np.where(np.abs(values) < 1e-6, 0.0, values)
    kind = np.where(np.isnan(values), 3, np.where(np.isinf(values), 2, 0))
    return np.where(np.isnan(values), kind, kind + 10 * np.signbit(values))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_a_pass_keeps_signs_of_zeros_and_numbers_that_are_not_finite(case: Case) -> None:
    program = parse(case.given)
    # Rounded operands decide the signs of sums that cancel: tests/kernels/test_bfloat16.py has the special numbers.
    if not case.wanted.startswith("%") or case.name == "unify-nan" or named(case.name) in ON_REQUEST:
        return
    made, signed = run(program, [named(case.name)]), _WITHOUT_SIGNS_OF_ZEROS.isdisjoint((case.name, case.title))
    corners = [each for each in _CORNERS if case.name not in _WITHOUT_NAN or not np.isnan(each)]
    for seed in range(12):
        for wanted, given in zip(*(_of_corners(each, seed, corners) for each in (program, made)), strict=True):
            if wanted.dtype.kind == "f":
                np.testing.assert_array_equal(_class(given, signed), _class(wanted, signed))
            else:
                np.testing.assert_array_equal(given, wanted)


@pytest.mark.sweep("0", "1", "2", "3", "4", "5", "6", "7")
@pytest.mark.parametrize("seed", range(20))
def test_every_pass_keeps_the_meaning_of_random_programs(seed: int) -> None:
    program = Grower(np.random.default_rng(seed), symbolic=seed % 2 == 1).program()
    verify(program)
    for each in PASSES:
        made = run(program, [each])
        if made is not program:
            _require_same_answers(program, made)
        program = made


def printed(name: str) -> str:
    """The file of the pass `name`, with what it makes now."""
    made = []
    for case in cases_of(name, (FOLDER / f"{name}.txt").read_text()):
        now = case.made()
        wanted = "\n" + now if now.startswith("%") else f" {now}\n"
        made.append(f"## {case.title}\n{case.given.strip()}\n->{wanted}")
    return "\n".join(made)


if __name__ == "__main__":
    sys.stdout.write(printed(sys.argv[1]))
