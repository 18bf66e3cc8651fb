"""A validation report in a few lines."""

from __future__ import annotations

from collections.abc import Iterator

from tfaot_pkg.errors import ValidationError
from tfaot_pkg.verify.classes import MAIN
from tfaot_pkg.verify.judgement import Difference, hint_of
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
    for reason in dict.fromkeys(each.not_run for each in classes if each.not_run):
        names = ", ".join(each.name for each in classes if each.not_run == reason)
        yield f"inputs not tried: {names} ({reason})"
    for each in classes:
        elements: dict[tuple[str, str], int] = {}
        for one in each.differences:
            if not one.is_fault:
                elements[one.kind, one.agrees_with] = elements.get((one.kind, one.agrees_with), 0) + one.elements
        for (kind, agrees_with), count in elements.items():
            agreeing = f", as {agrees_with} gives" if agrees_with else ""
            yield f"differs by nature on {each.name} inputs: {counted(count, 'element')} ({kind}{agreeing})"


def disagreement(model: str, report: ValidationReport) -> ValidationError:
    """The error for a report with failures."""
    faults = sorted(report.failed, key=lambda found: (found[0] != MAIN, -found[1].elements))
    lines = "\n".join(_line(name, fault) for name, fault in faults[:_SHOWN])
    more = f"\n  and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    hints = dict.fromkeys((fault.kind, hint_of(fault)) for _, fault in faults)
    return ValidationError(
        f"model {model}: the compiled library does not give TensorFlow's answers "
        f"(rtol {report.rtol:g}, atol {report.atol:g}):\n{lines}{more}",
        hint="; ".join(f"{kind}: {hint}" for kind, hint in hints),
    )


def _line(name: str, fault: Difference) -> str:
    where = f"  inputs of class {name}, {fault.target}"
    if not fault.elements:
        return f"{where}: {'the library does not end' if fault.kind == 'does not end' else 'the library crashes'}"
    size = f", largest difference {fault.max_absolute:.3g}" if fault.max_absolute is not None else ""
    elements = counted(fault.elements, "element")
    return f"{where}, output {fault.output!r}, batch size {fault.batch_size}: {elements} differ{size}: {fault.kind}"
