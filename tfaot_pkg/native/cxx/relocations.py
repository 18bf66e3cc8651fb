"""Relocations that a linker leaves behind in relocatable objects.

`ld -r --gc-sections` removes a function and its entry of `.eh_frame`, but keeps the relocation of the entry as one of
kind NONE, of 24 bytes (binutils, `RELOC_AGAINST_DISCARDED_SECTION` in elf-bfd.h and elfxx-target.h).
"""

from __future__ import annotations

import struct
from pathlib import Path

from tfaot_pkg.package.binary.elf import opened, read_elf

_RELOCATION = struct.Struct("<QQq")
_NONE = 0
"""On every machine, with no symbol."""
_RELA = 4
_SECTIONS_AT = struct.Struct("<Q")
_HEADER_OF_SECTION = 64
_AT, _SIZE = 40, 32
"""Where the file header has the place of the section headers, and a section header the size of its section."""


def drop_empty(code: Path) -> None:
    """Remove the relocations of an object that are of kind NONE; others keep their order.

    Their sections become smaller in place, so that the file has gaps until objcopy writes it anew. Raises MalformedElf.
    """
    kept: list[tuple[int, bytes, int]] = []
    with opened(code) as data:
        (headers,) = _SECTIONS_AT.unpack_from(data, _AT)
        for index, section in enumerate(read_elf(data).sections):
            if section.kind == _RELA:
                every = _RELOCATION.iter_unpack(data[section.offset : section.offset + section.size])
                left = b"".join(_RELOCATION.pack(*each) for each in every if each[1] != _NONE)
                if len(left) < section.size:
                    kept.append((section.offset, left, headers + index * _HEADER_OF_SECTION + _SIZE))
    with code.open("r+b") as file:
        for offset, left, size in kept:
            file.seek(offset)
            file.write(left)
            file.seek(size)
            file.write(_SECTIONS_AT.pack(len(left)))
