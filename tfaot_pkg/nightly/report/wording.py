"""The texts of reports, which pages, Markdown and XML share."""

from __future__ import annotations

from tfaot_pkg.nightly.report.comparison import Change
from tfaot_pkg.nightly.types import OWN, OutcomeKind

TONES: dict[OutcomeKind, str] = {
    "published": "good",
    "up to date": "",
    "skipped": "",
    "withheld": "warn",
    "worse": "warn",
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
