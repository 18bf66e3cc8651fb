"""What a user asks for: `digits`, `tfaot-model-digits@1.2`, `digits>=1,<2`. Versions follow `packaging`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.package.name import package_meant_by

_FORM = re.compile(r"\s*(?P<name>[A-Za-z0-9_.-]+)\s*(?:@\s*(?P<version>\S+)|(?P<specifier>[<>=!~].*))?\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A package and the versions of it that will do (all of them where `specifier` is empty)."""

    package: str
    specifier: SpecifierSet

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Read `NAME`, `NAME@VERSION` or `NAME>=1,<2`. Raises RegistryError."""
        form = _FORM.fullmatch(text)
        if form is None:
            raise RegistryError(f"{text!r} is not a requirement", hint="write NAME, NAME@VERSION or 'NAME>=1,<2'")
        package = package_meant_by(form["name"])
        try:
            specifier = f"=={Version(form['version'])}" if form["version"] else form["specifier"] or ""
            return cls(package=package, specifier=SpecifierSet(specifier))
        except InvalidVersion as error:
            raise RegistryError(
                f"{text!r}: {form['version']!r} is not a version", hint="versions look like 1.2, 1.2.3 or 2.0rc1"
            ) from error
        except InvalidSpecifier as error:
            raise RegistryError(
                f"{text!r}: {form['specifier']!r} is not a version range", hint="ranges look like '>=1,<2' or '~=1.4'"
            ) from error

    @property
    def is_pinned(self) -> bool:
        """Whether exactly one version is meant, which a yank does not hide."""
        return any(
            one.operator == "===" or (one.operator == "==" and not one.version.endswith(".*")) for one in self.specifier
        )

    def __str__(self) -> str:
        return f"{self.package}{self.specifier}"
