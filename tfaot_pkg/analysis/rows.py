"""`Rows`: whether the rows of a model's batch depend on one another, and at which operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """An operation that combines rows of a batch, on the way to `output`.

    `node` is TensorFlow's name of the operation, "" if there is none; `operation` is HLO's opcode. `reason` completes
    the sentence "output y: ..." (the constants of analysis/program/values.py).
    """

    output: str
    node: str
    operation: str
    reason: str

    def __str__(self) -> str:
        place = f" in node {self.node!r}" if self.node else ""
        operation = f" ({self.operation})" if self.operation else ""
        return f"output {self.output!r}: {self.reason}{place}{operation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The operations that combine rows of a model's batch, at most one per output.

    If there is none, each row of the outputs depends only on the same row of the inputs: batches of any size can be
    composed of others, and padded. Otherwise only whole batches of a compiled size give right answers (decision 029).
    """

    meetings: tuple[Meeting, ...] = ()

    @property
    def independent(self) -> bool:
        return not self.meetings

    def as_dict(self) -> dict[str, object]:
        """For JSON documents: info.json, reports."""
        return {
            "rows_independent": self.independent,
            **({"rows_meet": [str(meeting) for meeting in self.meetings]} if self.meetings else {}),
        }

    def warnings(self) -> tuple[str, ...]:
        """Warnings for the author of the model."""
        return tuple(
            f"rows of a batch depend on one another: {meeting}; only compiled batch sizes run"
            for meeting in self.meetings
        )

    def document(self) -> list[dict[str, str]]:
        """All operations as JSON values."""
        return [asdict(meeting) for meeting in self.meetings]

    @classmethod
    def from_document(cls, document: list[Mapping[str, Any]]) -> Rows:
        return cls(meetings=tuple(Meeting(**item) for item in document))


INDEPENDENT = Rows()
