"""The part of a log that shows the reason of a failure. Logs have what compilers and models print: untrusted. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Characters that XML 1.0 forbids, and bidirectional controls, which display text in another order than it has.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# `error:` of compilers and of this tool, Python's exceptions, and the `***` of make, glibc and Abseil.
_ERROR = re.compile(
    r"(?:^|[\s:\]])(?:fatal |internal )?error:|^\w*(?:Error|Exception):|^Traceback \(|\*\*\* ", re.IGNORECASE
)
# Lines before and after the first error, lines at the end, characters of a line.
_BEFORE, _AFTER, _END, _WIDTH = 12, 40, 12, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a log, cut to what a page shows. `number` counts from 1."""

    number: int
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The lines around the first error, and the last lines; lines between `parts` are cut. `path` is the whole log."""

    path: str
    parts: tuple[tuple[Line, ...], ...]

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(line for part in self.parts for line in part)


def plain(text: str) -> str:
    """`text` without terminal sequences; control characters that have no place in a page or in XML become U+FFFD."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def excerpt(text: str, path: str, error: str = "") -> Excerpt | None:
    """The part of a log to show; the first error is the first line that looks like one, or that contains the first line
    of `error`. None for an empty log.
    """
    lines = plain(text).rstrip("\n").split("\n")
    if lines == [""]:
        return None
    first = _first_error(lines, plain(error).partition("\n")[0].strip())
    last = len(lines)
    ranges = [(max(0, last - _END), last)]
    if first is not None:
        begin, end = max(0, first - _BEFORE), min(last, first + _AFTER)
        # One range if both meet, because pages show a gap between two.
        ranges = [(begin, last)] if end >= ranges[0][0] else [(begin, end), *ranges]
    parts = tuple(
        tuple(
            Line(number=number + 1, text=_cut(lines[number]), is_error=number == first) for number in range(begin, end)
        )
        for begin, end in ranges
    )
    return Excerpt(path=path, parts=parts)


def _first_error(lines: list[str], told: str) -> int | None:
    for number, line in enumerate(lines):
        if _ERROR.search(line) or (told and told in line):
            return number
    return None


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
