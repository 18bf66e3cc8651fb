"""Zstandard frames (RFC 8878) whose blocks are stored, or a byte that is repeated.

Python has no compressor for this format before 3.14. The frames are valid for every reader and the same bytes
everywhere. What they lack is compression: weights hardly have any, code and texts would shrink to a third.
"""

from __future__ import annotations

from typing import BinaryIO

_MAGIC = b"\x28\xb5\x2f\xfd"
_HEADER = b"\x00\x38"  # no checksum, no size, a window of 128 KiB
_BLOCK = 1 << 17
_STORED, _REPEATED = 0, 1


class StoredFrame:
    """A stream for writing one frame; `close` ends it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting = bytearray()
        stream.write(_MAGIC + _HEADER)

    def write(self, data: bytes, /) -> int:
        self._waiting += data
        while len(self._waiting) > _BLOCK:  # the last block is written by `close`, which may say that it is
            self._write(bytes(self._waiting[:_BLOCK]), is_last=False)
            del self._waiting[:_BLOCK]
        return len(data)

    def close(self) -> None:
        self._write(bytes(self._waiting), is_last=True)
        self._waiting.clear()

    def _write(self, block: bytes, *, is_last: bool) -> None:
        repeated = len(block) > 1 and block.count(block[:1]) == len(block)
        kind, content = (_REPEATED, block[:1]) if repeated else (_STORED, block)
        self._stream.write((is_last | kind << 1 | len(block) << 3).to_bytes(3, "little") + content)
