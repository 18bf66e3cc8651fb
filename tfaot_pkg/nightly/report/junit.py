"""The report as JUnit XML, which every CI shows: a suite per toolchain, a case per task.

Form: https://github.com/testmoapp/junitxml. A fault of a model is a failure, one of a machine or of another model an
error; what is withheld or known to be broken is skipped.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from tfaot_pkg.nightly.report.log import plain
from tfaot_pkg.nightly.report.report import Report, TaskReport
from tfaot_pkg.nightly.report.wording import change_text, regression_text
from tfaot_pkg.nightly.types import MODEL_FAULTS

_SKIPPED = frozenset({"skipped", "withheld"})


def junit(report: Report) -> bytes:
    """The document, UTF-8."""
    root = Element("testsuites", name=f"nightly {report.night}")
    toolchains = sorted({one.outcome.toolchain for one in report.tasks})
    suites = [_suite(root, name, [one for one in report.tasks if one.outcome.toolchain == name]) for name in toolchains]
    _count(root, suites)
    data: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _suite(root: Element, toolchain: str, tasks: list[TaskReport]) -> Element:
    suite = SubElement(root, "testsuite", name=plain(f"TensorFlow {toolchain}"))
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
        classname=plain(f"tensorflow-{outcome.toolchain}".replace(".", "_")), name=plain(outcome.task),
        time=f"{outcome.seconds:.3f}",
    )  # fmt: skip
    if outcome.kind in _SKIPPED:
        reason = outcome.error if outcome.kind == "withheld" else "; ".join(map(str, task.reasons))
        SubElement(case, "skipped", message=plain(f"{outcome.kind}: {reason}"))
    elif task.failed:
        tag = "failure" if outcome.kind in MODEL_FAULTS else "error"
        first = plain(outcome.error).partition("\n")[0]
        fault = SubElement(case, tag, type=outcome.kind, message=f"{outcome.kind}: {first}")
        fault.text = plain(_account(task))
    said = [f"{outcome.kind}: {outcome.release}", *map(regression_text, task.regressions)]
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
