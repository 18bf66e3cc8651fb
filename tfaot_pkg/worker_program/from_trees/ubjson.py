"""A reader of UBJSON (https://ubjson.org/, draft 12) as XGBoost writes it: XGBoost's own reader trusts its input."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from framework_types import Array


_NUMBERS = {"i": "b", "U": "B", "I": "h", "l": "i", "L": "q", "d": "f", "D": "d"}
_DEEPEST = 64


def decoded(content: bytes) -> Any:
    """The value in `content`. Raises ValueError if it is damaged."""
    reader = _Reader(content)
    try:
        return reader.value(reader.marker(), 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError("the file is cut off, or no UBJSON") from error


def fields(content: bytes) -> dict[str, bytes]:
    """The fields of the object in `content`, each as UBJSON of its own. Raises ValueError as `decoded`."""
    reader = _Reader(content)
    try:
        if reader.marker() != "{":
            raise ValueError("no object of UBJSON")
        return dict(reader.fields())
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError("the file is cut off, or no UBJSON") from error


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def marker(self) -> str:
        self._at += 1
        return chr(self._content[self._at - 1])

    def fields(self) -> Iterator[tuple[str, bytes]]:
        while self._content[self._at : self._at + 1] != b"}":
            name, first = self._text(), self._at
            self.value(self.marker(), 1)
            yield name, self._content[first : self._at]

    def value(self, marker: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError(f"values nested more than {_DEEPEST} deep")
        if marker in _NUMBERS:
            return self._number(marker)
        if marker == "S":
            return self._text()
        if marker == "[":
            return self._list(depth)
        if marker == "{":
            return self._object(depth)
        if marker in "TFZ":
            return {"T": True, "F": False, "Z": None}[marker]
        raise ValueError(f"a value of the unknown kind {marker!r}")

    def _number(self, marker: str) -> Any:
        code = ">" + _NUMBERS[marker]
        (found,) = struct.unpack_from(code, self._content, self._at)
        self._at += struct.calcsize(code)
        return found

    def _size(self) -> int:
        size = self._number(self.marker())
        # No value takes less than a byte, so a longer list could not follow: nothing is allocated for it.
        if not isinstance(size, int) or not 0 <= size <= len(self._content):
            raise ValueError(f"a length of {size}")
        return size

    def _text(self) -> str:
        size = self._size()
        self._at += size
        if self._at > len(self._content):
            raise IndexError
        return self._content[self._at - size : self._at].decode()

    def _list(self, depth: int) -> list[Any]:
        marker, kind, size = self.marker(), "", None
        if marker == "$":
            kind, marker = self.marker(), self.marker()
        if marker == "#":
            size = self._size()
        # Typed lists ($ and #) are numbers side by side, big-endian like all of UBJSON.
        if kind:
            if size is None or kind not in _NUMBERS:
                raise ValueError("a list of numbers without a length")
            dtype = np.dtype(">" + _NUMBERS[kind])
            found: Array = np.frombuffer(self._content, dtype, size, self._at)
            self._at += found.nbytes
            numbers: list[int | float] = found.tolist()
            return numbers
        made: list[Any] = []
        while len(made) < size if size is not None else marker != "]":
            made.append(self.value(marker if size is None else self.marker(), depth + 1))
            marker = self.marker() if size is None else marker
        return made

    def _object(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while self._content[self._at : self._at + 1] != b"}":
            name = self._text()  # names have no marker of their own
            made[name] = self.value(self.marker(), depth + 1)
        self._at += 1
        return made
