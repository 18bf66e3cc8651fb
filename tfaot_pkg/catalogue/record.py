"""What the catalogue's lists show of a package, in the short form that the browser loads by the hundred."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.package.name import model_of
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry, newest
from tfaot_pkg.spec.names import package_name

_DESCRIPTION, _LICENSE, _TARGETS, _WORDS, _WORD = 160, 40, 8, 24, 24
_STOP = frozenset("a an and are as at by for from in is it its of on or that the this to was with".split())
_FIELDS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A package in a list: its best version (its newest one where all are yanked), texts cut to what a list shows."""

    model: str
    version: str
    description: str
    license: str
    toolchain: str
    targets: tuple[str, ...]
    published: str
    deprecated: bool
    yanked: bool

    @property
    def package(self) -> str:
        return package_name(self.model)

    def as_list(self) -> list[object]:
        """The JSON form, in the order of the fields; site.js reads it."""
        flags = [int(self.deprecated), int(self.yanked)]
        head = [self.model, self.version, self.description, self.license, self.toolchain]
        return [*head, list(self.targets), self.published, *flags]

    @classmethod
    def from_list(cls, value: object) -> Record:
        """Raises ValueError for what is not such a list."""
        if not isinstance(value, list) or len(value) != _FIELDS or not isinstance(value[5], list):
            raise ValueError("not a record of the catalogue")
        model, version, description, license_, toolchain, targets, published, deprecated, yanked = value
        texts = (model, version, description, license_, toolchain, published, *targets)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("not a record of the catalogue")
        return cls(
            model=model,
            version=version,
            description=description,
            license=license_,
            toolchain=toolchain,
            targets=tuple(targets),
            published=published,
            deprecated=bool(deprecated),
            yanked=bool(yanked),
        )

    def words(self) -> tuple[str, ...]:
        """What the package is found by: the words of name, licence and description, at most 24, sorted."""
        found: dict[str, None] = {}
        for word in _words_of(f"{self.model} {self.model.replace('_', ' ')} {self.license} {self.description}"):
            if word not in _STOP:
                found.setdefault(word)
        return tuple(sorted(list(found)[:_WORDS]))


def _words_of(text: str) -> list[str]:
    return [word[:_WORD] for word in re.findall(r"\w+", text.casefold())]


def record_of(entries: Sequence[RegistryEntry], deprecation: Deprecation | None) -> Record:
    """The record of a package with these versions, of which there is at least one."""
    shown = shown_entry(entries)
    return Record(
        model=model_of(shown.name),
        version=shown.version,
        description=_cut(shown.description, _DESCRIPTION),
        license=_cut(shown.license, _LICENSE),
        toolchain=_cut(shown.toolchain, _LICENSE),
        targets=tuple(_cut(target, _LICENSE) for target in shown.targets[:_TARGETS]),
        published=shown.published[:20],
        deprecated=deprecation is not None,
        yanked=shown.yanked is not None,
    )


def shown_entry(entries: Sequence[RegistryEntry]) -> RegistryEntry:
    """The version that a package's page is about: the best one, or the last where all are yanked."""
    return newest(entries) or entries[-1]


def _cut(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"
