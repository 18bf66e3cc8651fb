"""Which paths a package may hold: its own, by its name, and the shared headers. Pure.

A path that is not in the layout of package/tree.py is nobody's: a package that could bring `bin/cmake`,
`include/stdio.h` or another model's library would replace what its user trusts for other reasons. No path is one of
two packages: the SCRAM tool of a model `x_objects`, which specs cannot name, would be that of the objects of `x`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfaot_pkg.package.name import spellings
from tfaot_pkg.spec.names import PACKAGE_PREFIX

SHARED_HEADERS = "include/tfaot/"
OBJECTS = "-objects"
"""What the SCRAM tool that links a package's object files is called after the package's name."""

_FILE = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_WRITTEN_BY_INSTALLER = ("manifest.json", "pending.json")


def foreign_path(package: str, path: str) -> str:
    """Why `path` cannot be a file of `package`; empty if it can. `path` is one that listing.path_fault accepts."""
    if any(pattern.fullmatch(path) for stem in spellings(package) for pattern in _patterns(stem)):
        return ""
    for stem in spellings(package):
        if path in [f"share/{stem}/{name}" for name in _WRITTEN_BY_INSTALLER]:
            return "is written by the installer only"
    return f"is not a place for files of {package}"


def foreign_paths(package: str, paths: Iterable[str]) -> tuple[str, ...]:
    """The faults of all of `paths`, each with its path."""
    return tuple(f"{path!r} {fault}" for path in paths if (fault := foreign_path(package, path)))


def _patterns(stem: str) -> tuple[re.Pattern[str], ...]:
    """What may stand at the places of a package whose files are called after `stem`."""
    model = re.escape(stem.removeprefix(PACKAGE_PREFIX).replace("-", "_"))
    tools = [f"{stem}{OBJECTS}", *([] if stem.endswith(OBJECTS) else [stem])]
    tool = "|".join(map(re.escape, tools))
    stem = re.escape(stem)
    return tuple(
        re.compile(pattern)
        for pattern in (
            rf"include/{stem}/({_FILE}/)*{_FILE}\.h",
            rf"include/tfaot/({_FILE}/)*{_FILE}\.h",
            rf"lib/lib{stem}\.(a|so|so\.[0-9a-f]+)",
            rf"lib/{model}_(common|bs[0-9]+)\.o",
            rf"bin/{model}_(test|benchmark)",
            rf"lib/cmake/{stem}/{stem}(Config|ConfigVersion|Targets)\.cmake",
            rf"lib/pkgconfig/{stem}\.pc",
            rf"etc/scram\.d/({tool})\.xml",
            rf"share/{stem}/(?!({'|'.join(map(re.escape, _WRITTEN_BY_INSTALLER))})$)({_FILE}/)*{_FILE}",
        )
    )
