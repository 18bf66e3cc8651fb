"""What object files and libraries define and need, by pyelftools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection


def defined_symbols(path: Path) -> frozenset[str]:
    """Global and weak symbols that `path` (an object or a shared library) defines."""
    return frozenset(symbol.name for symbol in _symbols(path) if _is_global(symbol) and not _is_undefined(symbol))


def undefined_symbols(path: Path) -> frozenset[str]:
    """Symbols that `path` needs from elsewhere."""
    return frozenset(symbol.name for symbol in _symbols(path) if symbol.name and _is_undefined(symbol))


def _symbols(path: Path) -> Iterator[Symbol]:
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".symtab")
        if isinstance(section, SymbolTableSection):
            yield from section.iter_symbols()


def _is_global(symbol: Symbol) -> bool:
    return symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK", "STB_LOOS")  # STB_LOOS is GNU's "unique"


def _is_undefined(symbol: Symbol) -> bool:
    return bool(symbol["st_shndx"] == "SHN_UNDEF")
