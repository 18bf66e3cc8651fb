"""Text for messages: counts, quoted values, and untrusted text on a terminal.

All output goes through `say` and `say_json`, or is drawn by `shown` of cli/progress.py: names and messages may come
from specs, archives, builds and servers, and control characters in them would change the terminal.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TextIO

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal or the direction of text, except ends of lines and tabs."""
_DELETE = "\x7f"


def counted(count: int, what: str) -> str:
    """`1 task`, `2,000 tasks`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def shown(text: str, limit: int = 60) -> str:
    """`text` in quotes, on one line, shortened: safe to print."""
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def unknown_of(given: str, known: Collection[str]) -> str:
    """The message for `given`, which is none of `known`: what may have been meant, and all that there are."""
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"{shown(given)} is not one of {', '.join(known)}{meant}"


def described(value: object) -> str:
    """A value as a message names it: `the string 'x'`, `the integer 5`, `a list`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the string {shown(value)}"
        case int() | float():
            return f"the number {number(value)}"
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"


def number(value: float) -> str:
    """A number as a message shows it, shortened."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def flops(operations: float) -> str:
    """A number of floating-point operations, with three digits."""
    for unit, size in (("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if operations >= 0.9995 * size:  # 999.9 kFLOP would be 1e+03 kFLOP
            return f"{operations / size:.3g} {unit}"
    return f"{operations:.0f} FLOP"


def size_text(size: int) -> str:
    """A size in bytes."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    # From 999.5 on, three digits would be written as 1e+03.
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.3g} {units[0]}"


def duration(nanoseconds: float) -> str:
    """A time: `850 ns`, `15 µs`, `2.4 ms`, `1.2 s`."""
    value, units = float(nanoseconds), ["ns", "µs", "ms", "s"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.0f} {units[0]}" if value >= 99.5 else f"{value:.2g} {units[0]}"


def printable(text: str) -> str:
    """`text`, possibly from a model or a server, with control characters escaped."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str, *, to: TextIO | None = None, head: str = "") -> None:
    """Print `text`, which is not trusted, on `to` (standard error) after `head`, which is our own."""
    terminal = to or sys.stderr
    terminal.write(f"{head}{printable(text)}\n")
    terminal.flush()


def say_json(document: Mapping[str, object], *, lines: bool = True) -> None:
    """Print `document` on standard output, on one line or many. JSON escapes all control characters except DEL."""
    text = json.dumps(document, indent=2 if lines else None)
    # In JSON text DEL can only be in a string, so it can be escaped afterwards.
    sys.stdout.write(text.replace(_DELETE, "\\u007f") + "\n")
    sys.stdout.flush()


AUTHORED = "contains_its_authors_operations"
"""The names of such operations in a validation report."""


def contains_text(operations: Sequence[str]) -> str:
    """What is said wherever a package with operations of its model's author is called verified; else empty."""
    return f"contains its author's operations: {', '.join(operations)}" if operations else ""


def table(heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    """Columns under their heads: texts to the left, numbers to the right, with commas between thousands."""
    cells = [heads, *[tuple(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    right = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    )
