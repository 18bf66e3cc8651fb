"""Static libraries: the members of an `ar` archive in GNU's form, from files that nobody has checked."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MAGIC = b"!<arch>\n"
_THIN = b"!<thin>\n"
_HEADER = 60
_END = b"`\n"
_INDEX = frozenset({"/", "/SYM64/"})  # which member defines which symbol: for linkers
_LONG_NAMES = "//"
# Digits only: `int` would also take signs and underscores.
_NUMBER = re.compile(rb"[0-9]{1,10} *")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")


class MalformedArchive(Exception):
    """The file is not a static library, or a damaged one; the text says why."""


def is_archive(data: memoryview) -> bool:
    return bytes(data[: len(_MAGIC)]) in (_MAGIC, _THIN)


def members_of(data: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Name and content of each object. Raises MalformedArchive.

    Thin archives, which only name files of the machine that made them, and names with folders are rejected.
    """
    magic = bytes(data[: len(_MAGIC)])
    if magic == _THIN:
        raise MalformedArchive("it is a thin archive: its objects are elsewhere")
    if magic != _MAGIC:
        raise MalformedArchive("it is not an archive")
    long_names = b""
    at = len(_MAGIC)
    while at < len(data):
        name, content = _member(data, at)
        # Members begin at even offsets.
        at += _HEADER + len(content) + len(content) % 2
        if name == _LONG_NAMES:
            long_names = bytes(content)
        elif name not in _INDEX:
            yield _object_name(name, long_names), content


def _member(data: memoryview, at: int) -> tuple[str, memoryview]:
    header = bytes(data[at : at + _HEADER])
    if len(header) < _HEADER or header[58:60] != _END or not _NUMBER.fullmatch(header[48:58]):
        raise MalformedArchive("the head of a member is damaged")
    size = int(header[48:58])
    start = at + _HEADER
    if start + size > len(data):
        raise MalformedArchive("a member is cut off")
    return header[:16].decode("latin-1").rstrip(" "), data[start : start + size]


def _object_name(name: str, long_names: bytes) -> str:
    if re.fullmatch(r"/[0-9]{1,10}", name):
        start = int(name[1:])
        end = long_names.find(b"/\n", start)
        if end < 0:
            raise MalformedArchive("the name of a member is missing")
        name = long_names[start:end].decode("latin-1") + "/"
    plain = name.removesuffix("/")
    if not _PLAIN.fullmatch(plain):
        raise MalformedArchive(f"a member has the name {plain!r}")
    return plain
