"""Writing a report: pages, report.json, junit.xml, summary.md, metrics.prom."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from tfaot_pkg.catalogue.render import HOME
from tfaot_pkg.catalogue.site import Site
from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.documents import fields_of, write_indented
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.storage import locked, storage_errors
from tfaot_pkg.nightly.regression import told_of
from tfaot_pkg.nightly.report.log import plain
from tfaot_pkg.nightly.report.report import Report, TaskReport
from tfaot_pkg.nightly.report.trends import UNITS, Trend, trend_plot, value_text
from tfaot_pkg.nightly.report.wording import change_text, duration_text, tone, tool_name
from tfaot_pkg.nightly.types import MODEL_FAULTS

_LOCK, _LOCK_TIMEOUT = ".report.lock", 60


def write_report(report: Report, output: Path) -> None:
    """Write `report` into the folder `output`; an older report there is replaced page by page, index.html last.

    Within a catalogue, pages link back to it. Raises StorageError, also if the folder has something else.
    """
    _require_ours(output)
    with storage_errors(f"write the report {output}"):
        output.mkdir(parents=True, exist_ok=True)
        with locked(output / _LOCK, what=f"the report {output}", timeout=_LOCK_TIMEOUT):
            site = Site(root=output)
            site.write("report.json", write_indented(document(report)))
            site.write("junit.xml", junit(report))
            site.write("summary.md", markdown(report).encode())
            site.write("metrics.prom", metrics(report).encode())
            write_pages(site, report, catalogue="../" if (output.parent / HOME).exists() else "")


def _require_ours(output: Path) -> None:
    # The lock file marks a report whose first writing was killed.
    if output.is_dir() and not any((output / name).exists() for name in ("report.json", _LOCK)):
        if any(not path.name.startswith(".") for path in output.iterdir()):
            raise StorageError(
                f"{output} is not a report and not empty", hint="name a new folder with --output, or one that is empty"
            )


_FORMAT = 1


def document(report: Report) -> dict[str, Any]:
    """The report as a JSON document, without logs, which have files of their own."""
    return {
        "format": _FORMAT,
        "night": report.night,
        "before": report.before,
        "headline": report.headline,
        "exit_code": report.exit_code,
        "counts": report.counts,
        "withheld": report.withheld,
        "excluded": report.excluded,
        "builders": report.builders,
        "made_with": report.made_with,
        "pending": report.pending,
        "gone": report.gone,
        "groups": report.groups,
        "tasks": [_task(task) for task in report.tasks],
    }


def _task(task: TaskReport) -> dict[str, Any]:
    trends = [_trend(one) for one in task.trends]
    return {
        **fields_of(task.outcome),
        "change": task.change,
        "hits": task.hits,
        "unlike": task.unlike,
        "comparison": task.comparison,
        "worse": task.regressions,
        "bisection": task.bisection,
        "trends": trends,
    }


def _trend(trend: Trend) -> dict[str, Any]:
    return {
        "metric": trend.metric,
        "unit": UNITS[trend.metric],
        "target": trend.target,
        "batch_size": trend.batch_size,
        "value": trend.last,
        "points": [[one.night, one.value] for one in trend.points],
    }


_Sample = tuple[Mapping[str, str], float]


def metrics(report: Report) -> str:
    """The night in Prometheus' text format, for the textfile collector of its node exporter."""
    failing = [one for one in report.tasks if one.failed]
    worse = [one for one in report.tasks if one.regressions]
    counts: list[_Sample] = [({"outcome": kind}, float(count)) for kind, count in report.counts.items()]
    families: tuple[tuple[str, str, list[_Sample]], ...] = (
        ("tasks", "Tasks of the last night, by outcome", counts),
        ("tasks_pending", "Tasks of the last night without an outcome", [({}, float(len(report.pending)))]),
        ("exit_code", "Exit code of the last night: 0 if nothing failed", [({}, float(report.exit_code))]),
        ("workers_excluded", "Workers that got no more builds", [({}, float(len(report.excluded)))]),
        ("task_failing", "The time since which a task fails, in seconds of Unix time",
         [(_labels(one), _day_as_time(one.change.since)) for one in failing]),
        ("task_answers_differ", "Tasks whose answers have other bits than those of the release before",
         [(_labels(one), 1.0) for one in report.answering_otherwise]),
        ("task_regressions", "Figures of a task that got worse",
         [(_labels(one), float(len(one.regressions))) for one in worse]),
    )  # fmt: skip
    lines = list[str]()
    for name, help_, samples in families:
        lines += [f"# HELP tfaot_night_{name} {help_}.", f"# TYPE tfaot_night_{name} gauge"]
        for labels, value in samples:
            told = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
            lines.append(f"tfaot_night_{name}{f'{{{told}}}' if told else ''} {value:.15g}")
    return "\n".join(lines) + "\n"


