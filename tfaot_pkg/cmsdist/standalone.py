"""Headers that need no other header of ours: CMSDIST moves single files, with no folder `tfaot/` beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfaot_pkg import resources

_INCLUDE = re.compile(r"^#include <(tfaot/[\w/]+\.h)>\n", re.MULTILINE)
_CMSSW_WRAPPER = "tfaot/cmssw_wrapper.h"


def our_headers() -> dict[str, str]:
    """The text of every header that an include of ours can name, by that name."""
    folder = resources.headers()
    headers = {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.glob("tfaot/**/*.h"))}
    return headers | {_CMSSW_WRAPPER: (resources.templates() / "cmsdist" / "cmssw_wrapper.h").read_text()}


def standalone(text: str, headers: Mapping[str, str], *, also: tuple[str, ...] = ()) -> str:
    """The header `text` with `headers` (and those named in `also`) in it instead of included.

    Each header keeps its include guard and stands before those that need it, so that a program may include any of them
    too, from there or from anywhere else.
    """
    order: list[str] = []
    for name in (*_INCLUDE.findall(text), *also):
        _collect(name, headers, order)
    return "\n".join([*(_without_includes(headers[name]) for name in order), _without_includes(text)])


def _collect(name: str, headers: Mapping[str, str], order: list[str]) -> None:
    """Put `name` into `order` after all that it includes. Includes have no circles: headers compile alone."""
    for needed in _INCLUDE.findall(headers[name]):
        if needed not in order:
            _collect(needed, headers, order)
    if name not in order:
        order.append(name)


def _without_includes(text: str) -> str:
    return _INCLUDE.sub("", text)
