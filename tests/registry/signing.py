"""Signed registries for tests: two bins and keys without a passphrase, because both are quick."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tfaot_pkg.ground.documents import iso, utc_now
from tfaot_pkg.registry.commit import Keys, open_keys
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.signing import Plan, initialize
from tfaot_pkg.registry.trust.client import Anchor
from tfaot_pkg.registry.trust.roles import Lifetimes


def no_secrets(what: str) -> str:
    raise AssertionError(f"asked for the passphrase of {what}")


def make_signed(
    folder: Path,
    *,
    bits: int = 1,
    root_keys: int = 1,
    threshold: int = 1,
    lifetimes: Lifetimes | None = None,
    clock: Callable[[], str] = utc_now,
) -> FolderRegistry:
    """A new registry in `folder/registry`, its keys in `folder/keys`, what its reader trusts in `folder/trust`."""
    plan = Plan(bits=bits, root_keys=root_keys, threshold=threshold, lifetimes=lifetimes or Lifetimes())
    initialize(folder / "registry", folder / "keys", plan, passphrase=lambda: None, secrets=no_secrets, clock=clock)
    return open_signed(folder)


def open_signed(folder: Path, *, registry: str = "registry", trust: str = "trust") -> FolderRegistry:
    """Open it as its maintainer; another `trust` is another reader, who has seen nothing yet."""
    return FolderRegistry.open(folder / registry, anchor=Anchor(folder=folder / trust), keys=keys_in(folder / "keys"))


def keys_in(folder: Path) -> Keys:
    return open_keys([folder], no_secrets)


def clock_at(days: float) -> Callable[[], str]:
    """A clock that goes `days` after (before, if negative) the true one."""
    return lambda: iso(datetime.now(timezone.utc) + timedelta(days=days))
