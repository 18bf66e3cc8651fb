"""ELF files as values: 64-bit, little-endian, from files that nobody has checked (System V gABI, chapters 4 and 5).

Its business is what a file says; `findings` decides what it may say. A shared library is read as the loader reads it,
by its program headers and its dynamic section: section headers may be missing or false. Every count and offset is
checked against the size of the file, so that reading takes time and memory proportional to it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

MAGIC = b"\x7fELF"

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_RELOCATION = struct.Struct("<QQq")
_NEED = struct.Struct("<HHIII")
_NEED_VERSION = struct.Struct("<IHHII")
_HASH_HEADER = struct.Struct("<II")
_GNU_HASH_HEADER = struct.Struct("<IIII")
_WORD = struct.Struct("<I")
_ADDRESS = struct.Struct("<Q")

_PAGE = 4096
_MAX_NAME = 1 << 16
_UNDEFINED = 0
_LOCAL = 0
_DEFAULT = 0
_EXTENDED = 0xFFFF
_VERSION_BITS = 0x7FFF  # the highest bit of an index hides the symbol from the linker


class FileKind(IntEnum):
    """`e_type`."""

    OBJECT = 1
    PROGRAM = 2
    SHARED = 3


class SegmentKind(IntEnum):
    """`p_type`, those that are read here."""

    LOAD = 1
    DYNAMIC = 2
    INTERPRETER = 3
    STACK = 0x6474E551


class Tag(IntEnum):
    """`d_tag`, those that are read here."""

    NEEDED = 1
    HASH = 4
    STRTAB = 5
    SYMTAB = 6
    RELA = 7
    RELASZ = 8
    STRSZ = 10
    INIT = 12
    FINI = 13
    SONAME = 14
    PLTRELSZ = 2
    JMPREL = 23
    INIT_ARRAYSZ = 27
    FINI_ARRAYSZ = 28
    GNU_HASH = 0x6FFFFEF5
    VERSYM = 0x6FFFFFF0
    VERNEED = 0x6FFFFFFE
    VERNEEDNUM = 0x6FFFFFFF


class MalformedElf(Exception):
    """The file is not an ELF file, or a damaged one; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A program header. `flags` are those of memory: 1 executable, 2 writable, 4 readable."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section header. `flags`: 1 writable, 2 part of the program's memory, 4 executable."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """An entry of a symbol table. `version` ("GLIBC_2.2.5") is that of a symbol that another library must define."""

    name: str
    binding: int
    kind: int
    visibility: int
    section: int
    version: str = ""

    @property
    def is_undefined(self) -> bool:
        return self.section == _UNDEFINED

    @property
    def is_local(self) -> bool:
        return self.binding == _LOCAL

    @property
    def is_exported(self) -> bool:
        return not self.is_undefined and not self.is_local and self.visibility == _DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """An ELF file: its headers, and `data` for what they lead to. At `end`, the last part that they lead to ends."""

    data: memoryview
    end: int
    kind: int
    machine: int
    segments: tuple[Segment, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dynamic:
    """What the loader reads of a shared library or program.

    `versions` are (library, version) pairs that the file needs; `relocations` are the kinds in use;
    `initializers` and `finalizers` count the functions that run when the file is loaded and unloaded.
    """

    tags: tuple[tuple[int, int], ...]
    needed: tuple[str, ...]
    soname: str
    symbols: tuple[Symbol, ...]
    versions: tuple[tuple[str, str], ...]
    relocations: frozenset[int]
    initializers: int
    finalizers: int


@contextmanager
def opened(path: Path) -> Iterator[memoryview]:
    """The content of a file, without reading all of it into memory. Raises OSError."""
    with path.open("rb") as file:
        # An empty file cannot be mapped.
        if not path.stat().st_size:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                yield view
            finally:
                view.release()


def read_elf(data: memoryview) -> Elf:
    """The headers of an ELF file. Raises MalformedElf."""
    header = _HEADER.unpack(_slice(data, 0, _HEADER.size, "the file header"))
    ident, kind, machine, _, _, segments_at, sections_at, *_ = header
    segment_size, segments, section_size, sections, names = header[9:]
    if ident[:7] != MAGIC + b"\x02\x01\x01":
        raise MalformedElf("it is no 64-bit little-endian ELF file")
    if (segments and segment_size != _SEGMENT.size) or (sections_at and section_size != _SECTION.size):
        raise MalformedElf("its headers have another size than the format says")
    raw = _table(_SECTION, data, sections_at, sections, "the section headers") if sections_at else []
    if sections_at and sections == 0:  # too many for the header's field
        (first,) = _table(_SECTION, data, sections_at, 1, "the section headers")
        raw = _table(_SECTION, data, sections_at, first[5], "the section headers")
    # The index does not fit the header's field: the first section holds it.
    names = raw[0][6] if names == _EXTENDED and raw else names
    found_segments, found_sections = _segments(data, segments_at, segments), _sections(data, raw, names)
    ends = [
        segments_at + segments * _SEGMENT.size,
        sections_at + len(raw) * _SECTION.size,
        *(segment.offset + segment.file_size for segment in found_segments),
        *(section.offset + section.size for section in found_sections if section.kind != _NOBITS),
    ]
    return Elf(
        data=data,
        end=max(ends),
        kind=kind,
        machine=machine,
        segments=found_segments,
        sections=found_sections,
    )


def _segments(data: memoryview, offset: int, count: int) -> tuple[Segment, ...]:
    found = []
    end = 0
    for kind, flags, at, address, _, size, memory, _ in _table(_SEGMENT, data, offset, count, "the program headers"):
        if kind == SegmentKind.LOAD:
            if at + size > len(data) or size > memory or at % _PAGE != address % _PAGE:
                raise MalformedElf("a segment leads out of the file")
            # The later one would be mapped over the other: what is read here must be what the loader sees.
            if address // _PAGE * _PAGE < end:
                raise MalformedElf("segments overlap, or are not in order")
            end = -(-(address + memory) // _PAGE) * _PAGE
        found.append(Segment(kind=kind, flags=flags, offset=at, address=address, file_size=size))
    return tuple(found)


def _sections(data: memoryview, raw: list[tuple[int, ...]], names: int) -> tuple[Section, ...]:
    if not raw:
        return ()
    if names >= len(raw):
        raise MalformedElf("the section of names does not exist")
    strings = _Strings(_slice(data, raw[names][4], raw[names][5], "the names of sections"))
    return tuple(
        Section(name=strings.at(name), kind=kind, flags=flags, offset=at, size=size, link=link)
        for name, kind, flags, _, at, size, link, *_ in raw
    )


_SYMTAB = 2
_NOBITS = 8  # a section of zeros, which takes no room in the file


def symbols_of(elf: Elf) -> tuple[Symbol, ...]:
    """The symbol table that linkers read; nothing if there is none. Raises MalformedElf."""
    tables = [section for section in elf.sections if section.kind == _SYMTAB]
    if not tables:
        return ()
    if len(tables) > 1 or tables[0].link >= len(elf.sections):
        raise MalformedElf("it has not one symbol table with one table of names")
    (table,) = tables
    names = elf.sections[table.link]
    strings = _Strings(_slice(elf.data, names.offset, names.size, "the names of symbols"))
    raw = _slice(elf.data, table.offset, table.size, "the symbol table")
    return tuple(_symbols(raw, strings))


def _symbols(raw: bytes, strings: _Strings) -> Iterator[Symbol]:
    if len(raw) % _SYMBOL.size:
        raise MalformedElf("the symbol table is cut off")
    for name, info, other, section, _, _ in _SYMBOL.iter_unpack(raw):
        yield Symbol(name=strings.at(name), binding=info >> 4, kind=info & 15, visibility=other & 3, section=section)


def defined_symbols(path: Path) -> frozenset[str]:
    """Global and weak symbols that `path` (an object or a shared library) defines. Raises MalformedElf, OSError."""
    return frozenset(symbol.name for symbol in _linked(path) if not symbol.is_local and not symbol.is_undefined)


def undefined_symbols(path: Path) -> frozenset[str]:
    """Symbols that `path` needs from elsewhere. Raises MalformedElf, OSError."""
    return frozenset(symbol.name for symbol in _linked(path) if symbol.name and symbol.is_undefined)


def _linked(path: Path) -> tuple[Symbol, ...]:
    with opened(path) as data:
        return symbols_of(read_elf(data))


def dynamic_of(elf: Elf) -> Dynamic | None:
    """What the loader reads; None if the file is not for it. Raises MalformedElf."""
    segments = [segment for segment in elf.segments if segment.kind == SegmentKind.DYNAMIC]
    if not segments:
        return None
    # Readers differ in which of two they take: the loader could act upon the one that was not checked.
    if len(segments) > 1:
        raise MalformedElf("it has several dynamic sections")
    memory = _Memory(elf)
    tags = _tags(memory.read(segments[0].address, segments[0].file_size, "the dynamic section"))
    values = dict(tags)
    strings = _Strings(memory.read(values.get(Tag.STRTAB, 0), values.get(Tag.STRSZ, 0), "the dynamic names"))
    relocations = [
        *_relocations(memory, values, Tag.RELA, Tag.RELASZ),
        *_relocations(memory, values, Tag.JMPREL, Tag.PLTRELSZ),
    ]
    # Symbols that only relocations name count too: hash tables may leave them out, but the loader looks them up.
    count = max([_hashed(memory, values), *(symbol + 1 for symbol, _ in relocations)])
    needs = _needs(memory, values, strings)
    return Dynamic(
        tags=tags,
        needed=tuple(strings.at(value) for tag, value in tags if tag == Tag.NEEDED),
        soname=strings.at(values[Tag.SONAME]) if Tag.SONAME in values else "",
        symbols=_dynamic_symbols(memory, values, strings, count, needs),
        versions=tuple(needs.values()),
        relocations=frozenset(kind for _, kind in relocations),
        initializers=(Tag.INIT in values) + values.get(Tag.INIT_ARRAYSZ, 0) // _ADDRESS.size,
        finalizers=(Tag.FINI in values) + values.get(Tag.FINI_ARRAYSZ, 0) // _ADDRESS.size,
    )


_REPEATED = frozenset({Tag.NEEDED})


def _tags(raw: bytes) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    seen = set()
    for tag, value in _DYNAMIC.iter_unpack(raw[: len(raw) // _DYNAMIC.size * _DYNAMIC.size]):
        if tag == 0:
            return tuple(found)
        # Of two equal tags, one reader takes the first and another one the last.
        if tag in seen and tag not in _REPEATED:
            raise MalformedElf(f"the dynamic section says {tag:#x} twice")
        seen.add(tag)
        found.append((tag, value))
    raise MalformedElf("the dynamic section has no end")


def _relocations(memory: _Memory, values: dict[int, int], table: Tag, size: Tag) -> list[tuple[int, int]]:
    """(symbol, kind) of each relocation of a table."""
    if table not in values:
        return []
    raw = memory.read(values[table], values.get(size, 0), "the relocations")
    if len(raw) % _RELOCATION.size:
        raise MalformedElf("the relocations are cut off")
    return [(info >> 32, info & 0xFFFFFFFF) for _, info, _ in _RELOCATION.iter_unpack(raw)]


def _hashed(memory: _Memory, values: dict[int, int]) -> int:
    """How many dynamic symbols there are, by the table that the loader finds them with."""
    if Tag.HASH in values:
        _, chains = _HASH_HEADER.unpack(memory.read(values[Tag.HASH], _HASH_HEADER.size, "the hash table"))
        return int(chains)
    if Tag.GNU_HASH not in values:
        raise MalformedElf("its symbols have no hash table")
    at = values[Tag.GNU_HASH]
    buckets, first, words, _ = _GNU_HASH_HEADER.unpack(memory.read(at, _GNU_HASH_HEADER.size, "the hash table"))
    at += _GNU_HASH_HEADER.size + words * _ADDRESS.size
    last = max((start for (start,) in _WORD.iter_unpack(memory.read(at, buckets * 4, "the hash table"))), default=0)
    # No symbol is hashed: those before the first hashed one are all.
    if last < first:
        return int(first)
    at += buckets * 4
    while True:
        (link,) = _WORD.unpack(memory.read(at + (last - first) * 4, 4, "the hash table"))
        last += 1
        if link & 1:  # the end of the last chain
            return int(last)
        if last > memory.size // _SYMBOL.size:
            raise MalformedElf("the hash table has no end")


def _needs(memory: _Memory, values: dict[int, int], strings: _Strings) -> dict[int, tuple[str, str]]:
    """By index: the library and the version of a symbol that comes from there."""
    found: dict[int, tuple[str, str]] = {}
    at = values.get(Tag.VERNEED, 0)
    for _ in range(values.get(Tag.VERNEEDNUM, 0) if at else 0):
        _, count, library, first, following = _NEED.unpack(memory.read(at, _NEED.size, "the needed versions"))
        inner = at + first
        if not count:
            raise MalformedElf("the needed versions name a library for nothing")
        for _ in range(count):
            raw = memory.read(inner, _NEED_VERSION.size, "the needed versions")
            _, _, index, version, step = _NEED_VERSION.unpack(raw)
            if index & _VERSION_BITS in found:
                raise MalformedElf("the needed versions say an index twice")
            found[index & _VERSION_BITS] = (strings.at(library), strings.at(version))
            inner += step
        if not following:
            break
        at += following
    return found


def _dynamic_symbols(
    memory: _Memory, values: dict[int, int], strings: _Strings, count: int, needs: dict[int, tuple[str, str]]
) -> tuple[Symbol, ...]:
    raw = memory.read(values.get(Tag.SYMTAB, 0), count * _SYMBOL.size, "the dynamic symbols")
    indices = [0] * count
    if Tag.VERSYM in values:
        stored = memory.read(values[Tag.VERSYM], 2 * count, "the versions of symbols")
        indices = [index & _VERSION_BITS for (index,) in struct.iter_unpack("<H", stored)]
    return tuple(
        Symbol(
            name=symbol.name,
            binding=symbol.binding,
            kind=symbol.kind,
            visibility=symbol.visibility,
            section=symbol.section,
            version=needs[index][1] if symbol.is_undefined and index in needs else "",
        )
        for symbol, index in zip(_symbols(raw, strings), indices, strict=True)
    )


class _Memory:
    """The content of a file's segments by address, as the loader maps them."""

    def __init__(self, elf: Elf) -> None:
        self._data = elf.data
        self.size = len(elf.data)
        self._segments = [segment for segment in elf.segments if segment.kind == SegmentKind.LOAD]

    def read(self, address: int, size: int, what: str) -> bytes:
        for segment in self._segments:
            if segment.address <= address and address + size <= segment.address + segment.file_size:
                start = segment.offset + address - segment.address
                return bytes(self._data[start : start + size])
        raise MalformedElf(f"{what} leads out of the file")


class _Strings:
    """A table of names. Their total length is limited: names may overlap, so a small file could hold gigabytes."""

    def __init__(self, table: bytes) -> None:
        self._table = table
        self._known: dict[int, str] = {}
        self._left = 16 * len(table) + _MAX_NAME

    def at(self, offset: int) -> str:
        known = self._known.get(offset)
        if known is not None:
            return known
        end = self._table.find(b"\0", offset, offset + _MAX_NAME)
        if end < 0:
            if offset == 0 and not self._table:
                return ""
            raise MalformedElf("a name leads out of the table of names, or is too long")
        self._left -= end - offset
        if self._left < 0:
            raise MalformedElf("its names overlap")
        name = self._table[offset:end].decode("utf-8", "backslashreplace")
        self._known[offset] = name
        return name


def _slice(data: memoryview, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(data):
        raise MalformedElf(f"{what} lead out of the file")
    return bytes(data[offset : offset + size])


def _table(form: struct.Struct, data: memoryview, offset: int, count: int, what: str) -> list[tuple[int, ...]]:
    return list(form.iter_unpack(_slice(data, offset, count * form.size, what)))
