"""What is said of the bits of a library's answers, on every CPU (decision 039): one wording for the CLI and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfaot_pkg.ground.targets import TARGETS

_LONGEST = 200  # of a reason, as it is shown


def told(*, difference: str = "", unfused: Sequence[str] = ()) -> str:
    """Whether the bits are the same on every CPU; `difference` says why not. Those of the targets `unfused` differ."""
    if difference:
        return f"reproducible: no, because {difference}"
    if not unfused:
        return "reproducible: cpus"
    lack = "lacks" if len(unfused) == 1 else "lack"
    return f"reproducible: cpus, except {' and '.join(unfused)}, which {lack} fused multiply-add"


def told_by(info: Mapping[str, Any]) -> str:
    """As `told`, of a package whose info.json is `info`; empty if that does not say it.

    A publisher wrote it: only names of targets and printable reasons are shown.
    """
    difference, others = info.get("difference"), info.get("other_bits")
    match info.get("reproducible"):
        case "no" if isinstance(difference, str) and difference.isprintable():
            return told(difference=difference[:_LONGEST])
        case "cpus":
            named = others if isinstance(others, list) else []
            return told(unfused=[name for name in named if isinstance(name, str) and name in TARGETS])
    return ""
