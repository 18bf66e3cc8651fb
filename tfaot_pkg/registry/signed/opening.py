"""The signed state of a registry that is to be changed."""

from __future__ import annotations

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.registry.commit import SignedCommit
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.trust.client import SignedIndex
from tfaot_pkg.trust.state import SignedState


def load_state(registry: FolderRegistry) -> SignedState:
    """What the registry says now. Raises RegistryError where it is not signed, TrustError, StorageError."""
    return _signed_index(registry).state()


def require_signed(registry: FolderRegistry, commit: object) -> SignedCommit:
    """The `commit` of a signed registry. Raises RegistryError where it is not signed."""
    _signed_index(registry)
    assert isinstance(commit, SignedCommit)
    return commit


def _signed_index(registry: FolderRegistry) -> SignedIndex:
    if not isinstance(registry.index, SignedIndex):
        raise RegistryError(
            f"{registry.location} is not signed",
            hint="tfaot-pkg registry init DIR --keys FOLDER makes a signed registry",
        )
    return registry.index
