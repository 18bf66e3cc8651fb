"""Lines of C++ say by types what they read and write: their text names no variable, and no access leaves its array."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import count
from typing import Any

import pytest

from tests.compiler.test_bounds import functions
from tfaot_pkg.compiler.bounds import OutOfBounds, check_bounds
from tfaot_pkg.compiler.elements import Access, Component, Place
from tfaot_pkg.compiler.instructions import (
    Assign,
    Declare,
    Instruction,
    Remark,
)
from tfaot_pkg.compiler.loops import (
    Block,
    For,
    ForBlocks,
    ForRange,
    Function,
    Lambda,
    Let,
    Node,
    Within,
    lowered,
)
from tfaot_pkg.compiler.pieces import Entry, Spread
from tfaot_pkg.compiler.program import ONE, Operation, Size

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


@cache
def _lines() -> list[Function]:
    """The functions of test_bounds.py as lines."""
    return [replace(each, nodes=lowered(each.nodes)) for each in functions()]


def _variables(nodes: Iterable[Node]) -> Iterator[str]:
    """All names of variables."""
    for node in nodes:
        match node:
            case Declare(name=name):
                yield name
            case Block(head=head, nodes=inside):
                if isinstance(head, For | ForBlocks | ForRange):
                    yield head.counter
                elif isinstance(head, Lambda):
                    yield from (head.name, *(name for name, _ in head.counts))
                yield from _variables(inside)


def _texts(nodes: Iterable[Node]) -> Iterator[str]:
    """The text of lines and heads without types, apart from what they declare or assign."""
    for node in nodes:
        match node:
            case Remark():
                continue
            case Declare() | Assign():
                yield from (each for each in node.value if isinstance(each, str))
            case Block(head=head, nodes=inside):
                if not isinstance(head, For | ForBlocks | ForRange):
                    pieces = replace(head, name="").pieces[:-1] if isinstance(head, Lambda) else head.pieces
                    yield from (each for each in pieces if isinstance(each, str))
                yield from _texts(inside)
            case _ if isinstance(node, Instruction):
                yield from (each for each in node.pieces if isinstance(each, str))


def test_no_text_names_a_variable() -> None:
    tried = 0
    for function in _lines():
        names = {*function.arrays, *_variables(function.nodes), "team", "memory", "n"} - {"at"}
        for text in _texts(function.nodes):
            tried += 1
            named = {*_WORD.findall(text)} & names
            assert not named, text
    assert tried > 5_000


_FAR = Size(1 << 40)


def _parts(value: Any) -> Iterator[Any]:
    """All values within one that say where memory is read or written."""
    if isinstance(value, Access | Place | Component | Entry | Spread):
        yield value
    if is_dataclass(value) and not isinstance(value, Operation | Size):
        for field in fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts(each)


def _changed(value: Any, place: int, numbers: Iterator[int]) -> Any:
    """`value` with the `place`-th of its parts moved."""
    if isinstance(value, Access | Place | Component | Entry | Spread) and next(numbers) == place:
        return _moved(value)
    if isinstance(value, tuple):
        return tuple(_changed(each, place, numbers) for each in value)
    if not is_dataclass(value) or isinstance(value, Operation | Size | type):
        return value
    return replace(
        value, **{field.name: _changed(getattr(value, field.name), place, numbers) for field in fields(value)}
    )


def _moved(part: Any) -> Any:
    """The same access, far behind."""
    match part:
        case Access(index=index):
            return replace(part, index=replace(index, offset=index.offset + _FAR))
        case Component(offset=offset):
            return replace(part, offset=offset + _FAR)
        case Entry():
            return replace(part, at=_FAR, factor=None)
        case Spread(axes=axes):
            return replace(part, axes=(*axes, (Size(2), _FAR)))
        case Place(steps=steps):
            return replace(part, steps=(*steps, ("far", ONE)))


def test_lines_that_reach_too_far_are_refused() -> None:
    """Each place in them, moved: addresses of rows, elements, and what loops by lanes load and store."""
    kinds = set()
    known = (Within("one", Size(2)), Let("far", (("one", _FAR),)))
    for function in _lines()[::6]:
        check_bounds(function)
        for place, part in enumerate(_parts(function.nodes)):
            moved = (*known, *_changed(function.nodes, place, count()))
            with pytest.raises(OutOfBounds):
                check_bounds(replace(function, nodes=moved))
            kinds.add(type(part))
    assert kinds == {Access, Place, Component, Entry, Spread}


def _longer(value: Any, place: int, numbers: Iterator[int]) -> Any:
    """`value` with one more lane along the last axis of the `place`-th of its loops by lanes."""
    if isinstance(value, Lambda) and value.over and next(numbers) == place:
        return replace(value, over=(*value.over[:-1], value.over[-1] + ONE))
    if isinstance(value, Block):
        head = _longer(value.head, place, numbers)
        return replace(value, head=head, nodes=tuple(_longer(each, place, numbers) for each in value.nodes))
    return value


def _heads(nodes: Iterable[Node]) -> Iterator[Lambda]:
    for node in nodes:
        if isinstance(node, Block):
            if isinstance(node.head, Lambda) and node.head.over:
                yield node.head
            yield from _heads(node.nodes)


def test_loops_of_one_lane_more_are_refused() -> None:
    """Of nearly all: some read every number from registers, or an array that is longer."""
    refused = tried = 0
    for function in _lines():
        for place, _ in enumerate(_heads(function.nodes)):
            tried += 1
            numbers = count()
            try:
                check_bounds(replace(function, nodes=tuple(_longer(each, place, numbers) for each in function.nodes)))
            except OutOfBounds:
                refused += 1
    assert tried > 500 and refused > 0.9 * tried, (refused, tried)
