"""What each construct becomes with each toolchain: recorded by the tests that try it, and compared with what it was.

docs/coverage.json has the cells of the last release or change, docs/coverage.md shows them (tools/make_coverage.py). A
test that finds out what becomes of a construct calls `record`, which fails if the cell got worse. With
TFAOT_COVERAGE set to a folder nothing is compared, and the cells are written there, for `make coverage`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tfaot_pkg.ground.keys import sha256_bytes

DATA = Path(__file__).resolve().parent.parent / "docs" / "coverage.json"
_RANKS = {"verified": 1, "refused": 0}

Key = tuple[str, str, str]
"""Construct, version of TensorFlow, and who compiles it: "program" (our compiler) or "xla"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`verified`: the code gives TensorFlow's answers; `refused`: the error `message` says why there is no code.

    `seconds` is what it took to compile and verify it.
    """

    outcome: Literal["verified", "refused"]
    seconds: float
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A cell with its place."""

    construct: str
    version: str
    engine: Literal["program", "xla"]
    cell: Cell

    @property
    def key(self) -> Key:
        return (self.construct, self.version, self.engine)


def record(row: Row) -> None:
    """Write `row`, or fail if it is worse than docs/coverage.json says. A new one fails nothing."""
    if folder := os.environ.get("TFAOT_COVERAGE"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{sha256_bytes(repr(row.key).encode())[:16]}.json").write_text(json.dumps(asdict(row)))
        return
    before = committed().get(row.key)
    fault = worse(before, row.cell) if before is not None else ""
    assert not fault, f"docs/coverage.json: {' / '.join(row.key)}: {fault}"


@contextmanager
def verified(construct: str, *, version: str, engine: Literal["program", "xla"]) -> Iterator[None]:
    """Record that what is done within, which builds and compares, succeeded, and how long it took."""
    start = time.perf_counter()
    yield
    cell = Cell(outcome="verified", seconds=round(time.perf_counter() - start, 1))
    record(Row(construct=construct, version=version, engine=engine, cell=cell))


def worse(before: Cell, now: Cell) -> str:
    """How a cell got worse; empty if it did not."""
    if _RANKS[now.outcome] < _RANKS[before.outcome]:
        return f"was {before.outcome}, is now {now.outcome}: {now.message}"
    return ""


@cache
def committed() -> Mapping[Key, Cell]:
    return {row.key: row.cell for row in read(DATA.read_text())} if DATA.exists() else {}


def read(text: str) -> list[Row]:
    return [Row(**{**each, "cell": Cell(**each["cell"])}) for each in json.loads(text)]
