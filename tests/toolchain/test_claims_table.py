"""Nobody believes a worker: a page says of each field of each message that one sends who checks it, and how."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from typing import Any

from tests.kept import REPOSITORY
from tfaot_pkg.worker_program.messages import conversions, fixed_network, requests, sources
from tfaot_pkg.worker_program.messages.requests import OPERATIONS, Reply

PAGE = REPOSITORY / "docs" / "decisions" / "084-nobody-believes-a-worker.md"


def _kinds(kind: Any, seen: set[type]) -> Iterator[type]:
    """The dataclasses that a message of type `kind` may contain."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind not in seen:
            seen.add(kind)
            yield kind
            for hint in typing.get_type_hints(kind).values():
                yield from _kinds(hint, seen)
    for argument in typing.get_args(kind):
        yield from _kinds(argument, seen)


def _fields() -> set[tuple[str, str]]:
    seen: set[type] = set()
    # Answers, the lines that carry them, and the documents that front-ends write for the host.
    documents = [sources.FittedTrees, fixed_network.FixedNetwork]
    roots = [Reply, *(answer for _, answer in OPERATIONS.values()), *documents]
    return {
        (kind.__name__, field.name)
        for root in roots
        for kind in _kinds(root, seen)
        for field in dataclasses.fields(kind)
    }


def _table() -> dict[tuple[str, str], str]:
    """(type, field) -> what the page says of it."""
    found: dict[tuple[str, str], str] = {}
    for line in PAGE.read_text().splitlines():
        row = re.fullmatch(r"\| `(\w+)` \| (`.+`) \| (.+) \|", line)
        if row:
            for name in re.findall(r"`(\w+)`", row[2]):
                assert (row[1], name) not in found, f"{row[1]}.{name} is listed twice"
                found[row[1], name] = row[3]
    return found


def test_the_page_says_of_each_field_who_checks_it() -> None:
    assert conversions.Lifted in {answer for _, answer in requests.OPERATIONS.values()}
    assert sorted(_table().keys() ^ _fields()) == []


def test_modules_that_the_page_names_exist() -> None:
    named = re.findall(r"`(\w+(?:/\w+)+\.py)`", PAGE.read_text())
    places = (REPOSITORY, REPOSITORY / "tfaot_pkg")
    assert named and [each for each in named if not any((place / each).is_file() for place in places)] == []
