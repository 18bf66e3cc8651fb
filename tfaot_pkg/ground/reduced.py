"""What is said of layers that compute in less than float32 (decision 093): one wording for the CLI and pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MEANINGS = {"bfloat16": "layers multiply numbers of 8 significant bits, and add in float32"}


def told_by(report: Mapping[str, Any]) -> str:
    """In what the layers of a package compute whose validation report is `report`; empty for float32.

    A publisher wrote it: only words of this table are shown.
    """
    precision = report.get("precision")
    return f"{precision}: {_MEANINGS[precision]}" if isinstance(precision, str) and precision in _MEANINGS else ""
