"""`tfaot-pkg log`: what happened to a package, from the log in its index file, with the publications among it."""

from __future__ import annotations

from dataclasses import dataclass

from tfaot_pkg.errors import TrustError
from tfaot_pkg.package.name import package_meant_by
from tfaot_pkg.registry.audit import Audit, signed_state
from tfaot_pkg.registry.entry import IndexLine
from tfaot_pkg.registry.events import Move, chain_faults, check_signatures
from tfaot_pkg.registry.index import IndexFile
from tfaot_pkg.registry.reader import unknown_package
from tfaot_pkg.registry.static import StaticRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Who did what, when and why. `by` is what the person was called, `keys` are the ids of the keys that signed it."""

    at: str
    do: str
    by: str = ""
    keys: tuple[str, ...] = ()
    reason: str = ""
    build: str = ""
    channel: str = ""
    moves: tuple[Move, ...] = ()


def history(registry: StaticRegistry, package: str) -> tuple[Happened, ...]:
    """All that happened to `package`, oldest first.

    Raises RegistryError if there is no such package, TrustError if its log is not what was signed or parts of it are
    missing, StorageError, NetworkError.
    """
    index = registry.index_file(package_meant_by(package))
    if not index.lines:
        raise unknown_package(registry, index.package)
    _require_whole(registry, index)
    # In the file's order, in which lines are added.
    return tuple(_happened(line) for line in index.lines if line.entry or line.event)


def _happened(line: IndexLine) -> Happened:
    if (entry := line.entry) is not None:
        what = f"for {entry.architecture}" if line.of else ""
        keys = tuple(sorted(entry.attestors))
        return Happened(at=entry.published, do="publish", keys=keys, build=entry.version, reason=what)
    event = line.event
    assert event is not None
    return Happened(
        at=event.at,
        do=event.do,
        by=event.by,
        keys=event.key_ids,
        reason=event.reason,
        build=event.build,
        channel=event.channel,
        moves=event.moves,
    )


def _require_whole(registry: StaticRegistry, index: IndexFile) -> None:
    for fault in chain_faults([(line.raw, line.event) for line in index.lines if line.event]):
        raise TrustError(f"{index.package} in {registry.location}: {fault}", hint="tell the registry's maintainer")
    if not index.events or not registry.is_signed:
        return
    found = Audit(registry=registry.location, signed=True)
    state = signed_state(registry, found)
    if state is None or found.faults:
        raise TrustError(found.faults[0] if found.faults else f"{registry.location} is not signed")
    keys = state.former_release_keys()
    for event in index.events:
        check_signatures(event, keys)
