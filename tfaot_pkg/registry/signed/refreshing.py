"""`registry refresh`: signing anew what grows old. For cron."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tfaot_pkg.errors import TrustError
from tfaot_pkg.registry.commit import Keys, write
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.signed.making import load_state, require_signed
from tfaot_pkg.trust.keys import RELEASE, ROOT, SNAPSHOT, TIMESTAMP
from tfaot_pkg.trust.revision import Revision, Signers
from tfaot_pkg.trust.roles import PACKAGES, SEARCH, TARGETS, iso, utc
from tfaot_pkg.trust.rotation import KeyChange, Succession
from tfaot_pkg.trust.state import SignedState
from tfaot_pkg.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What was signed anew, when each role's signatures end, and what needs someone's attention."""

    signed: tuple[str, ...]
    expires: dict[str, str]
    notes: tuple[str, ...]


def refresh(registry: FolderRegistry) -> Refreshed:
    """Sign the timestamp anew, and whatever else has less than a third of its lifetime left. For cron.

    What the keys at hand cannot sign, and is not urgent, is noted; where it has expired that is a TrustError.
    """
    with registry.writing() as commit:
        state, now = require_signed(registry, commit).state, utc(registry.clock())
        undelegated = _is_undelegated(state)
        old = _all_roles(state) if undelegated else _old_roles(state, now)
        stale_snapshot = bool(old) or state.lifetimes.is_old(SNAPSHOT, state.snapshot.signed.expires, now)
        notes: list[str] = []
        roles = [TIMESTAMP]
        if stale_snapshot:
            roles.append(SNAPSHOT)
        signers, release_note = _signers_for(registry.keys, state, roles, old, now)
        notes += release_note
        if release_note:
            old = []
        revision = Revision(state)
        if undelegated and old:
            revision.set_release_keys(state.root.signed)  # a change of keys was killed before it did
        for name in old:
            revision.change(name)
        write(registry.files, revision.files(signers, now, snapshot=stale_snapshot))
        new_root_signed, root_notes = _refresh_root(registry, state, now)
        signed = [*old, *([SNAPSHOT] if stale_snapshot else []), TIMESTAMP, *new_root_signed]
        return Refreshed(signed=tuple(signed), expires=_expiries(registry), notes=(*notes, *root_notes))


def _is_undelegated(state: SignedState) -> bool:
    """Whether bins are to be signed by other release keys, or by fewer or more of them, than the root says."""
    release, bins = state.root.signed.roles[TARGETS], state.bins
    return set(bins.keyids) != set(release.keyids) or bins.threshold != release.threshold


def _all_roles(state: SignedState) -> list[str]:
    return [TARGETS, PACKAGES, SEARCH, *state.bins.get_roles()]


def _old_roles(state: SignedState, now: datetime) -> list[str]:
    return [name for name in _all_roles(state) if state.lifetimes.is_old(RELEASE, state.role(name).signed.expires, now)]


def _signers_for(
    keys: Keys, state: SignedState, roles: Sequence[str], old: Sequence[str], now: datetime
) -> tuple[Signers, list[str]]:
    if not old:
        return keys.signers(state, roles), []
    try:
        return keys.signers(state, [*roles, RELEASE]), []
    except TrustError:
        soonest = min(state.role(name).signed.expires for name in old)
        if soonest <= now:
            raise
        expiring = counted(len(old), "file")
        return keys.signers(state, roles), [f"a release key is needed: from {iso(soonest)} on, {expiring} will expire"]


def _refresh_root(registry: FolderRegistry, state: SignedState, now: datetime) -> tuple[list[str], list[str]]:
    expires = state.root.signed.expires
    if not state.lifetimes.is_old(ROOT, expires, now):
        return [], []
    try:
        signers = registry.keys.signers(state, [ROOT]).by_role[ROOT]
    except TrustError as error:
        if expires <= now:
            raise
        when = f"root expires at {iso(expires)}"
        return [], [f"{when}: run refresh with the root keys, or `registry keys renew` ({error.message})"]
    next_root = Succession.of(state.root, KeyChange(role=ROOT), now).signed_by(signers)
    next_root.require_signed()
    write(registry.files, next_root.files())
    return [ROOT], []


def _expiries(registry: FolderRegistry) -> dict[str, str]:
    state = load_state(registry)
    release = min(state.role(name).signed.expires for name in _all_roles(state))
    return {
        ROOT: iso(state.root.signed.expires),
        RELEASE: iso(release),
        SNAPSHOT: iso(state.snapshot.signed.expires),
        TIMESTAMP: iso(state.timestamp.signed.expires),
    }
