"""Loops as text: loops/NAME.txt has programs beside the loops that the compiler makes of them.

The form is that of tests/compiler/passes: a case begins with `## ` and a sentence, and its loops stand behind `->`. A
file that has the name of a pass on loops has them before the pass and, behind `-> NAME`, after it.

`python -m tests.compiler.test_loop_texts NAME` prints the file with what is made now, for a reader to judge.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.compiler.test_passes import Case, cases_of
from tfaot_pkg.compiler.emit import LOOP_PASSES, loops_of
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified
from tools.loops_text import text_of_loop_pass, text_of_loops

FOLDER = Path(__file__).parent / "loops"
CASES = [case for file in sorted(FOLDER.glob("*.txt")) for case in cases_of(file.stem, file.read_text())]


def made(case: Case) -> str:
    program = verified(parse(case.given), "reading")
    return text_of_loop_pass(program, case.name) if case.name in LOOP_PASSES else text_of_loops(loops_of(program))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_a_program_becomes_the_loops_that_its_text_says(case: Case) -> None:
    assert made(case).strip() == case.wanted.strip()


def test_each_way_of_loops_has_a_text() -> None:
    text = "\n".join(case.wanted for case in CASES)
    ways = (
        "chain over", "registers, as", "rows in vectors", "vectors, and rows in vectors for the rest", "by elements",
        "transposed tiles", "interleaved tiles", "vectors of 64 bits", "by bytes", "vectors that overlap", "once, ",
        "along rows", "along columns", "with a row in each lane", "with rows in vectors", "softmax [", "allocate v0",
    )  # fmt: skip
    assert [way for way in ways if way not in text] == []


if __name__ == "__main__":
    (name,) = sys.argv[1:]
    for each in cases_of(name, (FOLDER / f"{name}.txt").read_text()):
        sys.stdout.write(f"## {each.title}\n{each.given.strip()}\n->\n{made(each)}\n")
