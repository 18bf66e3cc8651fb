"""Write docs/coverage.json and docs/coverage.md.

    python tools/make_coverage.py [--whole] [FOLDER]

Takes over the cells in FOLDER, which the tests wrote (tests/coverage.py). Others stay as they are; with --whole only
those of toolchains that were not tried. Without FOLDER the page alone is written again.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.coverage import DATA, Row, read  # noqa: E402 (after the path to the checkout)

PAGE = ROOT / "docs" / "coverage.md"
_HEAD = """<!-- Written by tools/make_coverage.py; do not edit. -->
# Coverage: constructs and toolchains

What each construct becomes with each toolchain, as the tests found it. `program` is our own compiler, `xla` the code
that tfcompile makes (`compilation.engine`). A number is a time in seconds: the code gives TensorFlow's answers, and
compiling and checking it took so long (of single operations without the C++ compiler, which takes all of a family
together). A number in brackets: refused, with that message below. Empty: not tried. XLA computes what a program lacks,
so a model whose `program` is refused may well be built.

Tests fail if a cell gets worse than here ([tests/coverage.py](../tests/coverage.py)). `make coverage` tries everything
again and rewrites the page; releases of TensorFlow between the oldest and the newest one are tried before a release of
this tool, with `TFAOT_TEST_TOOLCHAINS=all make coverage`.
"""


def page(rows: Sequence[Row]) -> str:
    columns = sorted({(row.version, row.engine) for row in rows}, key=lambda c: ([*map(int, c[0].split("."))], c[1]))
    messages = list(dict.fromkeys(row.cell.message for row in rows if row.cell.outcome == "refused"))
    numbers = {message: number for number, message in enumerate(messages, 1)}
    parts = [_HEAD, "\n".join(_summary(rows, columns))]
    for family in dict.fromkeys(row.construct.partition(": ")[0] for row in rows):
        of_family = [row for row in rows if row.construct.partition(": ")[0] == family]
        used = [column for column in columns if any((row.version, row.engine) == column for row in of_family)]
        parts.append("\n".join([f"\n## {family}\n", *_table(of_family, used, numbers)]))
    parts.append("\n".join(["\n## Messages\n", *(f"{number}. {text}" for text, number in numbers.items())]))
    return "\n".join(parts) + "\n"


def _summary(rows: Sequence[Row], columns: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f"\n{len({row.construct for row in rows})} constructs.\n"
    yield "| toolchain | engine | verified | refused |"
    yield "|---|---|---|---|"
    for version, engine in columns:
        counts = Counter(row.cell.outcome for row in rows if (row.version, row.engine) == (version, engine))
        yield f"| {version} | `{engine}` | {counts['verified']} | {counts['refused']} |"


def _table(rows: Sequence[Row], columns: Sequence[tuple[str, str]], numbers: dict[str, int]) -> Iterator[str]:
    yield f"| construct | {' | '.join(f'{version} `{engine}`' for version, engine in columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    cells = {row.key: row.cell for row in rows}
    for construct in dict.fromkeys(row.construct for row in rows):
        texts = []
        for version, engine in columns:
            cell = cells.get((construct, version, engine))
            refused = cell is not None and cell.outcome == "refused"
            texts.append("" if cell is None else f"({numbers[cell.message]})" if refused else f"{cell.seconds:.2f}")
        name = construct.partition(": ")[2].replace("|", "\\|")
        yield f"| {name} | {' | '.join(texts)} |"


def merged(before: Sequence[Row], found: Sequence[Row], *, whole: bool = False) -> list[Row]:
    """`before`, with `found` in place of the same cells, sorted; if `whole`, of all cells of the same toolchains."""
    tried = {row.version for row in found} if whole else set()
    rows = {row.key: row for row in [*(row for row in before if row.version not in tried), *found]}
    return [rows[key] for key in sorted(rows)]


def main(arguments: Sequence[str]) -> None:
    before = read(DATA.read_text()) if DATA.exists() else []
    folders = [Path(argument) for argument in arguments if argument != "--whole"]
    files = [path for folder in folders for path in sorted(folder.glob("*.json"))]
    found = [row for path in files for row in read(f"[{path.read_text()}]")]
    rows = merged(before, found, whole="--whole" in arguments)
    DATA.write_text("[\n" + ",\n".join(json.dumps(asdict(row), ensure_ascii=False) for row in rows) + "\n]\n")
    PAGE.write_text(page(rows))
    print(f"{len(files)} cells taken over; {len(rows)} in {DATA.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
