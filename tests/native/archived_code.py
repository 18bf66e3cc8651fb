"""Which objects of a static library have their code in a linked file: found by the code's bytes, without any symbols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from tfaot_pkg.ground.process import run

_SHORTEST = 40  # bytes without an address in them: fewer could be in anything
_CODE, _IN_GROUP = 0x4, 0x200  # SHF_EXECINSTR, SHF_GROUP: templates of headers, which others compile to the same bytes


def members_in(binaries: list[Path], archive: Path, folder: Path) -> dict[str, set[str]]:
    """The members of `archive` whose code is in each of `binaries`, by the binary's name; `folder` is for scratch."""
    folder.mkdir()
    run(["ar", "x", archive], cwd=folder)
    pieces = {member.name: set(_fixed_code(member)) for member in sorted(folder.iterdir())}
    holders = Counter(piece for each in pieces.values() for piece in each)
    found: dict[str, set[str]] = {}
    for binary in binaries:
        data = binary.read_bytes()
        # What more than one member holds is a template of a header, too.
        found[binary.name] = {
            name for name, each in pieces.items() if any(holders[piece] == 1 and piece in data for piece in each)
        }
    return found


def _fixed_code(path: Path) -> Iterator[bytes]:
    """The longest piece of each function's code that no linker changes."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        places: dict[int, list[int]] = {}
        for section in elf.iter_sections():
            if isinstance(section, RelocationSection):
                found = [entry["r_offset"] for entry in section.iter_relocations()]
                places.setdefault(section["sh_info"], []).extend(found)
        for index, section in enumerate(elf.iter_sections()):
            if section["sh_flags"] & _CODE and not section["sh_flags"] & _IN_GROUP and section["sh_size"]:
                code = section.data()
                ends = [*sorted(places.get(index, [])), len(code) + 8]
                starts = [0, *(end + 8 for end in ends)]
                longest = max((code[a:b] for a, b in zip(starts, ends, strict=False)), key=len)
                if len(longest) >= _SHORTEST:
                    yield longest
