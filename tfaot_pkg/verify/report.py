"""The validation report: the differences of the library's answers from TensorFlow's, in full and in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfaot_pkg.analysis.accuracy import Accuracy, worst
from tfaot_pkg.analysis.rows import INDEPENDENT, Rows
from tfaot_pkg.compiler.calibration import LayerPrice
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.ground.documents import convert
from tfaot_pkg.ground.wording import AUTHORED, counted
from tfaot_pkg.package.example import Example
from tfaot_pkg.verify.hashes import Hashes
from tfaot_pkg.verify.inputs import MAIN
from tfaot_pkg.verify.judgement import Difference, hint_of, tolerance_of

Array = npt.NDArray[Any]
Verdict = Literal["passed", "failed", "not run"]

DRAWS = "draws"
"""The class of inputs of draws.py."""
NATIVE = "native"
NOT_RUN = "not run"

_FORMAT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One output at one batch size on one target.

    `max_absolute` and `max_relative` are the largest |ours - theirs| and |ours - theirs| / |theirs| over all elements
    that are finite on both sides (0 if theirs is 0 and ours as well); `failures` counts elements beyond
    atol + rtol * |theirs|, among `elements`; NaN agrees with NaN, and an infinity with the same infinity.
    """

    target: str
    batch_size: int
    output: str
    elements: int
    failures: int
    max_absolute: float
    max_relative: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassReport:
    """The comparison for one class of inputs (inputs.py), and its differences from eager TensorFlow.

    `not_run` says why nothing was compared, "" if it was. `rows` were drawn; `refused` counts the batches of all sizes
    that eager TensorFlow rejected.
    """

    name: str
    rows: int
    elements: int
    refused: int
    not_run: str
    differences: tuple[Difference, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ClassReport:
        return cls(**{**data, "differences": tuple(map(_difference, data["differences"]))})


def _difference(data: Mapping[str, Any]) -> Difference:
    return Difference(**{**data, "operations": tuple(data["operations"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One side of a conditional, a loop or a selection of the frozen graph, by the node's name."""

    node: str
    operation: str
    side: str

    def __str__(self) -> str:
        return f"{self.node} ({self.operation}): {self.side}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """All comparisons with the answers of `reference`, a framework and its version.

    `comparisons` are those of the main class, `classes` all classes, the main one first.

    `targets` says how each target's code was run: "native", the emulator, or NOT_RUN. `branches_not_taken` are sides
    that no input took; `warnings` say what compiled code does differently without an error; `rows` where rows of a
    batch interact. `confinement` is the level of the sandbox (sandbox/policy.py) that the library ran in. `hashes` are
    those of its answers to pinned inputs; None in reports of versions without them. `authored` names the operations in
    it that the model's author supplies: their code is not this project's. `origin` names the software that
    wrote the model ("" for TensorFlow). `precision` is what layers multiply in, "" for float32; with bars in the spec,
    `accuracy` are the errors on the main inputs, and `bars` what is allowed, as the spec has it. With int8, `layers`
    are the prices of layers of bytes on the rows of calibration. `example` is a small batch with the framework's
    answers, if the model has one.
    """

    reference: str
    inputs: Mapping[str, object]
    rtol: float
    atol: float
    comparisons: tuple[Comparison, ...]
    classes: tuple[ClassReport, ...] = ()
    branches_not_taken: tuple[Branch, ...] = ()
    targets: Mapping[str, str]
    warnings: tuple[str, ...]
    confinement: str
    rows: Rows = INDEPENDENT
    hashes: Hashes | None = None
    authored: tuple[str, ...] = ()
    origin: str = ""
    precision: str = ""
    accuracy: tuple[Accuracy, ...] = ()
    bars: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[LayerPrice, ...] = ()
    example: Example | None = None

    @property
    def framework(self) -> str:
        """The name of the framework that gave the answers, without its version."""
        names = [each.rpartition(" ")[0] for each in self.reference.split(" and ")]
        return " and ".join("TensorFlow" if name == "tensorflow" else name for name in names)

    @property
    def failed(self) -> tuple[tuple[str, Difference], ...]:
        """The differences that are faults, with the names of their classes."""
        return tuple((each.name, one) for each in self.classes for one in each.differences if one.is_fault)

    @property
    def verdict(self) -> Verdict:
        if self.failed:
            return "failed"
        return "passed" if self.comparisons else "not run"

    @property
    def not_run(self) -> tuple[str, ...]:
        """The targets whose code was not run."""
        return tuple(name for name, how in self.targets.items() if how == NOT_RUN)

    @property
    def emulated(self) -> Mapping[str, str]:
        """The emulators of the targets that did not run on this machine's CPU."""
        return {name: how for name, how in self.targets.items() if how not in (NATIVE, NOT_RUN)}

    @property
    def max_absolute(self) -> float:
        return max((comparison.max_absolute for comparison in self.comparisons), default=0.0)

    @property
    def max_relative(self) -> float:
        return max((comparison.max_relative for comparison in self.comparisons), default=0.0)

    def as_dict(self) -> dict[str, object]:
        return {
            "format": _FORMAT,
            "verdict": self.verdict,
            "passed": self.verdict == "passed",
            "reference": self.reference,
            **({AUTHORED: list(self.authored)} if self.authored else {}),
            **({"origin": self.origin} if self.origin else {}),
            "inputs": dict(self.inputs),
            "rtol": self.rtol,
            "atol": self.atol,
            "max_absolute": self.max_absolute,
            "max_relative": self.max_relative,
            **({PRECISION: self.precision} if self.precision else {}),
            **({ACCURACY: list(self.accuracy), "bars": dict(self.bars)} if self.accuracy else {}),
            **({"layers": list(self.layers)} if self.layers else {}),
            "comparisons": list(self.comparisons),
            "classes": list(self.classes),
            "branches_not_taken": list(self.branches_not_taken),
            "targets": dict(self.targets),
            "not_run": list(self.not_run),
            "confinement": self.confinement,
            "warnings": list(self.warnings),
            "rows": {"independent": self.rows.independent, "meet": self.rows.document()},
            "example": self.example,
            HASHES: self.hashes,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ValidationReport:
        return cls(
            reference=data["reference"],
            authored=tuple(data.get(AUTHORED, ())),
            origin=data.get("origin", ""),
            precision=data.get(PRECISION, ""),
            accuracy=accuracy_in(data),
            bars=data.get("bars", {}),
            layers=convert(tuple[LayerPrice, ...], data.get("layers", []), "$.layers"),
            inputs=data["inputs"],
            rtol=data["rtol"],
            atol=data["atol"],
            comparisons=tuple(Comparison(**item) for item in data["comparisons"]),
            classes=tuple(map(ClassReport.from_dict, data["classes"])),
            branches_not_taken=tuple(Branch(**item) for item in data["branches_not_taken"]),
            targets=data["targets"],
            warnings=tuple(data["warnings"]),
            confinement=data["confinement"],
            rows=Rows.from_document(data["rows"]["meet"]),
            hashes=hashes_in(data),
            example=None if data.get("example") is None else convert(Example, data["example"], "$.example"),
        )


HASHES, ACCURACY, PRECISION = "hashes", "accuracy", "precision"


def accuracy_in(report: Mapping[str, Any]) -> tuple[Accuracy, ...]:
    """The errors in a report's JSON values; none if its spec has no bars. Raises ValueError."""
    return convert(tuple[Accuracy, ...], report.get(ACCURACY, []), f"$.{ACCURACY}")


def hashes_in(report: Mapping[str, Any]) -> Hashes | None:
    """The hashes of answers in a report's JSON values; None if its version has none. Raises ValueError."""
    found = report.get(HASHES)
    return None if found is None else convert(Hashes, found, f"$.{HASHES}")


def compare(
    ours: Array, theirs: Array, *, target: str, batch_size: int, output: str, rtol: float, atol: float
) -> Comparison:
    """Compare two arrays of one shape and dtype; integers and booleans must be equal."""
    # Complex numbers and bfloat16 come as floats (worker_program/messages/elements.py), so no other kind has rounding.
    if theirs.dtype.kind != "f":
        agree = ours == theirs
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        # Different integers above 2**53 may be equal as floats: a difference counts as at least 1.
        difference = np.where(agree, 0.0, np.maximum(np.abs(ours - theirs), 1.0))
        theirs_size = np.abs(theirs)
    else:
        # The difference of two large numbers would overflow in float16 or float32.
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        finite = np.isfinite(ours) & np.isfinite(theirs)
        difference = np.where(finite, np.abs(np.where(finite, ours, 0) - np.where(finite, theirs, 0)), 0.0)
        theirs_size = np.where(finite, np.abs(theirs), 0.0)
        agree = same | (finite & (difference <= atol + rtol * theirs_size))
    relative = np.divide(difference, theirs_size, out=np.zeros_like(difference), where=theirs_size > 0)
    return Comparison(
        target=target,
        batch_size=batch_size,
        output=output,
        elements=int(ours.size),
        failures=int(np.count_nonzero(~agree)),
        max_absolute=float(difference.max(initial=0.0)),
        max_relative=float(relative.max(initial=0.0)),
    )


_SHOWN = 5


def findings(report: ValidationReport) -> list[str]:
    """Lines about errors, if there are bars, and other classes of inputs: those tried and not, accepted differences."""
    lines = [f"errors of {each.output} on the main inputs: {each}" for each in worst(report.accuracy)]
    lines += _tried(report.classes)
    if branches := report.branches_not_taken:
        shown = ", ".join(map(str, branches[:_SHOWN]))
        more = f" and {len(branches) - _SHOWN} more" if len(branches) > _SHOWN else ""
        lines.append(f"branches that no input took: {shown}{more}")
    return lines


def _tried(classes: tuple[ClassReport, ...]) -> Iterator[str]:
    compared = [each.name for each in classes if not each.not_run]
    if len(compared) > 1:
        yield f"inputs tried: {', '.join(compared)}"
    for each in classes:
        if each.name == DRAWS and not each.differences:
            yield f"random numbers: {each.rows} draws have the distributions of the framework's own"
    # One line per reason, because one reason often applies to all classes.
    for reason in dict.fromkeys(each.not_run for each in classes if each.not_run):
        names = ", ".join(each.name for each in classes if each.not_run == reason)
        yield f"inputs not tried: {names} ({reason})"
    for each in classes:
        yield from map(partial(_accepted, each.name), _by_rule(each.differences))


def _by_rule(differences: Sequence[Difference]) -> list[list[Difference]]:
    """Those that are excused, by the rule and its operations."""
    found: dict[tuple[str, tuple[str, ...]], list[Difference]] = {}
    for one in differences:
        if not one.is_fault:
            found.setdefault((one.rule, one.operations), []).append(one)
    return [*found.values()]


def _accepted(name: str, differences: Sequence[Difference]) -> str:
    """A line about the differences of a class that one rule excuses."""
    one = differences[0]
    named = f" of {', '.join(one.operations)}" if one.operations else ""
    # Only the author's own inputs have a tolerance that is a promise.
    sizes = [each.max_absolute or 0.0 for each in differences if name == MAIN]
    largest = f", largest difference {max(sizes):.2g}" if max(sizes, default=0.0) else ""
    own = max((each.spread for each in differences if each.spread and name == MAIN), default=None)
    spread = f", the framework's own {own:.2g}" if largest and own else ""
    elements = counted(sum(each.elements for each in differences), "element")
    return f"accepted differences on {name} inputs: {elements}{largest}{spread} ({one.kind}: {one.rule}{named})"


def undefined(classes: Sequence[ClassReport]) -> Iterator[str]:
    """Sentences about the author's own inputs for which the framework defines no result."""
    found: dict[tuple[str, str, tuple[str, ...]], int] = {}
    for one in (one for each in classes if each.name == MAIN for one in each.differences):
        if one.kind == "undefined result" and not one.is_fault:
            place = one.output, one.rule, one.operations
            found[place] = max(found.get(place, 0), one.elements)
    for (output, rule, operations), count in found.items():
        yield (
            f"output {output!r}: {counted(count, 'element')} of the main inputs differ, because the framework does not "
            f"define their result ({rule} of {', '.join(operations)})"
        )


def disagreement(model: str, report: ValidationReport) -> ValidationError:
    """The error for a report with failures."""
    # The main class first, then the largest faults, because only a few lines are shown.
    faults = sorted(report.failed, key=lambda found: (found[0] != MAIN, -found[1].elements))
    lines = "\n".join(_line(name, fault) for name, fault in faults[:_SHOWN])
    more = f"\n  and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    hints = dict.fromkeys((fault.kind, hint_of(fault, report.framework)) for _, fault in faults)
    tolerance = tolerance_of([fault for _, fault in faults], report.framework)
    return ValidationError(
        f"model {model}: the compiled library does not give {report.framework}'s answers "
        f"(rtol {report.rtol:g}, atol {report.atol:g}):\n{lines}{more}",
        hint="; ".join([*(f"{kind}: {hint}" for kind, hint in hints), *filter(None, [tolerance])]),
    )


def _line(name: str, fault: Difference) -> str:
    where = f"  inputs of class {name}, {fault.target}"
    # Without elements, the library gave no answers at all.
    if not fault.elements:
        return f"{where}: {'the library does not end' if fault.kind == 'does not end' else 'the library crashes'}"
    size = f", largest difference {fault.max_absolute:.3g}" if fault.max_absolute is not None else ""
    elements = counted(fault.elements, "element")
    return f"{where}, output {fault.output!r}, batch size {fault.batch_size}: {elements} differ{size}: {fault.kind}"
