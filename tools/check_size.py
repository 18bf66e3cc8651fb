"""Print how large and how entangled tfaot_pkg is: its lines beside the budget, the lowest maintainability index, the
highest cyclomatic complexity. Exit code 1 if a module or function passes a limit.

Both figures are radon's (https://radon.readthedocs.io/en/latest/intro.html). ruff's C901 counts branches alone; radon
also counts operands of `and` and `or`, and comprehensions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from radon.metrics import mi_visit
from radon.visitors import ComplexityVisitor, Function

BUDGET = 78_000
"""Lines that tfaot_pkg is to shrink to."""
LOWEST_INDEX = 15.0
HIGHEST_COMPLEXITY = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """Lines, maintainability index (0 to 100), and the complexity of functions by their names, `FILE:CLASS.NAME`."""

    path: str
    lines: int
    index: float
    functions: tuple[tuple[str, int], ...]


def measured(root: Path, path: str) -> Module:
    """The module at `path` below `root`."""
    text = (root / path).read_text(encoding="utf-8")
    blocks = [each for each in ComplexityVisitor.from_code(text).blocks if isinstance(each, Function)]
    functions = tuple((f"{path}:{each.fullname}", each.complexity) for each in blocks)
    return Module(path=path, lines=text.count("\n"), index=mi_visit(text, multi=True), functions=functions)


def measured_below(root: Path, folder: str) -> list[Module]:
    """All modules of `folder`, a folder of `root`."""
    paths = sorted(path.relative_to(root).as_posix() for path in (root / folder).rglob("*.py"))
    with ProcessPoolExecutor() as pool:
        return [*pool.map(partial(measured, root), paths, chunksize=16)]


def faults(modules: list[Module]) -> Iterator[str]:
    """What passes a limit."""
    low = {each.path: each.index for each in modules if each.index < LOWEST_INDEX}
    high = {name: value for each in modules for name, value in each.functions if value > HIGHEST_COMPLEXITY}
    for path in sorted(low):
        yield f"{path}: maintainability index {low[path]:.1f}, at least {LOWEST_INDEX:g} is wanted: split it by nouns"
    for name in sorted(high):
        yield f"{name}: cyclomatic complexity {high[name]}, at most {HIGHEST_COMPLEXITY} is wanted: name its parts"


def summary(modules: list[Module]) -> str:
    """One line: the figures, and what has them."""
    lowest = min(modules, key=lambda each: each.index)
    highest, name = max((value, name) for each in modules for name, value in each.functions)
    return (
        f"tfaot_pkg: {sum(each.lines for each in modules):,} lines (budget {BUDGET:,}), lowest maintainability index "
        f"{lowest.index:.1f} ({lowest.path}), highest complexity {highest} ({name})"
    )


def main() -> None:
    modules = measured_below(Path(__file__).resolve().parents[1], "tfaot_pkg")
    print(summary(modules))
    if found := [*faults(modules)]:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
