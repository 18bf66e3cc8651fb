"""Sweeps: tests of many cases that are alike. `make test` runs a few of each, `make test-nightly` all the others.

    @pytest.mark.sweep("dense-2.17.1", "fft-*")     of a test's cases, these
    pytestmark = pytest.mark.sweep("test_one")      of a module's tests, these

Names are a test's, with or without its case, or those of cases; `*` stands for anything. The rest is `nightly`; of it,
the cases that `release=[...]` names are left to `make test-release`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    if not all(_is_named(item, mark.args) for mark in item.iter_markers("sweep")):
        item.add_marker(pytest.mark.nightly)
        if any(_is_named(item, mark.kwargs.get("release", ())) for mark in item.iter_markers("sweep")):
            item.add_marker(pytest.mark.release)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """A run of all tests fails where a sweep names no case that there is: otherwise `make test` would lose it unseen."""
    if config.args != config.getini("testpaths"):
        return
    if missing := unknown_names(items):
        raise pytest.UsageError(f"sweeps name cases that are not there: {', '.join(missing)}")


def unknown_names(items: Iterable[pytest.Item]) -> list[str]:
    """`FILE: NAME` of each name that a sweep gives and no test of that file has."""
    by_sweep = defaultdict(list)
    for item in items:
        for mark in item.iter_markers("sweep"):
            by_sweep[item.path.name, (*mark.args, *mark.kwargs.get("release", ()))].append(item)
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
