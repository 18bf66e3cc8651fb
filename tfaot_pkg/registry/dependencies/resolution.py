"""Which versions serve a set of requirements, and for every other version a line that says why not.

The search itself is resolvelib's (pip's resolver). Newest versions first; yanked ones only if they are pinned or
locked; pre-releases by packaging's rules over all that is asked of a package.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from resolvelib import AbstractProvider, BaseReporter, ResolutionImpossible, ResolutionTooDeep
from resolvelib.resolvers import Resolution as Search

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.targets import ARCHITECTURES, TARGETS
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.reader import Followed, RegistryReader, Requirement, other_architecture, unknown_package

if TYPE_CHECKING:
    from resolvelib.structs import Matches, RequirementInformation


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """`targets`: a package must carry code for all of them; `toolchain`: the accepted versions of TensorFlow;
    `channel`: the one whose builds are chosen (empty: the registry's default one); `architecture`: of the machine on
    which packages are used (empty: any, or that of `targets`).
    """

    targets: tuple[str, ...] = ()
    toolchain: SpecifierSet = field(default_factory=SpecifierSet)
    channel: str = ""
    architecture: str = ""

    @classmethod
    def parse(
        cls, targets: tuple[str, ...] = (), toolchain: str = "", channel: str = "", architecture: str = ""
    ) -> Constraints:
        """`toolchain` is a range (`>=2.17,<2.20`) or one version. Raises RegistryError."""
        unknown = sorted(set(targets) - TARGETS.keys())
        if unknown:
            raise RegistryError(f"{unknown[0]} is not a target", hint=f"targets are {', '.join(TARGETS)}")
        if architecture not in ("", *ARCHITECTURES):
            raise RegistryError(
                f"{architecture} is not an architecture", hint=f"architectures are {', '.join(ARCHITECTURES)}"
            )
        return cls(
            targets=tuple(sorted(set(targets))),
            toolchain=_specifier(toolchain.strip()),
            channel=channel,
            architecture=architecture,
        )

    @property
    def machine(self) -> str:
        """The architecture of what is chosen; empty for any."""
        of_targets = {TARGETS[target].architecture for target in self.targets}
        return self.architecture or (of_targets.pop() if len(of_targets) == 1 else "")

    def used_on(self, machine: str) -> Constraints:
        """These constraints on `machine` (as `uname -m`), unless they are of another architecture."""
        is_known = machine in ARCHITECTURES and not self.machine
        return replace(self, architecture=machine) if is_known else self

    def rejection(self, entry: RegistryEntry) -> str:
        """Why `entry` is rejected; empty if it is accepted."""
        # Code of a lower level would run too, but who names a target wants its speed (decision 015).
        missing = [target for target in self.targets if target not in entry.targets]
        if missing:
            return f"has no code for {', '.join(missing)} (only {', '.join(entry.targets)})"
        if fault := other_architecture(entry, self.machine):
            return fault
        if self.toolchain and not _accepts(self.toolchain, entry.toolchain):
            return f"was compiled by {entry.toolchain}, which is not {self.toolchain}"
        return ""


def _specifier(text: str) -> SpecifierSet:
    try:
        # A version alone is no specifier; it means exactly that one.
        return SpecifierSet(f"=={Version(text)}")
    except InvalidVersion:
        pass
    try:
        return SpecifierSet(text)
    except InvalidSpecifier as error:
        raise RegistryError(
            f"--toolchain {text}: not a range of TensorFlow's versions", hint="write '>=2.17,<2.20' or 2.17.1"
        ) from error


def _accepts(specifier: SpecifierSet, toolchain: str) -> bool:
    """`toolchain` is as entries have it: `tensorflow 2.17.1`. A range rejects no package that no TensorFlow made."""
    if toolchain.startswith("tfaot-pkg "):
        return True
    try:
        # Else `>=2.17` would reject what was compiled by a release candidate, such as 2.22.0rc0.
        return specifier.contains(Version(toolchain.rsplit(maxsplit=1)[-1]), prereleases=True)
    except (InvalidVersion, IndexError):
        return False


# Backtracking may take exponential time: end it with an error instead of hours.
_ROUNDS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A version that was not chosen, and why."""

    package: str
    version: str
    reason: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The versions to install, each after all that it depends on, and why it was not others (newest first)."""

    entries: tuple[RegistryEntry, ...]
    rejected: tuple[Rejected, ...]

    def entry(self, package: str) -> RegistryEntry:
        return next(entry for entry in self.entries if entry.package == package)


def resolve(
    reader: RegistryReader,
    requirements: Sequence[Requirement],
    constraints: Constraints | None = None,
    *,
    locked: Mapping[str, str] | None = None,
) -> Resolution:
    """The versions that serve all of `requirements`, and those of what they depend on.

    `locked` names versions by package that are kept if they still serve, also yanked ones. The same registry and
    arguments give the same answer, whatever the order of `requirements`. Raises RegistryError with a line for every
    rejected version, and what `reader` raises.
    """
    constraints = constraints or Constraints()
    provider = _Provider(reader, constraints, locked or {}, Followed.of(reader, constraints.channel))
    # Pins first: the search takes requirements one by one, and only a pin lets yanked versions in.
    wanted = sorted((_Wanted(requirement=one) for one in requirements), key=_Wanted.order)
    for one in wanted:
        provider.require_known(one)
    try:
        state = Search(provider, provider.conflicts).resolve(wanted, max_rounds=_ROUNDS)
    except ResolutionImpossible as error:
        raise provider.impossible([cause.requirement for cause in error.causes]) from error
    except ResolutionTooDeep as error:
        raise RegistryError(
            "the packages depend on one another in too many ways to try them all", hint="narrow the requirements"
        ) from error
    # Not Resolver's result: it recurses without end if packages that nothing needs any more need each other.
    entries = _needed(wanted, state.mapping, provider)
    # Reasons refer to what the chosen versions ask, not to what was tried on the way.
    asked = [*wanted, *(one for entry in entries for one in provider.get_dependencies(entry))]
    rejected = [one for entry in sorted(entries, key=str) for one in provider.rejected(entry.package, asked, entry)]
    return Resolution(entries=tuple(entries), rejected=tuple(rejected))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A requirement; `by` is the package that has it, empty for the user's own."""

    requirement: Requirement
    by: str = ""

    @property
    def specifier(self) -> SpecifierSet:
        return self.requirement.specifier

    @property
    def reason(self) -> str:
        return f", which {self.by} needs" if self.by else ""

    def order(self) -> tuple[bool, str]:
        """What requirements are sorted by."""
        return not self.requirement.is_pinned, str(self)

    def __str__(self) -> str:
        return f"{self.requirement}" + (f" (for {self.by})" if self.by else "")


class _Conflicts(BaseReporter["_Wanted", RegistryEntry, str]):
    """Remembers what each candidate clashed with when it was tried."""

    def __init__(self) -> None:
        self.reasons: dict[tuple[str, Version], str] = {}

    def resolving_conflicts(self, causes: Collection[RequirementInformation[_Wanted, RegistryEntry]]) -> None:
        wishes = " and ".join(sorted({str(cause.requirement) for cause in causes}))
        for cause in causes:
            if cause.parent is not None:
                self.reasons[cause.parent.package, cause.parent.order] = f"needs packages that conflict: {wishes}"


@dataclass(slots=True)
class _Provider(AbstractProvider["_Wanted", RegistryEntry, str]):
    """What resolvelib asks of us. Each package's index is read once."""

    reader: RegistryReader
    constraints: Constraints
    locked: Mapping[str, str]
    followed: Followed
    conflicts: _Conflicts = field(default_factory=_Conflicts)
    _entries: dict[str, tuple[RegistryEntry, ...]] = field(default_factory=dict)

    def identify(self, requirement_or_candidate: _Wanted | RegistryEntry) -> str:
        if isinstance(requirement_or_candidate, _Wanted):
            return requirement_or_candidate.requirement.package
        return requirement_or_candidate.package

    def get_preference(
        self,
        identifier: str,
        resolutions: Mapping[str, RegistryEntry],
        candidates: Mapping[str, Iterator[RegistryEntry]],
        information: Mapping[str, Iterator[RequirementInformation[_Wanted, RegistryEntry]]],
        backtrack_causes: Sequence[RequirementInformation[_Wanted, RegistryEntry]],
    ) -> str:
        # By name: the answer must not depend on the order of the requirements.
        return identifier

    def find_matches(
        self,
        identifier: str,
        requirements: Mapping[str, Iterator[_Wanted]],
        incompatibilities: Mapping[str, Iterator[RegistryEntry]],
    ) -> Matches[RegistryEntry]:
        tried = {entry.order for entry in incompatibilities[identifier]}
        suitable = self._suitable(identifier, tuple(requirements[identifier]))
        return [entry for entry in suitable if entry.order not in tried]

    def is_satisfied_by(self, requirement: _Wanted, candidate: RegistryEntry) -> bool:
        # Whether pre-releases may be chosen was decided in `_suitable`, over all requirements together.
        return requirement.specifier.contains(candidate.order, prereleases=True)

    def get_dependencies(self, candidate: RegistryEntry) -> Iterable[_Wanted]:
        return [_Wanted(requirement=Requirement.parse(text), by=str(candidate)) for text in candidate.dependencies]

    def entries(self, package: str) -> tuple[RegistryEntry, ...]:
        if package not in self._entries:
            machine = self.constraints.machine
            self._entries[package] = tuple(one.on(machine) or one for one in self.reader.entries(package))
        return self._entries[package]

    def require_known(self, wanted: _Wanted) -> None:
        if not self.entries(wanted.requirement.package):
            raise unknown_package(self.reader, wanted.requirement.package)

    def _suitable(self, package: str, wanted: Sequence[_Wanted]) -> list[RegistryEntry]:
        """The accepted versions, the best first: the locked one, then newest first."""
        usable = [entry for entry in self.entries(package) if not self._fault(entry, wanted)]
        # Of all requirements together: `filter` lets pre-releases in only if no final version meets them.
        allowed = set(_joined(wanted).filter([entry.order for entry in usable]))
        suitable = [entry for entry in usable if entry.order in allowed or self._is_locked(entry)]
        return sorted(suitable, key=lambda entry: (self._is_locked(entry), entry.rank), reverse=True)

    def _is_locked(self, entry: RegistryEntry) -> bool:
        return self.locked.get(entry.package) == entry.version

    def _fault(self, entry: RegistryEntry, wanted: Sequence[_Wanted]) -> str:
        """Why `entry` is rejected by itself; empty if it is not."""
        unserved = [one for one in wanted if not one.specifier.contains(entry.order, prereleases=True)]
        if unserved:
            return " and ".join(f"is not {one.specifier}{one.reason}" for one in unserved)
        is_pinned = any(one.requirement.is_pinned for one in wanted)
        if entry.retired:
            return f"was {entry.yanked}"
        if entry.yanked is not None and not is_pinned and not self._is_locked(entry):
            return f"was yanked ({entry.yanked})"
        is_named = self._is_locked(entry) or any(one.requirement.names(entry) for one in wanted)
        if fault := self.followed.rejection(entry, is_named):
            return fault
        return self.constraints.rejection(entry)

    def rejected(self, package: str, asked: Sequence[_Wanted], chosen: RegistryEntry | None) -> Iterator[Rejected]:
        """Every version but `chosen`, newest first; `asked` is all that is asked of any package."""
        wanted = [one for one in asked if one.requirement.package == package]
        # Readers give the oldest first.
        for entry in reversed(self.entries(package)):
            if chosen is None or entry.order != chosen.order:
                yield Rejected(package=package, version=entry.version, reason=self._reason(entry, wanted, chosen))

    def _reason(self, entry: RegistryEntry, wanted: Sequence[_Wanted], chosen: RegistryEntry | None) -> str:
        # A version may fail for several reasons: the one that no other choice could change comes first.
        if fault := self._fault(entry, wanted):
            return fault
        if chosen is not None and entry.rank < chosen.rank:
            return f"is older than {chosen.version}"
        if conflict := self.conflicts.reasons.get((entry.package, entry.order)):
            return conflict
        if chosen is not None and self._is_locked(chosen):
            return f"{chosen.version} is locked, and meets all requirements"
        if entry.order.is_prerelease and entry not in self._suitable(entry.package, wanted):
            return "is a pre-release, which only a requirement that names one allows"
        return f"conflicts with {' and '.join(sorted(map(str, wanted)))}"

    def impossible(self, causes: Sequence[_Wanted]) -> RegistryError:
        """The error: for each package in conflict who wants what of it, and what is wrong with each version."""
        lines: list[str] = []
        for package in sorted({one.requirement.package for one in causes}):
            wanted = sorted({one for one in causes if one.requirement.package == package}, key=str)
            if not self.entries(package):
                needed = ", ".join(sorted({one.by for one in wanted if one.by}))
                error = unknown_package(self.reader, package)
                return RegistryError(error.message + (f", which {needed} needs" if needed else ""), hint=error.hint)
            ranges = " and ".join(str(one) for one in wanted if one.specifier)
            meeting = f" meets {ranges}" if ranges else " can be chosen"
            lines.append(f"no version of {package} in {self.reader.location}{meeting}:")
            lines += [f"  {one.version}: {one.reason}" for one in self.rejected(package, wanted, None)]
        return RegistryError(
            "\n".join(lines),
            hint="ask for other versions, or with fewer constraints; NAME@VERSION takes a yanked one all the same"
            + self.followed.hint,
        )


def _joined(wanted: Iterable[_Wanted]) -> SpecifierSet:
    joined = SpecifierSet()
    for one in wanted:
        joined &= one.specifier
    return joined


def _needed(wanted: Iterable[_Wanted], chosen: Mapping[str, RegistryEntry], provider: _Provider) -> list[RegistryEntry]:
    """What `wanted` requires, directly or not: sorted by name, but each after what it depends on."""
    ordered: dict[str, RegistryEntry] = {}
    begun: set[str] = set()  # packages may depend on one another in circles

    def add(wanted: Iterable[_Wanted]) -> None:
        for name in sorted({provider.identify(one) for one in wanted} - begun):
            if name not in begun:
                begun.add(name)
                add(provider.get_dependencies(chosen[name]))
                ordered[name] = chosen[name]

    add(wanted)
    return list(ordered.values())
