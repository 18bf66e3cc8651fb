"""The printed form of a StableHLO module, one operation per line, as statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_RESULTS = re.compile(r"((?:%[\w$.:-]+(?:, )?)+) = ")
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_NAME = re.compile(r'"?([\w.]+)"?')
_TENSOR = re.compile(r"tensor<((?:[?\d]+x)*)([a-z]\w*(?:<\w+>)?)[^>]*>")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_FUNCTION = re.compile(r"func\.func (?:\w+ )?@([\w$.-]+)\((.*)")


@dataclass
class Region:
    """`arguments` are names; `results` are the operands of what ends it."""

    arguments: list[str]
    statements: list[Statement] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass
class Statement:
    """`results` and `operands` are names; `types` those of the results: (sizes or None for `?`, element type)."""

    name: str
    text: str
    results: list[str]
    operands: list[str]
    types: list[tuple[tuple[int | None, ...], str]]
    regions: list[Region] = field(default_factory=list)


def functions_in(text: str) -> dict[str, Region]:
    """The functions of a module by their names, as regions."""
    found: dict[str, Region] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if opened := _FUNCTION.match(line.strip()):
            region = Region(arguments=re.findall(r"(%[\w$.-]+): ", _STRING.sub('""', opened[2])))
            _fill(region, lines)
            found[opened[1]] = region
    return found


def _fill(region: Region, lines: Iterator[str]) -> str:
    """Read the statements of a region, and return the line that ends it."""
    for line in lines:
        bare = line.strip()
        if bare.startswith("}"):
            return bare
        if bare.startswith("^"):
            region.arguments = re.findall(r"(%[\w$.-]+): ", bare)
        elif bare.startswith(("cond {", "reducer")):
            _open(region.statements[-1], bare, lines)
        elif re.match(r"(?:stablehlo\.|func\.)?return\b", bare):
            region.results = _VALUE.findall(bare)
        elif bare:
            region.statements.append(_statement(bare))
            if bare.endswith("{"):
                _open(region.statements[-1], bare, lines)
    return ""


def _open(statement: Statement, line: str, lines: Iterator[str]) -> None:
    """Read the regions of a statement."""
    while line.endswith("{"):
        arguments = re.findall(r"(%[\w$.-]+): ", line) if line.startswith("reducer") else []
        region = Region(arguments=arguments)
        line = _fill(region, lines)
        statement.regions.append(region)
    if not statement.types:
        statement.types = _types(line, len(statement.results))


def _statement(line: str) -> Statement:
    results: list[str] = []
    rest = line
    if found := _RESULTS.match(line):
        rest = line[found.end() :]
        for each in found[1].split(", "):
            name, _, count = each.partition(":")
            results += [f"{name}#{place}" for place in range(int(count))] if count else [name]
    name = _NAME.match(rest)
    plain = _STRING.sub('""', rest)
    return Statement(
        name=(name[1] if name else "").removeprefix("stablehlo.").removeprefix("func."),
        text=rest,
        results=results,
        operands=_VALUE.findall(plain),
        types=_types(plain, len(results)),
    )


def _types(text: str, count: int) -> list[tuple[tuple[int | None, ...], str]]:
    """The last `count` types of a line."""
    found = [
        (tuple(None if size == "?" else int(size) for size in sizes.split("x")[:-1]), kind)
        for sizes, kind in _TENSOR.findall(text.rpartition(" : ")[2] if " : " in text else "")
    ]
    return found[len(found) - count :] if count else []


def numbers(statement: Statement, name: str) -> list[int]:
    """The integers of an attribute such as `dims = [0, 2]` or `dim = 1`; empty if it has none."""
    found = re.search(rf"\b{name} = (?:array<i64: ?)?\[?(-?[\d, -]*)", statement.text)
    return [int(each) for each in found[1].split(",") if each.strip()] if found else []


def pair(statement: Statement, name: str) -> tuple[list[int], list[int]]:
    """The integers of both sides of an attribute such as `contracting_dims = [2] x [1]`."""
    found = re.search(rf"\b{name} = \[([\d, ]*)\] x \[([\d, ]*)\]", statement.text)
    sides = found.groups() if found else ("", "")
    one, other = ([int(each) for each in side.split(",") if each.strip()] for side in sides)
    return one, other


def constant(statement: Statement) -> list[float] | None:
    """The numbers of a small constant, row-major, one for all if they are equal; None if it is written otherwise."""
    found = re.search(r"dense<(.*?)>(?: :|$)", statement.text)
    if found is None or '"' in found[1]:
        return None
    words = re.findall(r"[^\[\], ]+", found[1])
    try:
        return [1 if word == "true" else 0 if word == "false" else float(word) for word in words]
    except ValueError:  # hexadecimal digits of floats, complex numbers
        return None
