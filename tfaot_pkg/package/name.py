"""Names of packages, `tfaot-model-` and the model's name, and of their shared libraries."""

from __future__ import annotations

import re

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.spec.names import NAME_PATTERN, PACKAGE_PREFIX

_PACKAGE_NAME = re.compile(re.escape(PACKAGE_PREFIX) + NAME_PATTERN)
_MAX_NAME = 100  # Conan's limit


def package_meant_by(text: str) -> str:
    """The package that a user means by `text`: `digits` and `tfaot-model-digits` are the same.

    Raises RegistryError for what cannot be a package's name.
    """
    name = text if text.startswith(PACKAGE_PREFIX) else PACKAGE_PREFIX + text
    if not is_package_name(name):
        raise RegistryError(
            f"{text!r} is not a package name",
            hint="a name begins with a letter and holds lower-case letters, digits and _ only",
        )
    return name


def is_package_name(name: str) -> bool:
    return len(name) <= _MAX_NAME and _PACKAGE_NAME.fullmatch(name) is not None


def shared_library_name(package: str, uid: str) -> str:
    """The SONAME of a shared library: with the uid, as what is linked with one build needs the entry function of that
    build. By this name two versions of a model are found in one process.
    """
    return f"lib{package}.so.{uid}"
