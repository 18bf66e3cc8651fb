"""The report as pages in the catalogue's style: the night, all tasks, a page per task.

index.html            what failed, what is mended, what got worse, what was published
all/N.html            all tasks
tasks/NAME.html       a task: why, the log, the trends
assets/               the catalogue's style and script
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfaot_pkg.catalogue.site import Site
from tfaot_pkg.keys import sha256_bytes
from tfaot_pkg.nightly.report.log import plain
from tfaot_pkg.nightly.report.plot import trend_plot, value_text
from tfaot_pkg.nightly.report.report import Report, TaskReport
from tfaot_pkg.nightly.report.wording import change_text, duration_text, regression_text, tone, verdict_text

FOLDERS = ("all", "tasks", "assets")
_ROWS, _PAGE, _NAMES, _LONGEST = 100, 250, 20, 100
_PLOTS = 24


def write_pages(site: Site, report: Report, *, catalogue: str = "") -> None:
    """Write the pages of `report`; `catalogue` is the way to a catalogue's folder, from index.html. Raises OSError."""
    site.assets()
    shared = {
        "report": report,
        "catalogue": catalogue,
        "page": page_of,
        "plain": plain,
        "tone": tone,
        "change": change_text,
        "duration": duration_text,
        "regression": regression_text,
    }
    for task in report.tasks:
        site.page(page_of(task.outcome.task), "task.html.j2", {**shared, "task": task, "trends": _trends(task)})
    pages = max(1, -(-len(report.tasks) // _PAGE))
    for number in range(pages):
        rows = report.tasks[number * _PAGE : (number + 1) * _PAGE]
        site.page(
            f"all/{number + 1}.html", "tasks.html.j2", {**shared, "rows": rows, "number": number + 1, "pages": pages}
        )
    site.page("index.html", "night.html.j2", {**shared, "most": _ROWS, "most_names": _NAMES})
    site.remove_others(FOLDERS)


def page_of(task: str) -> str:
    """The path of a task's page. Ids that are no good file names are coded, very long ones cut, without two alike."""
    name = re.sub(r"[^a-z0-9.@+-]", lambda found: "_" if found[0] == "_" else f"_{ord(found[0]):x}_", task)
    if name != task or len(name) > _LONGEST or not name[:1].isalnum():
        name = f"t{name[:_LONGEST]}-{sha256_bytes(task.encode('utf-8', 'surrogatepass'))[:12]}"
    return f"tasks/{name}.html"


def _trends(task: TaskReport) -> Sequence[dict[str, object]]:
    """What the page says of each trend; all but the first few have no plot."""
    return [
        {
            "name": plain(trend.name),
            "value": value_text(trend.metric, trend.points[-1].value),
            "verdict": verdict_text(trend),
            "tone": {"worse": "bad", "better": "good"}.get(trend.verdict.kind if trend.verdict else "", ""),
            "plot": trend_plot(trend) if number < _PLOTS else None,
            "count": len(trend.points),
        }
        for number, trend in enumerate(task.trends)
    ]
