"""Reading gzip strictly: one member with the header that `gzip.GzipFile` writes without name and time, and no more.

`gzip` itself accepts names, comments, times and extra fields in the header, and further members and zeros behind the
first one. None of these is a part of what it gives, so nobody would look at them.
"""

from __future__ import annotations

import zlib
from typing import BinaryIO

# RFC 1952: deflate, no flags, no time, no extra flags (level 6), unknown system.
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_TRAILER = 8  # CRC-32 and size, both little-endian
_PIECE = 1 << 18
# deflate's own bound is smaller: 5 bytes for each stored block of 16 KB, and some.
_MOST_OVERHEAD, _OVER = 1 << 10, 1 << 10


class NotCanonical(Exception):
    """What is wrong with a gzip stream."""


class Gunzip:
    """The content of `file`. Reading to its end checks all of it.

    Raises NotCanonical, EOFError, zlib.error, OSError.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflate = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._input = b""
        self._crc = self._size = self._taken = 0
        self._ended = False
        if file.read(len(_HEADER)) != _HEADER:
            raise NotCanonical("its gzip header is not the one that tfaot-pkg writes")

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, more than 0; none at the end."""
        while not self._ended:
            given = self._input or self._file.read(_PIECE)
            if not given:
                raise EOFError("it is cut off")
            data = self._inflate.decompress(given, size)
            self._input = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            self._crc, self._size = zlib.crc32(data, self._crc), self._size + len(data)
            self._taken += len(given) - len(self._input)
            # Empty blocks give nothing, however many there are.
            if self._taken > self._size + self._size // _OVER + _MOST_OVERHEAD + _PIECE:
                raise NotCanonical("it is longer than its content")
            if self._inflate.eof:
                self._finish()
            if data:
                return data
        return b""

    def _finish(self) -> None:
        self._ended = True
        trailer = self._input
        while len(trailer) <= _TRAILER and (more := self._file.read(_TRAILER + 1 - len(trailer))):
            trailer += more
        if len(trailer) > _TRAILER:
            raise NotCanonical("there are bytes after the end of its gzip stream")
        if trailer != self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little"):
            raise NotCanonical("its checksum or its size is wrong")
