"""Text for people: counts in sentences, and text from elsewhere on a terminal."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys rather than shows, except ends of lines and tabs."""


def counted(count: int, what: str) -> str:
    """`1 task`, `2,000 tasks`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    """`text`, which a model or a server may have written, with control characters escaped."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
