"""Draw docs/benchmarks/summary.svg, the plot of the README: all cells of the published benchmarks, and some of them.

    python tools/make_summary_plot.py

It measures nothing; its figures are those of docs/benchmarks/*.json. It is as wide as a telephone, and needs no fonts.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tfaot_pkg.ground.documents import convert  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.measure.bench import table  # noqa: E402
from tfaot_pkg.measure.bench.results import Bench  # noqa: E402

RESULTS = ROOT / "docs" / "benchmarks"
GROUPS = {
    "engines": "dense and convolutional networks",
    "families": "networks of other families",
    "onnx": "networks from PyTorch, as ONNX",
    "trees": "ensembles of decision trees",
}
CELLS = (
    ("engines", "dnn_5x128_tanh", 1, "5 dense layers of 128"),
    ("engines", "dnn_5x128_tanh", 256, "5 dense layers of 128, batch 256"),
    ("families", "lstm", 1, "LSTM of 64, 60 steps"),
    ("families", "transformer", 16, "attention, 64 items, batch 16"),
    ("families", "residual", 16, "3 residual blocks, batch 16"),
    ("families", "wide", 1, "4 dense layers of 1024"),
    ("trees", "trees_200x6", 1, "200 trees of depth 6"),
)
"""Group, network, batch size (1 where the title has none), title."""
_LEFT, _RIGHT, _WIDTH = 12.0, 388.0, 400.0
_LEAST = 0.06  # the ratio at the left end; the right end has 1.2
_STYLE = """svg { font: 12px system-ui, sans-serif; }
svg { --page: #f6f8fa; --ours: #d55e00; --other: #9aa4af; --text: #24292f; }
@media (prefers-color-scheme: dark) { svg { --page: #161b22; --other: #6e7781; --text: #e6edf3; } }
.page { fill: var(--page); } text { fill: var(--text); } .head { font-weight: 600; font-size: 13px; }
.middle { text-anchor: middle; } .ours { fill: var(--ours); } .other { fill: var(--other); }
.cell { fill: var(--ours); fill-opacity: 0.5; } .line { stroke: var(--other); }"""


def results() -> dict[str, list[Bench]]:
    """The published results by groups."""
    found = {}
    for group in GROUPS:
        document = json.loads((RESULTS / f"{group}.json").read_text())
        found[group] = [convert(Bench, each) for each in document.get("networks") or document["models"]]
    return found


def cells(benches: list[Bench]) -> list[float]:
    """Our time over that of the fastest other engine, in each cell."""
    ratios = [table.ratio_to_peers(each, size) for each in benches for size in each.batch_sizes]
    return [ratio for ratio in ratios if not math.isnan(ratio)]


def place(ratio: float) -> float:
    """Where a ratio stands."""
    share = math.log(ratio / _LEAST) / math.log(1.2 / _LEAST)
    return _LEFT + max(share, 0.0) * (_RIGHT - _LEFT)


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{f" class={json.dumps(kind)}" if kind else ""}>{escape(words)}</text>'


def strips(found: dict[str, list[Bench]], top: float) -> Iterator[str]:
    """A row for each group, with a dot for each cell."""
    yield text(_LEFT, top, "our time over that of the fastest other engine", "head")
    bottom = top + 12 + 38 * len(GROUPS)
    for ratio in (0.1, 0.2, 0.5, 1.0):
        dashes = "" if ratio == 1 else ' stroke-dasharray="2 3"'
        x = round(place(ratio), 1)
        yield f'<line class="line" x1="{x:g}" x2="{x:g}" y1="{top + 8:g}" y2="{bottom:g}"{dashes}/>'
        yield text(x, bottom + 14, f"{ratio:g}", "middle")
    for row, (group, title) in enumerate(GROUPS.items()):
        ratios = cells(found[group])
        y = top + 24 + 38 * row
        yield text(_LEFT, y, f"{len(found[group])} {title}")
        yield from (f'<circle class="cell" cx="{place(each):.1f}" cy="{y + 13:g}" r="4"/>' for each in sorted(ratios))


def bars(found: dict[str, list[Bench]], top: float) -> Iterator[str]:
    """Two bars for each chosen cell: ours, and the fastest other engine's, which has the whole width."""
    yield text(_LEFT, top, "microseconds per run, for example", "head")
    for line, (group, name, size, title) in enumerate(CELLS):
        (bench,) = (each for each in found[group] if each.model == name)
        ours, other = table.picked_ours(bench, size), table.best_peer(bench, size)
        assert ours and other
        mine, theirs = (cell.median for row in (ours, other) if (cell := row.cell(size)))
        y = top + 20 + 46 * line
        yield text(_LEFT, y, title)
        for bar, (kind, nanoseconds, who) in enumerate((("ours", mine, "ours"), ("other", theirs, other.title))):
            width = 220 * nanoseconds / max(mine, theirs)
            yield f'<rect class="{kind}" x="{_LEFT:g}" y="{y + 5 + 14 * bar:g}" width="{width:.1f}" height="11"/>'
            yield text(round(_LEFT + width + 5, 1), y + 15 + 14 * bar, f"{table.micro(nanoseconds)} {who}")


def drawn(found: dict[str, list[Bench]]) -> str:
    every = [ratio for group in found.values() for ratio in cells(group)]
    first = sum(ratio <= 1 for ratio in every)
    said = (
        f"Ours is the fastest in {first} of {len(every)} cells (a model at a batch size); ratios are {min(every):.2f} "
        f"to {max(every):.2f}."
    )
    middle = 26 + 12 + 38 * len(GROUPS) + 46
    height = middle + 20 + 46 * len(CELLS)
    begin = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="560" role="img" aria-labelledby="title text"'
        f' viewBox="0 0 {_WIDTH:g} {height}">'
    )
    parts = [
        begin,
        f'<title id="title">Times of compiled models beside other engines</title>\n<desc id="text">{said}</desc>',
        f'<style>\n{_STYLE}\n</style>\n<rect class="page" width="{_WIDTH:g}" height="{height}" rx="8"/>',
        *strips(found, 26),
        *bars(found, middle),
    ]
    return "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    (RESULTS / "summary.svg").write_text(drawn(results()), encoding="utf-8")
