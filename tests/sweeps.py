"""Sweeps: tests of many cases that are alike. `make test` runs a few of each, `make test-nightly` others.

    @pytest.mark.sweep("dense-2.17.1", "fft-*")     of a test's cases, these
    pytestmark = pytest.mark.sweep("test_one")      of a module's tests, these

Names are a test's, with or without its case, or those of cases; `*` stands for anything. The rest is `nightly`: of it, the
night runs one of nine, drawn by a checksum of their names, and leaves the others to `make test-release`. An argument
says otherwise:

    @pytest.mark.sweep("dense-*", night=["conv-2.21.0"])  of the rest, the night runs these
    @pytest.mark.sweep("dense-*", night=5)                one of five
    @pytest.mark.sweep("dense-*", night=1)                all

Of tests that are `nightly` without a sweep, the night runs one of four, drawn likewise. `release` marks tests of which the night runs none: they are `nightly`, too.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

_FEW, _DRAW = 4, 9
UNKNOWN = pytest.StashKey[list[str]]()
"""Names of sweeps that no case has; nothing if only some tests were collected."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("nightly") and not item.get_closest_marker("sweep") and not _is_at_night(item, _FEW):
        item.add_marker(pytest.mark.release)
    if not all(_is_named(item, mark.args) for mark in item.iter_markers("sweep")):
        item.add_marker(pytest.mark.nightly)
        if not all(_is_at_night(item, mark.kwargs.get("night", _DRAW)) for mark in item.iter_markers("sweep")):
            item.add_marker(pytest.mark.release)
    elif item.get_closest_marker("release"):
        item.add_marker(pytest.mark.nightly)


def _is_at_night(item: pytest.Item, night: Sequence[str] | int) -> bool:
    return zlib.crc32(item.name.encode()) % night == 0 if isinstance(night, int) else _is_named(item, night)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """A run of all tests fails where a sweep names no case that there is: otherwise `make test` would lose it unseen.

    Nobody would see what a worker of pytest-xdist dies of: there, a test of test_suite.py fails instead.
    """
    config.stash[UNKNOWN] = missing = unknown_names(items) if config.args == config.getini("testpaths") else []
    if missing and not hasattr(config, "workerinput"):
        raise pytest.UsageError(f"sweeps name cases that are not there: {', '.join(missing)}")


def unknown_names(items: Iterable[pytest.Item]) -> list[str]:
    """`FILE: NAME` of each name that a sweep gives and no test of that file has."""
    by_sweep = defaultdict(list)
    for item in items:
        for mark in item.iter_markers("sweep"):
            night = mark.kwargs.get("night", ())
            by_sweep[item.path.name, mark.args if isinstance(night, int) else (*mark.args, *night)].append(item)
    return [
        f"{file}: {name}"
        for (file, names), found in by_sweep.items()
        for name in names
        if not any(_is_named(item, [name]) for item in found)
    ]


def _is_named(item: pytest.Item, names: Iterable[str]) -> bool:
    function, _, rest = item.name.partition("[")
    own = (item.name, function, rest.removesuffix("]"))
    return any(re.fullmatch(".*".join(map(re.escape, name.split("*"))), each) for name in names for each in own)
