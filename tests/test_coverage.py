"""The page of constructs and toolchains is what its data say, and a cell that gets worse is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coverage import DATA, Cell, Row, committed, read, record, worse
from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS
from tools.make_coverage import PAGE, merged, page

VERIFIED = Cell(outcome="verified", seconds=1.0)
REFUSED = Cell(outcome="refused", seconds=0.0, message="XLA has no kernel for it")


def row(construct: str, cell: Cell, version: str = "2.17.1") -> Row:
    return Row(construct=construct, version=version, engine="program", cell=cell)


def test_the_page_is_made_of_the_data() -> None:
    assert PAGE.read_text() == page(read(DATA.read_text())), "python tools/make_coverage.py"


def test_the_data_hold_enough_constructs_of_each_toolchain() -> None:
    for version in TOOLCHAINS:
        assert len({construct for construct, tried, _ in committed() if tried == version}) >= 120
    assert all(cell.message for cell in committed().values() if cell.outcome == "refused")


def test_what_was_verified_and_is_refused_is_worse() -> None:
    assert worse(VERIFIED, REFUSED) == "was verified, is now refused: XLA has no kernel for it"
    assert not worse(REFUSED, VERIFIED) and not worse(VERIFIED, VERIFIED) and not worse(REFUSED, REFUSED)


def test_a_worse_cell_fails_the_test_that_found_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TFAOT_COVERAGE", raising=False)
    known = next(key for key, cell in committed().items() if cell.outcome == "verified")
    with pytest.raises(AssertionError, match="is now refused"):
        record(
            Row(
                construct=known[0], version=known[1], engine="program" if known[2] == "program" else "xla", cell=REFUSED
            )
        )
    record(row("models: not there yet", VERIFIED))
    monkeypatch.setenv("TFAOT_COVERAGE", str(tmp_path))
    record(row("models: not there yet", REFUSED))
    assert [each for path in tmp_path.iterdir() for each in read(f"[{path.read_text()}]")] == [
        row("models: not there yet", REFUSED)
    ]


def test_new_cells_replace_the_same_ones() -> None:
    before = [row("a", VERIFIED), row("b", VERIFIED), row("b", VERIFIED, version="2.18.1")]
    assert merged(before, [row("b", REFUSED)]) == [before[0], row("b", REFUSED), before[2]]
    assert merged(before, [row("b", REFUSED)], whole=True) == [row("b", REFUSED), before[2]]
