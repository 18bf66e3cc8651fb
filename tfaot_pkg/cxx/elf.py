"""What object files and libraries define and need, by pyelftools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection


def defined_symbols(path: Path) -> frozenset[str]:
    """Global and weak symbols that `path` (an object or a shared library) defines."""
    return frozenset(symbol.name for symbol in _symbols(path) if _is_global(symbol) and not _is_undefined(symbol))


def undefined_symbols(path: Path) -> frozenset[str]:
    """Symbols that `path` needs from elsewhere."""
    return frozenset(symbol.name for symbol in _symbols(path) if symbol.name and _is_undefined(symbol))


def exported_symbols(library: Path) -> frozenset[str]:
    """Symbols that a shared library offers to a program."""
    return frozenset(
        symbol.name
        for symbol in _symbols(library, dynamic=True)
        if _is_global(symbol) and not _is_undefined(symbol) and symbol["st_other"]["visibility"] == "STV_DEFAULT"
    )


def imported_symbols(library: Path) -> frozenset[str]:
    """Symbols that a shared library needs from other libraries, without version suffixes."""
    return frozenset(s.name for s in _symbols(library, dynamic=True) if s.name and _is_undefined(s))


def needed_libraries(library: Path) -> tuple[str, ...]:
    """The shared libraries that `library` asks the loader for (DT_NEEDED)."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        if not isinstance(section, DynamicSection):
            return ()
        tags = [tag for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
        return tuple(str(tag.needed) for tag in tags)  # type: ignore[attr-defined]  # pyelftools adds it by kind of tag


def _symbols(path: Path, *, dynamic: bool = False) -> Iterator[Symbol]:
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynsym" if dynamic else ".symtab")
        if isinstance(section, SymbolTableSection):
            yield from section.iter_symbols()


def _is_global(symbol: Symbol) -> bool:
    return symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK", "STB_LOOS")  # STB_LOOS is GNU's "unique"


def _is_undefined(symbol: Symbol) -> bool:
    return bool(symbol["st_shndx"] == "SHN_UNDEF")
