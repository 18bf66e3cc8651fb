"""The C++ compilers that tests try: the default ones, those that CI installs, and all other versions in PATH.

tools/other_compilers.sh gives those of other Debian releases, and what no release has.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tfaot_pkg.ground.process import CommandFailed, run

DEFAULT = ("g++", "clang++")
INSTALLED = ("g++-11", "clang++-13", "clang++-19")
"""By tools/install_system_packages.sh: the oldest and newest ones of Debian 12. Its default ones are GCC 12 and Clang 14."""
STANDARDS = ("c++17", "c++2a", "c++2b")
"""By the names that old compilers have for C++20 and C++23."""

_LIBRARY = b"#include <map>\nint main() { std::map<int, int> numbers; return numbers[0]; }\n"
_NAME = re.compile(r"(?:clang|g)\+\+-\d+")


def versions() -> list[str]:
    """`g++-9`, `clang++-19` ...: INSTALLED, whether they are there or not, and what else is in PATH, except DEFAULT."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    paths = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    default = {Path(found).resolve() for found in map(shutil.which, DEFAULT) if found}
    found = {path.name for path in paths if path.resolve() not in default}
    return sorted({*INSTALLED, *found}, key=lambda name: (name[0], int(name.partition("-")[2])))


EVERY = (*DEFAULT, *versions())


def knows(compiler: str, standard: str) -> bool:
    """Whether `compiler` and its C++ library have that standard. Clang 17 reads no <tuple> of GCC 14 as C++23."""
    try:
        run([compiler, f"-std={standard}", "-fsyntax-only", "-x", "c++", "-"], stdin=_LIBRARY)
    except CommandFailed:
        return False
    return True
