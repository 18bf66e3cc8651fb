"""Which builds a definition's policy keeps in the registry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tfaot_pkg.errors import SpecError
from tfaot_pkg.nightly.types import Decision, NightlyDefinition
from tfaot_pkg.registry.dependencies.lock import Lock
from tfaot_pkg.registry.retention import Retention, locked_trees
from tfaot_pkg.spec.rules import build_in, package_name


def rules_of(definition: NightlyDefinition, decisions: Sequence[Decision]) -> Retention:
    """The rules of the policy; toolchains in `decisions`, the whole plan, are current.

    Raises SpecError (no lock file of that name), RegistryError (a damaged one), StorageError.
    """
    policy, current = definition.policy, defaultdict[str, set[str]](set)
    for task in (one.task for one in decisions):
        if task.version and (found := build_in(task.release(1))):
            current[package_name(task.model)].add(found[0])
    files = [path for pattern in policy.keep_locked for path in _files(definition, pattern)]
    trees = {tree for path in files for tree in locked_trees(Lock.read(path))}
    return Retention(
        builds=policy.keep_builds, toolchains=policy.keep_toolchains, current=dict(current), trees=frozenset(trees)
    )


def _files(definition: NightlyDefinition, pattern: str) -> list[Path]:
    # A pattern may match nothing by mistake, and its builds would be gone: at least one file has to be there.
    folder = definition.path.parent
    found = sorted(folder.glob(pattern)) if not Path(pattern).is_absolute() else [Path(pattern)]
    if not found:
        raise SpecError(f"{definition.path}: policy.keep_locked: there is no {pattern}")
    return found