def _labels(one: TaskReport) -> dict[str, str]:
    return {"task": one.outcome.task, "model": one.outcome.model, "toolchain": one.outcome.toolchain}


def _label(text: str) -> str:
    return plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _day_as_time(day: str) -> float:
    return datetime.fromisoformat(day).replace(tzinfo=timezone.utc).timestamp()


FOLDERS = ("all", "tasks", "assets")
# A night may have thousands of tasks: rows of a table and names in a cell of index.html, models of a page of the grid,
# characters of a file's name, plots of a task's page. report.json and junit.xml have everything.
_ROWS, _PAGE, _NAMES, _LONGEST = 100, 250, 20, 100
_PLOTS = 24


def write_pages(site: Site, report: Report, *, catalogue: str = "") -> None:
    """Write the pages of `report`; `catalogue` is the path from index.html to a catalogue's folder. Raises OSError."""
    site.assets()
    shared = {
        "report": report,
        "catalogue": catalogue,
        "page": page_of,
        "plain": plain,
        "tool_name": tool_name,
        "tone": tone,
        "change": change_text,
        "duration": duration_text,
        "figure": value_text,
        "told": told_of,
    }
    for task in (one for one in report.tasks if one.has_news):
        site.page(page_of(task.outcome.task), "task.html.j2", {**shared, "task": task, "trends": _trends(task)})
    grid = report.grid
    pages = max(1, -(-len(grid) // _PAGE))
    for number in range(pages):
        lines = grid[number * _PAGE : (number + 1) * _PAGE]
        context = {**shared, "lines": lines, "number": number + 1, "pages": pages}
        site.page(f"all/{number + 1}.html", "tasks.html.j2", context)
    site.page("index.html", "night.html.j2", {**shared, "most": _ROWS, "most_names": _NAMES})
    # After index.html: until then, readers follow the links of the old one.
    site.remove_others(FOLDERS)


def page_of(task: str) -> str:
    """The path of a task's page. Unsafe characters are encoded, long ids cut; a digest tells them apart."""
    name = re.sub(r"[^a-z0-9.@+-]", lambda found: "_" if found[0] == "_" else f"_{ord(found[0]):x}_", task)
    if name != task or len(name) > _LONGEST or not name[:1].isalnum():
        name = f"t{name[:_LONGEST]}-{sha256_bytes(task.encode('utf-8', 'surrogatepass'))[:12]}"
    return f"tasks/{name}.html"


def _trends(task: TaskReport) -> Sequence[dict[str, object]]:
    """The page's text for each trend; only the first few have a plot."""
    return [
        {
            "name": plain(trend.name[:1].upper() + trend.name[1:]),
            "value": value_text(trend.metric, trend.last),
            "plot": trend_plot(trend) if number < _PLOTS else None,
            "count": len(trend.points),
            "processors": list(dict.fromkeys(plain(one.processor) for one in trend.points if one.processor)),
        }
        for number, trend in enumerate(task.trends)
    ]


_SKIPPED = frozenset({"skipped", "withheld", "worse", "refused"})


def junit(report: Report) -> bytes:
    """The document, UTF-8."""
    root = Element("testsuites", name=f"nightly {report.night}")
    toolchains = report.toolchains
    suites = [_suite(root, name, [one for one in report.tasks if one.outcome.toolchain == name]) for name in toolchains]
    _count(root, suites)
    data: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _suite(root: Element, toolchain: str, tasks: list[TaskReport]) -> Element:
    suite = SubElement(root, "testsuite", name=plain(tool_name(toolchain)))
    for task in tasks:
        _case(suite, task)
    suite.set("tests", str(len(tasks)))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", f"{sum(one.outcome.seconds for one in tasks):.3f}")
    return suite


def _case(suite: Element, task: TaskReport) -> None:
    outcome = task.outcome
    case = SubElement(
        suite, "testcase",
        # Readers of JUnit files take dots for separators of packages and classes.
        classname=plain(tool_name(outcome.toolchain).lower().replace(" ", "-").replace(".", "_")),
        name=plain(outcome.task),
        time=f"{outcome.seconds:.3f}",
    )  # fmt: skip
    if outcome.kind in _SKIPPED:
        reason = (
            outcome.error if outcome.kind in ("withheld", "worse", "refused") else "; ".join(map(str, task.reasons))
        )
        SubElement(case, "skipped", message=plain(f"{outcome.kind}: {reason}"))
    elif task.failed:
        # JUnit tells both apart as this tool does: a test that failed, and one that could not be run.
        tag = "failure" if outcome.kind in MODEL_FAULTS else "error"
        first = plain(outcome.error).partition("\n")[0]
        fault = SubElement(case, tag, type=outcome.kind, message=f"{outcome.kind}: {first}")
        fault.text = plain(_account(task))
    said = [f"{outcome.kind}: {outcome.release}", *map(str, task.regressions)]
    SubElement(case, "system-out").text = plain("\n".join(said))


def _account(task: TaskReport) -> str:
    outcome = task.outcome
    parts = [change_text(task.change), outcome.error]
    if task.log is not None:
        parts.append("\n...\n".join("\n".join(line.text for line in part) for part in task.log.parts))
    if outcome.command:
        parts.append(f"build it by hand: {outcome.command}")
    return "\n\n".join(filter(None, parts))


def _count(root: Element, suites: list[Element]) -> None:
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in suites):.3f}")


