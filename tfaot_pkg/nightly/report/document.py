"""The report as JSON: report.json, and what `--json` prints."""

from __future__ import annotations

from typing import Any

from tfaot_pkg.nightly.documents import outcome_document
from tfaot_pkg.nightly.report.report import Report, TaskReport
from tfaot_pkg.nightly.report.trends import UNITS, Trend

_FORMAT = 1


def document(report: Report) -> dict[str, Any]:
    """The report as JSON values; logs are left to their files."""
    return {
        "format": _FORMAT,
        "night": report.night,
        "before": report.before,
        "headline": report.headline,
        "exit_code": report.exit_code,
        "counts": dict(report.counts),
        "withheld": report.withheld,
        "pending": list(report.pending),
        "gone": list(report.gone),
        "groups": [
            {"error_class": group.error_class, "models": list(group.models), "tasks": list(group.tasks)}
            for group in report.groups
        ],
        "tasks": [_task(task) for task in report.tasks],
    }


def _task(task: TaskReport) -> dict[str, Any]:
    change = {"kind": task.change.kind, "since": task.change.since, "before": task.change.before}
    trends = [_trend(one) for one in task.trends]
    return {**outcome_document(task.outcome), "change": change, "hits": list(task.hits), "trends": trends}


def _trend(trend: Trend) -> dict[str, Any]:
    verdict = trend.verdict
    return {
        "metric": trend.metric,
        "unit": UNITS[trend.metric],
        "target": trend.target,
        "batch_size": trend.batch_size,
        "value": trend.points[-1].value,
        "verdict": verdict and {"kind": verdict.kind, "median": verdict.median, "spread": verdict.spread},
        "points": [[one.night, one.value] for one in trend.points],
    }
