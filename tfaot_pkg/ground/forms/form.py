"""Check a YAML document against its form: a pydantic model, which also gives its JSON Schema.

Messages are our own, not pydantic's, and every fault has the file, line and path of its value. In a form, a field that
was not given is None: defaults are defined on the types that are made from it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from tfaot_pkg.errors import Fault, SpecError
from tfaot_pkg.ground.forms.document import MAX_BYTES, Document, Path
from tfaot_pkg.ground.forms.fields import Reference
from tfaot_pkg.ground.wording import counted, described, number, shown

_F = TypeVar("_F", bound="Form")
# A file with thousands of faults is usually no spec at all, and a terminal would scroll past the first ones.
_MAX_FAULTS = 100
_EXPECTED = {
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}


class Form(BaseModel):
    """Base of all forms: no key is unknown, no text becomes a number."""

    # strict: else pydantic takes '1' for an integer and 1 for true. Fields may be named `model_...`.
    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())


def problem(message: str) -> PydanticCustomError:
    """The error for a wrong value, with the message for the user."""
    # As a parameter: the message may contain braces, which pydantic would take for a placeholder.
    return PydanticCustomError("form", "{message}", {"message": message})


def checked(fault_of: Callable[[Any], str]) -> AfterValidator:
    """A validator from a rule, which returns the fault of a value ("" if it has none)."""

    def validate(value: Any) -> Any:
        if fault := fault_of(value):
            raise problem(fault)
        return value

    return AfterValidator(validate)


def between(lowest: int, highest: int, unit: str = "") -> AfterValidator:
    """A validator of an integer's limits."""

    def fault_of(value: int) -> str:
        if value < lowest:
            return f"must be at least {lowest}, got {number(value)}"
        return f"must be at most {highest}{unit}, got {number(value)}" if value > highest else ""

    return checked(fault_of)


def _empty_fault(values: Sequence[object]) -> str:
    return "" if values else "must have at least one item"


def _repetition_fault(values: Sequence[object]) -> str:
    repeated = next((value for value in values if values.count(value) > 1), None)
    return f"{shown(str(repeated))} is given twice" if repeated is not None else ""


FILLED = checked(_empty_fault)
"""A list with at least one item."""

DISTINCT = checked(_repetition_fault)
"""A list without repetitions."""


def read_content(path: FilePath, what: str, *, hint: str) -> bytes:
    """The content of the file at `path`, cut one byte above the limit of a document. Raises SpecError."""
    try:
        with path.open("rb") as file:
            # One byte more than allowed shows that the file is too large, whatever its size.
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"{path}: cannot read the {what}: {reason}", hint=hint) from error


def validated(
    form: type[_F],
    data: object,
    document: Document,
    *,
    unknown_key: Callable[[Path], str],
    failed: Collection[Path] = (),
    path_of: Callable[[Path], Path] | None = None,
    special: Callable[[Path, object], str] | None = None,
) -> _F | None:
    """`data` as a `form`; None if it has faults, which are added to `document`.

    `unknown_key` gives the message for an unknown key, `special` a form's own message (or ""), `path_of` the document's
    path from pydantic's. Nothing is reported at or below the paths in `failed`.
    """
    try:
        return form.model_validate(data)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            path = path_of(details["loc"]) if path_of else details["loc"]
            # These have a fault already; the value is None because of it, and a second fault would only confuse.
            if not any(path[: len(start)] == start for start in failed):
                document.report(path, _message(details, path, document, unknown_key, special))
        return None


def _message(
    details: ErrorDetails,
    path: Path,
    document: Document,
    unknown_key: Callable[[Path], str],
    special: Callable[[Path, object], str] | None,
) -> str:
    """The message for an error of pydantic."""
    kind, value = details["type"], details["input"]
    if kind == "form":
        return details["msg"]
    if kind == "missing":
        return "is required, but has no value" if path in document.lines else "is required"
    if kind == "extra_forbidden":
        return unknown_key(path)
    return (special(path, value) if special else "") or f"{_EXPECTED.get(kind, details['msg'])}, got {described(value)}"


def unknown_among(key: str, known: Collection[str]) -> str:
    """The message for `key`, which is not one of `known`."""
    if near := difflib.get_close_matches(key, known, n=1, cutoff=0.5):
        return f"unknown key; did you mean {near[0]}?"
    nearest = max(known, key=lambda name: difflib.SequenceMatcher(a=key, b=name).ratio())
    return f"unknown key; the nearest known key is {nearest} (all: {', '.join(known)})"


def faults_error(document: Document, reference: Reference) -> SpecError:
    """All faults of `document` in the file's order, without repetitions, and at most _MAX_FAULTS of them.

    The hint says where `reference` describes their fields.
    """
    ordered = sorted(document.faults, key=lambda found: (found[1].line, document.position_of(found[0])))
    faults = list(dict.fromkeys(fault for _, fault in ordered))
    if (more := len(faults) - _MAX_FAULTS) > 0:
        line = faults[_MAX_FAULTS].line
        faults[_MAX_FAULTS:] = [
            Fault(file=document.file, line=line, path="", message=f"and {counted(more, 'more fault')}")
        ]
    return SpecError(faults, hint=reference.hint(path for path, _ in ordered))
