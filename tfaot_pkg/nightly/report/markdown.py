"""The report as Markdown, short: for the summary of a CI job (GitHub shows up to 1 MiB)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tfaot_pkg.nightly.report.log import plain
from tfaot_pkg.nightly.report.report import Report, TaskReport
from tfaot_pkg.nightly.report.wording import change_text, duration_text, regression_text

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$])")
_ROWS, _TEXT, _NAMES = 50, 200, 8


def markdown(report: Report) -> str:
    """The summary: counts, failures with what to do about them, what is mended, what got slower."""
    parts = [
        f"## Nightly {_text(report.night)}",
        report.headline,
        f"**Nothing was published.** {_text(report.withheld)}" if report.withheld else "",
        *_section("Failed", ("task", "outcome", "difference", "error", "what depends on it"), _failures(report)),
        *_section("Failures by class", ("class", "models"), _groups(report)),
        *_section(
            "Fixed", ("task", "since"), [(_text(t.outcome.task), t.change.since) for t in report.changed("fixed")]
        ),
        *_section("Got worse", ("task", "what"), _worse(report.regressed)),
        *_section("Published", ("version", "time"), _published(report)),
        *_commands(report.failed),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _failures(report: Report) -> Iterable[tuple[str, ...]]:
    for task in report.failed:
        outcome = task.outcome
        yield (
            _text(outcome.task), outcome.kind, _text(change_text(task.change)), _text(outcome.error), _names(task.hits),
        )  # fmt: skip


def _groups(report: Report) -> Iterable[tuple[str, ...]]:
    for group in report.groups:
        yield f"{_text(group.error_class)} ({len(group.models)})", _names(group.models)


def _worse(tasks: Sequence[TaskReport]) -> Iterable[tuple[str, ...]]:
    for task in tasks:
        yield _text(task.outcome.task), "<br>".join(_text(regression_text(one)) for one in task.regressions[:_NAMES])


def _published(report: Report) -> Iterable[tuple[str, ...]]:
    for task in report.tasks:
        if task.outcome.kind == "published":
            yield _text(f"{task.outcome.model} {task.outcome.release}"), duration_text(task.outcome.seconds)


def _commands(tasks: Sequence[TaskReport]) -> Iterable[str]:
    lines = [plain(task.outcome.command).replace("\n", " ") for task in tasks[:_ROWS] if task.outcome.command]
    if lines:
        yield "To build one by hand:"
        yield "\n".join(f"    {line}" for line in lines)


def _section(title: str, heads: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Iterable[str]:
    rows = list(rows)
    if not rows:
        return
    table = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows[:_ROWS])]
    yield f"### {title}"
    yield "\n".join(table)
    if len(rows) > _ROWS:
        yield f"and {len(rows) - _ROWS:,} more"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return ", ".join(map(_text, names[:_NAMES])) + more


def _text(text: str) -> str:
    """`text` as it stands, in one line, whatever it holds: no markup, no HTML, no link, no end of a cell."""
    line = " ".join(plain(text).split())
    if len(line) > _TEXT:
        line = f"{line[: _TEXT - 1]}…"
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("://", "&#58;//")
    return _SPECIAL.sub(r"\\\1", escaped)
