"""What people are told of a night, each thing once: which notices a report gives, for whom, and their text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.nightly.report.log import plain
from tfaot_pkg.nightly.report.report import Report, TaskReport
from tfaot_pkg.nightly.report.wording import change_text

NoticeKind = Literal["failing", "fixed", "got worse", "answers differ", "withheld", "worker excluded", "expires soon"]
_MOST, _LINE = 100, 400
"""Notices in one message, and characters of a line: all is in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to tell `owners`: about `subject`, a task's id or a part of the registry, with `lines` of text.

    Two notices with the same `id` are the same news. `command` repeats the build by hand; "" if there is none.
    """

    kind: NoticeKind
    subject: str
    id: str
    owners: tuple[str, ...]
    lines: tuple[str, ...]
    command: str = ""


def notices_of(report: Report, owners: Sequence[str], expiring: Sequence[str] = ()) -> tuple[Notice, ...]:
    """The notices of a night. `owners` are those of the registry, of which `expiring` says what will expire.

    What failed in an earlier night is a notice too, the same one as then, so that nobody misses it if that night's
    could not be sent.
    """
    return (*_of_tasks(report), *_of_registry(report, tuple(owners), expiring))


def _of_tasks(report: Report) -> Iterator[Notice]:
    for one in report.tasks:
        task, outcome = one.outcome.task, one.outcome
        if one.failed:
            what = f"{outcome.kind}, {change_text(one.change)}"
            lines = (what, outcome.error, *_needed_by(one))
            yield _notice("failing", task, one.change.since, one.owners, lines, outcome.command)
        elif one.change.kind == "fixed":
            yield _notice("fixed", task, one.change.since, one.owners, (change_text(one.change),))
        if one.regressions or one.outcome.kind == "worse":
            lines = (_kept_back(one), *map(str, one.regressions))
            yield _notice(
                "got worse",
                task,
                outcome.release,
                one.owners,
                (*lines, *_reasons(one)),
                one.bisection or outcome.command,
            )
        if one.unlike and one.comparison is not None:
            first = f"other bits than {one.unlike} on the pinned inputs: {one.comparison.apart}"
            yield _notice("answers differ", task, outcome.release, one.owners, (first, *_reasons(one)), one.bisection)


def _needed_by(one: TaskReport) -> tuple[str, ...]:
    return (f"needed by {', '.join(one.hits[:10])}{' and others' if len(one.hits) > 10 else ''}",) if one.hits else ()


def _kept_back(one: TaskReport) -> str:
    return f"not published: {one.outcome.error}" if one.outcome.kind == "worse" else ""


def _reasons(one: TaskReport) -> tuple[str, ...]:
    return tuple(f"what changed: {each}" for each in one.reasons)


def _of_registry(report: Report, owners: tuple[str, ...], expiring: Sequence[str]) -> Iterator[Notice]:
    if report.withheld:
        yield _notice("withheld", "publication", report.night, owners, (report.withheld,))
    for worker, why in report.excluded.items():
        yield _notice("worker excluded", worker, report.night, owners, (why,))
    for each in expiring:
        yield _notice("expires soon", "signatures", each, owners, (each,))


def _notice(
    kind: NoticeKind, subject: str, when: str, owners: tuple[str, ...], lines: Sequence[str], command: str = ""
) -> Notice:
    digest = sha256_bytes(f"{kind}\0{subject}\0{when}".encode("utf-8", "surrogatepass"))
    told = tuple(filter(None, map(_line, lines)))
    return Notice(kind=kind, subject=_line(subject), id=digest[:32], owners=owners, lines=told, command=_line(command))


def _line(text: str) -> str:
    """`text` in one line: models and workers choose it, and a terminal or a mail reader must not obey it."""
    line = " ".join(plain(text).split())
    return f"{line[: _LINE - 1]}…" if len(line) > _LINE else line


def heading(notices: Sequence[Notice]) -> str:
    """`2 failing, 1 fixed`."""
    kinds = list(dict.fromkeys(each.kind for each in notices))
    return ", ".join(f"{sum(each.kind == kind for each in notices)} {kind}" for kind in kinds)


def text_of(report: Report, notices: Sequence[Notice]) -> str:
    """The text of a message, for people."""
    parts = [f"Night {report.night}: {report.headline}"]
    for each in notices[:_MOST]:
        lines = [f"{each.subject}: {each.kind}", *(f"  {line}" for line in each.lines)]
        parts.append("\n".join([*lines, *([f"  to repeat it: {each.command}"] if each.command else [])]))
    if (more := len(notices) - _MOST) > 0:
        parts.append(f"and {counted(more, 'more notice')}: see the report")
    return "\n\n".join(parts) + "\n"


def document_of(report: Report, notices: Sequence[Notice]) -> Mapping[str, Any]:
    """A message for programs. `text` is what chat services (Slack, Mattermost) show; to them < and > are commands."""
    text = text_of(report, notices).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    told = [
        {"kind": each.kind, "subject": each.subject, "lines": each.lines, "command": each.command}
        for each in notices[:_MOST]
    ]
    return {"text": text, "night": report.night, "headline": report.headline, "notices": told}
