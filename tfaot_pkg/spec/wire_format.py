"""Fields of messages of Protocol Buffers: each is a number, a kind of value, and the value or its length.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5
"""Kinds of values."""


class Damaged(ValueError):
    """Why a file is not read; `is_cut` if it has the right beginning."""

    def __init__(self, why: str, *, is_cut: bool = False) -> None:
        super().__init__(why)
        self.is_cut = is_cut


@dataclass(frozen=True, slots=True)
class Field:
    """A field, whose value has the bytes from `start` to `end`."""

    number: int
    kind: int
    start: int
    end: int


def fields(content: mmap.mmap | bytes) -> Iterator[Field]:
    """Raises Damaged."""
    at, end = 0, len(content)
    while at < end:
        begin = at
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if not number or number >= 1 << 29 or kind not in (VARINT, EIGHT, LENGTH, FOUR):
            raise Damaged(f"no field of a message begins at byte {begin}")
        start = at
        if kind == VARINT:
            _, at = _varint(content, at)
        elif kind == LENGTH:
            size, start = _varint(content, at)
            at = start + size
        else:
            at += 8 if kind == EIGHT else 4
        if at > end:
            why = f"its field {number}, at byte {begin}, reaches to byte {at}, and the file ends at {end}"
            raise Damaged(why, is_cut=begin > 0)
        yield Field(number, kind, start, at)


def _varint(content: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and where it ends."""
    value = 0
    for place in range(10):
        if at + place >= len(content):
            raise Damaged("it ends within a number")
        byte = content[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise Damaged(f"no number begins at byte {at}")
