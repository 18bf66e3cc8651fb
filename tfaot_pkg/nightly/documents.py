"""Decisions and outcomes as JSON, for plans, results and the history. Readers ignore names that they do not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.types import Decision, Outcome

_DECISION: TypeAdapter[Decision] = TypeAdapter(Decision)
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)
_Value = TypeVar("_Value", Decision, Outcome)


def decision_document(decision: Decision) -> dict[str, Any]:
    """The decision as JSON values: its fields by name, paths as text."""
    document: dict[str, Any] = _DECISION.dump_python(decision, mode="json")
    return document


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """The outcome as JSON values: its fields by name."""
    document: dict[str, Any] = _OUTCOME.dump_python(outcome, mode="json")
    return document


def decision_of(document: Mapping[str, Any], where: str) -> Decision:
    """The decision of a document. Raises StorageError, which names `where` it was read."""
    return _read(_DECISION, document, where)


def outcome_of(document: Mapping[str, Any], where: str) -> Outcome:
    """The outcome of a document. Raises StorageError, which names `where` it was read."""
    return _read(_OUTCOME, document, where)


def _read(adapter: TypeAdapter[_Value], document: Mapping[str, Any], where: str) -> _Value:
    try:
        return adapter.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise StorageError(
            f"{where} is damaged: {place}: {first['msg']}",
            hint="move the file away: what it said is found out anew, or is lost from the history only",
        ) from error
