"""The toolchains that tests build with: those that the definition wants tested with every change.

TFAOT_TEST_TOOLCHAINS names further ones, for a check before a release: versions, or `all`.

    python -m tests.toolchains     prints them, for the Makefile
"""

from __future__ import annotations

import os
import sys

from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS


def chosen(further: str) -> tuple[str, ...]:
    """The versions, oldest first, with those that `further` names. Raises ValueError for one that there is not."""
    named = list(TOOLCHAINS) if further == "all" else further.replace(",", " ").split()
    if unknown := sorted(set(named) - set(TOOLCHAINS)):
        raise ValueError(f"TFAOT_TEST_TOOLCHAINS: no toolchain {', '.join(unknown)}")
    return tuple(version for version, each in TOOLCHAINS.items() if each.tested == "always" or version in named)


VERSIONS = chosen(os.environ.get("TFAOT_TEST_TOOLCHAINS", ""))

if __name__ == "__main__":
    sys.stdout.write("".join(f"{version}\n" for version in VERSIONS))
