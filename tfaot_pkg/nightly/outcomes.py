"""What is recorded of a task in a night. Pure."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.errors import NetworkError, StorageError
from tfaot_pkg.nightly.attempt import Attempt
from tfaot_pkg.nightly.types import Decision, Outcome, OutcomeKind
from tfaot_pkg.nightly.written import command_for

UNREACHED = "Conan remote not reached"
_OF_MACHINES = (NetworkError.kind, StorageError.kind)


def outcome_for(
    decision: Decision,
    kind: OutcomeKind,
    *,
    attempt: Attempt | None = None,
    tries: int = 1,
    error: str = "",
    error_class: str = "",
    log: str = "",
) -> Outcome:
    """What became of `decision`; `log` is a path in the night's folder, `attempt` the last of `tries`."""
    task = decision.task
    return Outcome(
        task=task.id,
        model=task.model,
        toolchain=task.toolchain,
        kind=kind,
        release=decision.release,
        key=decision.key,
        seconds=attempt.seconds if attempt is not None else 0.0,
        attempts=tries,
        error=error,
        error_class=error_class,
        log=log,
        command=command_for(task),
        reasons=decision.reasons,
        figures=attempt.figures if attempt is not None else None,
        builder=attempt.builder if attempt is not None else "",
    )


def settled(decision: Decision, unsent: str = "") -> Outcome:
    """The outcome of a task that is not built. What cannot be planned has its error for a reason.

    `unsent` says why what is published is not on all remotes.
    """
    match decision.action:
        case "up to date" if unsent:
            return outcome_for(decision, "upload failed", error=unsent, error_class=UNREACHED)
        case "up to date":
            return outcome_for(decision, "up to date")
        case "fail":
            (reason,) = decision.reasons
            kind: OutcomeKind = "infrastructure failed" if reason.what in _OF_MACHINES else "build failed"
            return outcome_for(decision, kind, error=reason.detail, error_class=f"cannot be planned: {reason.what}")
        case _:
            return outcome_for(decision, "skipped")


def refusal(decision: Decision, why: str) -> Outcome:
    """The outcome of a task that is not what the definition asks for.

    It has no command that builds it by hand: that would be one with somebody else's spec.
    """
    return replace(outcome_for(decision, "infrastructure failed", error=why), command="")


def class_of(kind: OutcomeKind, attempt: Attempt) -> str:
    """Failures of publishing have none from their build."""
    if kind == "dependency failed":
        return "dependency failed"
    if kind == "upload failed":
        return UNREACHED
    if kind == "infrastructure failed":
        return attempt.error_class or "the machine failed"
    return attempt.error_class
