"""Walks over the regions of a program, for passes that look at one region at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Protocol

from tfaot_pkg.compiler.program import Operation, Program, Region, used
from tfaot_pkg.compiler.use_def import Look

Known = Mapping[int, Operation]
Rule = Callable[[Look, Operation], Operation | None]
"""What replaces an operation; None if it stays."""


class Rewrite(Protocol):
    """The program that rules of simplify.py add operations to."""

    made: dict[int, Operation]

    def add(self, operation: Operation) -> int:
        """The value of `operation`, or of a simpler one."""


Simpler = Callable[[Rewrite, Operation, Operation], int | Operation]
"""The value that an operation is equal to, or a simpler operation: gets the operation and its first operand."""


def by_region(change: Callable[[Region, Known, Iterator[int]], Region]) -> Callable[[Program], Program]:
    """The pass that changes each region, inner ones first: `change` gets a region, what it may read, and new ids."""

    def run(program: Program) -> Program:
        ids = count(1 + max((each.id for each in program.entry.everything()), default=-1))
        entry = _changed(program.entry, {}, ids, change)
        return program if entry is program.entry else replace(program, entry=entry)

    return run


def _changed(
    region: Region, outside: Known, ids: Iterator[int], change: Callable[[Region, Known, Iterator[int]], Region]
) -> Region:
    known = {**outside, **region.by_id()}
    operations = tuple(_with_regions(each, known, ids, change) for each in region.operations)
    if any(new is not old for new, old in zip(operations, region.operations, strict=True)):
        region = replace(region, operations=operations)
    return change(region, outside, ids)


def _with_regions(
    operation: Operation, known: Known, ids: Iterator[int], change: Callable[[Region, Known, Iterator[int]], Region]
) -> Operation:
    regions = tuple(_changed(nested, known, ids, change) for nested in operation.regions)
    is_same = all(new is old for new, old in zip(regions, operation.regions, strict=True))
    return operation if is_same else replace(operation, regions=regions)


def by_rule(rule: Rule) -> Callable[[Program], Program]:
    """The pass that replaces operations by `rule`, and removes those that are then no longer used."""

    def change(region: Region, outside: Known, ids: Iterator[int]) -> Region:
        look = Look(region, outside, ids)
        made: list[Operation] = []
        is_changed = False
        for operation in region.operations:
            new = rule(look, operation)
            if new is not None:
                look.known[operation.id] = new  # later operations match the new one
                is_changed = True
            made += look.new
            look.new.clear()
            made.append(new or operation)
        if not is_changed:
            return region
        return Region(operations=used(made, region.results), results=region.results)

    return by_region(change)
