"""Selections as text: selections/NAME.txt has programs beside the form that each of their operations takes.

The form of the files is that of tests/compiler/passes. `python -m tests.compiler.test_selection NAME` prints a file with
what is selected now, for a reader to judge.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.random_programs import Grower
from tests.compiler.test_passes import Case, cases_of
from tfaot_pkg.compiler import emit
from tfaot_pkg.compiler.selection import CALLED, select
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified
from tools.selection_text import text_of_selection

FOLDER = Path(__file__).parent / "selections"
CASES = [case for file in sorted(FOLDER.glob("*.txt")) for case in cases_of(file.stem, file.read_text())]


def made(case: Case) -> str:
    return text_of_selection(verified(parse(case.given), "reading"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_operations_take_the_forms_that_the_text_says(case: Case) -> None:
    assert made(case).strip() == case.wanted.strip()


def test_what_is_called_has_a_function_that_makes_its_code() -> None:
    assert {*emit._STORED, *emit._SEVERAL} == CALLED


def test_no_operation_takes_two_forms() -> None:
    for seed in range(20):
        program = Grower(np.random.default_rng(seed), symbolic=seed % 2 == 1).program()
        selection = select(program)
        together = [value for loop in selection.together for value in loop.values]
        assert len(together) == len(set(together)), seed
        assert all(set(loop.written) <= set(loop.values) for loop in selection.together), seed
        assert not selection.named & {*together, *selection.inlined}, seed


if __name__ == "__main__":
    (name,) = sys.argv[1:]
    for each in cases_of(name, (FOLDER / f"{name}.txt").read_text()):
        sys.stdout.write(f"## {each.title}\n{each.given.strip()}\n->\n{made(each)}\n")