_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$])")
# CI services show summary.md whole: rows of a table, characters of a text, names in a cell.
_TEXT_ROWS, _TEXT, _TEXT_NAMES = 50, 200, 8


def markdown(report: Report) -> str:
    """The summary: counts, failures with the commands that repeat them, fixed tasks, regressions."""
    parts = [
        f"## Nightly {_text(report.night)}",
        report.headline,
        f"**Not published:** {_text(report.withheld)}" if report.withheld else "",
        *_section("Failed", ("task", "outcome", "difference", "error", "dependents"), _failures(report)),
        *_section("Workers without further builds", ("worker", "why"), _excluded(report)),
        *_section("Failures by class", ("class", "models"), _groups(report)),
        *_section(
            "Fixed", ("task", "since"), [(_text(t.outcome.task), t.change.since) for t in report.changed("fixed")]
        ),
        *_section("Got worse", ("task", "what"), _worse(report.regressed)),
        *_section("Other answers", ("task", "than", "how far", "what changed"), _unlike(report.answering_otherwise)),
        *_section("Published", ("version", "time"), _published(report)),
        *_commands("To build one by hand:", [one.outcome.command for one in report.failed]),
        *_commands("To name what made it:", [one.bisection for one in report.tasks]),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _failures(report: Report) -> Iterable[tuple[str, ...]]:
    for task in report.failed:
        outcome = task.outcome
        yield (
            _text(outcome.task), outcome.kind, _text(change_text(task.change)), _text(outcome.error), _names(task.hits),
        )  # fmt: skip


def _excluded(report: Report) -> Iterable[tuple[str, ...]]:
    for worker, why in report.excluded.items():
        yield _text(worker), _text(why)


def _groups(report: Report) -> Iterable[tuple[str, ...]]:
    for group in report.groups:
        yield f"{_text(group.error_class)} ({len(group.models)})", _names(group.models)


def _worse(tasks: Sequence[TaskReport]) -> Iterable[tuple[str, ...]]:
    for task in tasks:
        shown = task.regressions[:_TEXT_NAMES]
        yield _text(task.outcome.task), "<br>".join(_text(str(one)) for one in shown)


def _unlike(tasks: Sequence[TaskReport]) -> Iterable[tuple[str, ...]]:
    for task in tasks:
        apart = task.comparison.apart if task.comparison is not None else None
        why = "<br>".join(map(_text, map(str, task.reasons)))
        yield _text(task.outcome.task), _text(task.unlike), _text(str(apart)), why


def _published(report: Report) -> Iterable[tuple[str, ...]]:
    for task in report.tasks:
        if task.outcome.kind == "published":
            yield _text(f"{task.outcome.model} {task.outcome.release}"), duration_text(task.outcome.seconds)


def _commands(title: str, commands: Iterable[str]) -> Iterable[str]:
    lines = [plain(command).replace("\n", " ") for command in commands if command][:_TEXT_ROWS]
    if lines:
        yield title
        yield "\n".join(f"    {line}" for line in lines)


def _section(title: str, heads: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Iterable[str]:
    rows = list(rows)
    if not rows:
        return
    table = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows[:_TEXT_ROWS])]
    yield f"### {title}"
    yield "\n".join(table)
    if len(rows) > _TEXT_ROWS:
        yield f"and {len(rows) - _TEXT_ROWS:,} more"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TEXT_NAMES:,} more" if len(names) > _TEXT_NAMES else ""
    return ", ".join(map(_text, names[:_TEXT_NAMES])) + more


def _text(text: str) -> str:
    """`text` in one line, escaped: models choose it, and it must not become markup, HTML, a link or another cell."""
    line = " ".join(plain(text).split())
    if len(line) > _TEXT:
        line = f"{line[: _TEXT - 1]}…"
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("://", "&#58;//")
    return _SPECIAL.sub(r"\\\1", escaped)
