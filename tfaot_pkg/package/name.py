"""How a model's name becomes names of packages and files, and back. Nothing else builds such names.

The model `jet_tagger` is the C++ class `jet_tagger` and the package `tfaot-model-jet-tagger`: `-` stands for `_`, as in
cms-tfaot and CMSDIST. The package's name is also that of the CMake target, the pkg-config file, the Conan reference,
the SCRAM tool, the library's file and the folders below include/ and share/. Model names hold no `-`, so there is one
package for each. Programs and object files (`jet_tagger_test`, `jet_tagger_bs1.o`) and C symbols keep the model's name.

Packages once kept the `_` (`tfaot-model-jet_tagger`). That former spelling is an alias wherever a package is named, and
versions that were published or installed under it are versions of the same package.
"""

from __future__ import annotations

import re

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.spec.rules import NAME_PATTERN, PACKAGE_PREFIX, package_name

_CURRENT = re.compile(re.escape(PACKAGE_PREFIX) + NAME_PATTERN.replace("_", "-"))
_FORMER = re.compile(re.escape(PACKAGE_PREFIX) + NAME_PATTERN)
_TYPED = re.compile(NAME_PATTERN.replace("_", "_-"))
_MAX_NAME = 100  # Conan's limit


def package_meant_by(text: str) -> str:
    """The package that a user means by `text`: the model's name, or the package's in either spelling.

    Raises RegistryError for what cannot be a package's name.
    """
    name = text.removeprefix(PACKAGE_PREFIX)
    if not _TYPED.fullmatch(name) or len(PACKAGE_PREFIX + name) > _MAX_NAME:
        raise RegistryError(
            f"{text!r} is not a package name",
            hint="a name begins with a letter and has only lower-case letters, digits, - and _",
        )
    return package_name(name)


def model_of(package: str) -> str:
    """The model of `package`, which is in either spelling."""
    return package.removeprefix(PACKAGE_PREFIX).replace("-", "_")


def current_name(package: str) -> str:
    """The current spelling of `package`, which is in either one."""
    return package_name(model_of(package))


def spellings(package: str) -> tuple[str, ...]:
    """The names under which versions of `package` may have been published or installed, the current one first.

    Its files have either name: a package of the current name also has small files of the former one, which refer to
    the others.
    """
    # One name only, if the model has no `_`: both spellings are then the same.
    return tuple(dict.fromkeys((current_name(package), PACKAGE_PREFIX + model_of(package))))


def other_spellings(package: str) -> tuple[str, ...]:
    """`spellings` without the one that `package` has: one name, or none."""
    return tuple(name for name in spellings(package) if name != package)


def is_package_name(name: str) -> bool:
    """Whether `name` is a package's, in the current or the former spelling."""
    return len(name) <= _MAX_NAME and any(form.fullmatch(name) for form in (_CURRENT, _FORMER))


def shared_library_name(package: str, uid: str) -> str:
    """The SONAME of a shared library. It has the uid, because a program that was linked with one build needs the entry
    function of that build; so two versions of a model can be loaded into one process.
    """
    return f"lib{package}.so.{uid}"
