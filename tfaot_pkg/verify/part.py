"""`Part`: one class of inputs in a run of the library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.verify.oracle import Tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The inputs `tried`; the library's answers will be in the file `answers` as soon as they are complete."""

    tried: Tried
    answers: Path
