"""The documents of a stored result, compared with what the publisher makes itself.

Measured numbers may differ from machine to machine; everything else must be, byte for byte, what is made here. The
functions return the fault in words, "" if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from tfaot_pkg.ground.documents import convert, plain, read_json
from tfaot_pkg.ground.sandbox import Level
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.package.listing import Tree
from tfaot_pkg.package.tree import PackageContents, document_bytes
from tfaot_pkg.pipeline.pipeline import Plan, provenance_of
from tfaot_pkg.verify.oracle import same_reference
from tfaot_pkg.verify.report import NATIVE, NOT_RUN, ValidationReport
from tfaot_pkg.verify.rules import Kind

_LONGEST = 100
"""Characters of a text in a report that depends on the machine: an emulator's version, the name of a rule."""


def report_in(data: bytes) -> ValidationReport:
    """The report in a validation.json. Raises ValueError unless it is written as builds write it, and has no more."""
    try:
        report = ValidationReport.from_dict(convert(dict[str, Any], read_json(data)))
        same = document_bytes(plain(report)) == data
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its form is another one ({error})") from error
    if not same:
        raise ValueError("it is not written as builds write it")
    return report


def report_fault(given: ValidationReport, own: ValidationReport) -> str:
    """What a report, read by `report_in`, says other than that of this machine, `own`; hashes are not looked at."""
    if given.failed or given.verdict == "failed":
        return "its report tells of failures"
    if _without_measurements(given) != _without_measurements(own):
        return "its report is about another validation"
    return next(_strange_words(given, own), "")


def _without_measurements(report: ValidationReport) -> object:
    """What does not depend on the machine."""
    example = report.example
    # The example's outputs are the framework's, whose last bits depend on the CPU.
    return (
        replace(report, comparisons=(), classes=(), targets={}, confinement="", hashes=None, example=None),
        [(each.name, each.rows) for each in report.classes],
        sorted(report.targets),
        None if example is None else (example.rows, example.inputs, sorted(example.outputs), example.sizes),
    )


def _strange_words(given: ValidationReport, own: ValidationReport) -> Iterator[str]:
    """Texts that no machine could have put there."""
    outputs = {one.output for one in (own.comparisons or given.comparisons)}
    for target, how in given.targets.items():
        if how not in (NATIVE, NOT_RUN, own.targets[target]) and not _is_short(how):
            yield f"its report says that {target} ran in {how!r}"
    if given.confinement not in {level.value for level in Level} | {own.confinement}:
        yield f"its report says that it was confined by {given.confinement!r}"
    compared = [(one.target, one.output) for one in given.comparisons]
    for theirs, ours in zip(given.classes, own.classes, strict=True):
        if theirs.not_run not in ("", ours.not_run):
            yield f"its report says why {theirs.name} was not tried: {theirs.not_run!r}"
        for one in theirs.differences:
            compared.append((one.target, one.output))
            if one.kind not in get_args(Kind) or not all(map(_is_short, (one.rule, *one.operations))):
                yield f"its report tells of differences that do not exist: {one.kind!r}"
    for target, output in compared:
        if not (target in TARGETS or _is_short(target)) or output not in outputs:
            yield f"its report is about an output {output!r} for {target!r}"


def _is_short(text: str) -> bool:
    return len(text) <= _LONGEST and text.isprintable()


def reference_fault(given: bytes | None, own: bytes | None, signature: Signature, report: ValidationReport) -> str:
    """What the stored answers (oracle.reference_bytes) say other than those of this machine, `own`."""
    if (given is None) != (own is None):
        return "its stored answers are missing" if given is None else "it has stored answers"
    if given is None or own is None or same_reference(given, own, signature, report.rtol, report.atol):
        return ""
    return "its stored answers are not the framework's"


def provenance_fault(
    given: bytes, plan: Plan, contents: PackageContents, others: Tree, report: ValidationReport
) -> str:
    """What a provenance of the files `others` says other than one that is made here of the same `report`."""
    try:
        document: Any = read_json(given)
        level = Level(document["predicate"]["buildDefinition"]["internalParameters"]["confinement"])
    except (ValueError, KeyError, TypeError) as error:
        return f"its provenance does not say how it was confined ({error})"
    if level.value != Level.weakest([level.value, report.confinement]).value:
        return "its provenance says that it was confined better than its report does"
    own = document_bytes(provenance_of(plan, contents, others, level, report.targets))
    return "" if own == given else "its provenance is not the one that is made for this build"


def sbom_fault(given: bytes) -> str:
    """Whether a bill of materials is written as builds write it. What it lists is not compared."""
    try:
        return "" if document_bytes(read_json(given)) == given else "its sbom is not written as builds write it"
    except ValueError as error:
        return f"its sbom is damaged: {error}"
