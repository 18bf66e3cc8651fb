"""The texts of reports, which pages, Markdown and XML share."""

from __future__ import annotations

from tfaot_pkg.nightly.report.comparison import Change
from tfaot_pkg.nightly.report.trends import FEWEST, TIMES, Trend, value_text
from tfaot_pkg.nightly.types import OWN, OutcomeKind

TONES: dict[OutcomeKind, str] = {
    "published": "good",
    "up to date": "",
    "skipped": "",
    "withheld": "warn",
    "refused": "warn",
    "dependency failed": "warn",
    "infrastructure failed": "warn",
    "upload failed": "warn",
}
"""The colour of a kind of outcome, by the style sheet's names; all others are `bad`."""


def tool_name(toolchain: str) -> str:
    """What made a task's package, for readers."""
    return "tfaot-pkg" if toolchain == OWN else f"TensorFlow {toolchain}"


def tone(kind: OutcomeKind) -> str:
    return TONES.get(kind, "bad")


def change_text(change: Change) -> str:
    """`still failing since 2026-11-19 (was: timed out)`; empty if nothing changed."""
    was = f" (was: {change.before})" if change.before is not None else ""
    match change.kind:
        case "newly failing":
            return f"newly failing{was}"
        case "still failing":
            return f"still failing since {change.since}{was}"
        case "fixed":
            return f"fixed: it failed since {change.since}"
        case "new":
            return "new"
        case "unchanged":
            return ""


def regression_text(trend: Trend) -> str:
    """`latency, x86-64-v3, batch size 4: 12.1 µs, 31 % more than the median of 10.2 µs`."""
    value = value_text(trend.metric, trend.points[-1].value)
    return f"{trend.name}: {value}{_compared(trend)}"


def verdict_text(trend: Trend) -> str:
    """The verdict as text; empty if tonight has no value."""
    verdict = trend.verdict
    if verdict is None:
        return ""
    if verdict.kind == "too few":
        other = trend.metric in TIMES and len({one.processor for one in trend.points}) > 1
        return f"too few nights{' on this CPU' if other else ''} to judge (of {FEWEST})"
    if verdict.kind == "steady":
        return "as before"
    return f"{verdict.kind}{_compared(trend)}"


def _compared(trend: Trend) -> str:
    verdict = trend.verdict
    if verdict is None or verdict.kind == "too few":
        return ""
    median = value_text(trend.metric, verdict.median)
    if not verdict.median:
        return f", where the median is {median}"
    return f", {abs(verdict.change):.0%} {'more' if verdict.change > 0 else 'less'} than the median of {median}"


def duration_text(seconds: float) -> str:
    """`41 s`, `12 min 5 s`, `2 h 10 min`; empty for no time at all."""
    if seconds <= 0:
        return ""
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
