"""The plot of the README: it has the figures of the published results, and leaves out none."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from tools import make_summary_plot as summary

ROOT = Path(__file__).resolve().parents[2]
PLOT = ROOT / "docs" / "benchmarks" / "summary.svg"


def test_the_plot_is_that_of_the_published_results() -> None:
    assert PLOT.read_text(encoding="utf-8") == summary.drawn(summary.results()), "python tools/make_summary_plot.py"


def test_each_cell_is_a_dot_within_the_plot() -> None:
    svg = ET.parse(PLOT).getroot()
    dots = [each for each in svg.iter() if each.get("class") == "cell"]
    (said,) = (each.text or "" for each in svg.iter() if each.get("id") == "text")
    assert re.findall(r"of (\d+) cells", said) == [str(len(dots))]
    assert len(dots) == sum(len(each.batch_sizes) for group in summary.results().values() for each in group)
    assert all(12 <= float(each.attrib["cx"]) <= 388 for each in dots)
    assert PLOT.stat().st_size < 20_000


def test_the_readme_and_the_first_page_show_it() -> None:
    assert "](docs/benchmarks/summary.svg)" in (ROOT / "README.md").read_text()
    assert "](benchmarks/summary.svg)" in (ROOT / "docs" / "index.md").read_text()
