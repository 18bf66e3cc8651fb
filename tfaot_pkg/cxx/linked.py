"""What a linker took out of archives, such as the compiler's own library: read from its map (GNU ld's `-Map`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath

# " .text.__mulsc3  0x0000000000001180  0x3c1 /usr/lib/gcc/x86_64-linux-gnu/12/libgcc.a(_mulsc3.o)"; a long name of a
# section stands in a line of its own. What was discarded has the address 0.
_PLACED = re.compile(r"^ (?:\S+)?\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S.*\.a)\(([^()]+)\)$", re.MULTILINE)

ARCHIVES = "archives.json"
"""The file of a build's folder that says what the linked files in it hold of archives."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ArchiveMember:
    """An object of an archive whose code or data is in a linked file: `libgcc.a`, `_mulsc3.o`."""

    archive: str
    member: str

    def __str__(self) -> str:
        return f"{self.archive}({self.member})"


def archive_members(link_map: str, *, own: frozenset[str] = frozenset()) -> tuple[ArchiveMember, ...]:
    """The members of archives that gave the linked file anything. `own` are names of archives that do not count."""
    found = {
        ArchiveMember(archive=PurePath(archive).name, member=member)
        for address, size, archive, member in _PLACED.findall(link_map)
        if int(address, 16) and int(size, 16)
    }
    return tuple(sorted(member for member in found if member.archive not in own))


def members_text(members: Mapping[str, Sequence[ArchiveMember]]) -> str:
    """The content of ARCHIVES: members by name of the linked file."""
    return json.dumps({name: [asdict(member) for member in listed] for name, listed in sorted(members.items())})


def read_members(text: str) -> dict[str, tuple[ArchiveMember, ...]]:
    """What `members_text` wrote."""
    return {name: tuple(ArchiveMember(**member) for member in listed) for name, listed in json.loads(text).items()}
