"""What objects and libraries define and need, read without the code under test."""

from __future__ import annotations

from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from tfaot_pkg.ground.process import run

# What the compiler's start files ask for where it is there; nothing of it is needed.
_START_FILES = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__"}


def imports(library: Path) -> dict[str, str]:
    """Undefined symbols of a shared library, with the version that each must have ("" for none)."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        symbols, versions, needs = (elf.get_section_by_name(n) for n in (".dynsym", ".gnu.version", ".gnu.version_r"))
        assert isinstance(symbols, SymbolTableSection)
        assert isinstance(versions, GNUVerSymSection)
        assert isinstance(needs, GNUVerNeedSection)
        found = {}
        for number, symbol in enumerate(symbols.iter_symbols()):
            if symbol.name and symbol["st_shndx"] == "SHN_UNDEF":
                version = versions.get_symbol(number)["ndx"]
                need = needs.get_version(version) if isinstance(version, int) else None
                found[symbol.name] = need[1].name if need else ""
        return found


def unversioned_imports(library: Path) -> set[str]:
    """Undefined symbols that are not the C library's."""
    return {name for name, version in imports(library).items() if not version.startswith("GLIBC_")} - _START_FILES


def exports(library: Path) -> dict[str, str]:
    """Defined symbols of a shared library's dynamic table, with their binding."""
    with library.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        return {s.name: s["st_info"]["bind"] for s in symbols.iter_symbols() if s.name and s["st_shndx"] != "SHN_UNDEF"}


def member(archive: Path, folder: Path) -> Path:
    """The one object that a static library holds."""
    names = run(["ar", "t", archive]).stdout.split()
    assert len(names) == 1
    run(["ar", "x", archive], cwd=folder)
    return folder / names[0]


def global_symbols(path: Path) -> tuple[set[str], set[str]]:
    """Symbols of an object that are not local: the defined ones (weak and unique ones too), and the undefined ones."""
    with path.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        if table is None:  # an empty object
            return set(), set()
        assert isinstance(table, SymbolTableSection)
        visible = [s for s in table.iter_symbols() if s["st_info"]["bind"] != "STB_LOCAL"]
    undefined = {s.name for s in visible if s["st_shndx"] == "SHN_UNDEF"}
    return {s.name for s in visible} - undefined, undefined


def dynamic_values(library: Path, tag: str, field: str = "d_val") -> list[object]:
    """The values of all dynamic entries of a kind: "DT_NEEDED" with the field "needed", say."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        entries = list(section.iter_tags(tag))
        return [entry.entry[field] if field == "d_val" else getattr(entry, field) for entry in entries]
