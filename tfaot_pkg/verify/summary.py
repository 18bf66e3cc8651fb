"""A validation report in a few lines."""

from __future__ import annotations

from collections.abc import Iterator

from tfaot_pkg.verify.report import ClassReport, ValidationReport
from tfaot_pkg.wording import counted

_SHOWN = 5


def findings(report: ValidationReport) -> list[str]:
    """What was tried beside the main inputs, what differs by nature, what was not tried."""
    lines = list(_tried(report.classes))
    if branches := report.branches_not_taken:
        shown = ", ".join(map(str, branches[:_SHOWN]))
        more = f" and {len(branches) - _SHOWN} more" if len(branches) > _SHOWN else ""
        lines.append(f"branches that no input took: {shown}{more}")
    return lines


def _tried(classes: tuple[ClassReport, ...]) -> Iterator[str]:
    compared = [each.name for each in classes if not each.not_run]
    if len(compared) > 1:
        yield f"inputs tried: {', '.join(compared)}"
    for each in classes:
        if each.not_run:
            yield f"inputs not tried: {each.name} ({each.not_run})"
        elements: dict[tuple[str, str], int] = {}
        for one in each.differences:
            if not one.is_fault:
                elements[one.kind, one.agrees_with] = elements.get((one.kind, one.agrees_with), 0) + one.elements
        for (kind, agrees_with), count in elements.items():
            agreeing = f", as {agrees_with} gives" if agrees_with else ""
            yield f"differs by nature on {each.name} inputs: {counted(count, 'element')} ({kind}{agreeing})"
