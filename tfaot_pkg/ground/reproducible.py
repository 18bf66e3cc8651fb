"""What is said of the bits of a library's answers, on every CPU (decision 039): one wording for the CLI and pages."""

from __future__ import annotations

from collections.abc import Sequence


def told(*, difference: str = "", unfused: Sequence[str] = ()) -> str:
    """Whether the bits are the same on every CPU; `difference` says why not. Those of the targets `unfused` differ."""
    if difference:
        return f"reproducible: no, because {difference}"
    if not unfused:
        return "reproducible: cpus"
    lack = "lacks" if len(unfused) == 1 else "lack"
    return f"reproducible: cpus, except {' and '.join(unfused)}, which {lack} fused multiply-add"
