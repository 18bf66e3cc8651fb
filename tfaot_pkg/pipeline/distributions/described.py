"""A verified tree beside what it says of itself: what all exporters begin with."""

from __future__ import annotations

from dataclasses import dataclass

from tfaot_pkg.errors import PrefixError, RegistryError
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.package.name import spellings
from tfaot_pkg.pipeline.distributions.facts import Facts, Platform
from tfaot_pkg.pipeline.distributions.files import File
from tfaot_pkg.registry.verified import VerifiedTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A verified tree, and what its info.json and its libraries say."""

    tree: VerifiedTree
    facts: Facts

    @classmethod
    def of(cls, tree: VerifiedTree) -> Described:
        """Raises PrefixError (no version of Python's), RegistryError (no library), and as the tree when it is read."""
        members = {member.path: member for member in tree.members}
        info = next((path for stem in spellings(tree.name) if (path := f"share/{stem}/info.json") in members), None)
        if info is None:
            raise PrefixError(f"{tree.name} has no info.json")
        loaded = [member for path, member in members.items() if member.kind != "link" and _is_loaded(path)]
        if not any(member.path.endswith(".so") for member in loaded):
            raise RegistryError(f"{tree.name} has no shared library")
        platform = Platform.of(map(tree.read, loaded), tree.name)
        return cls(tree=tree, facts=Facts.of(tree.name, tree.version, tree.read(members[info]), platform))

    @property
    def files(self) -> list[File]:
        return [File.of(self.tree, member, member.path) for member in self.tree.members]

    @property
    def architecture(self) -> str:
        return self.facts.platform.architecture

    @property
    def targets(self) -> tuple[str, ...]:
        """The kinds of CPU that run its code: the library takes the best code that it has for each.

        Without `aarch64`, which is the name of its architecture, too.
        """
        own = [TARGETS[name] for name in self.facts.targets if name in TARGETS]
        fit = (target for target in TARGETS.values() if any(each.features <= target.features for each in own))
        return tuple(t.name for t in fit if t.architecture == self.architecture != t.name)


def _is_loaded(path: str) -> bool:
    """Whether the system's loader reads the file."""
    return path.startswith("bin/") or (path.startswith("lib/") and path.endswith(".so"))
