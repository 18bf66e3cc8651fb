"""benchmarks/fpga.py: the page is the one of the published results."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.samples import REPOSITORY
from tfaot_pkg.ground.process import run

pytestmark = pytest.mark.slow


def test_the_page_is_drawn_from_the_results(tmp_path: Path) -> None:
    published = REPOSITORY / "docs" / "benchmarks"
    program = REPOSITORY / "benchmarks" / "fpga.py"
    printed = run([sys.executable, program, "--from", published / "fpga.json", "--folder", tmp_path]).stdout
    assert (tmp_path / "fpga.md").read_text() == (published / "fpga.md").read_text()
    assert printed.startswith("Equal bits in 11 of 11 networks, on 100,000 rows each")
