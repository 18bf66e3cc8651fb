"""What `tfaot-pkg bench` found, for people."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from tfaot_pkg.bench import table
from tfaot_pkg.bench.results import Bench
from tfaot_pkg.bench.since import Comparison


def text(found: Bench, comparison: Comparison | None, written: Sequence[str]) -> str:
    """Tables as wide as the terminal allows; elsewhere as wide as they are."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    machine = found.machine
    lines = [
        f"{found.model}: median of {found.rounds} rounds on core {machine['core']} of {machine['cpu']}",
        "",
        table.latencies(found).text(width),
        "",
        table.resources(found).text(width),
    ]
    if notes := table.notes(found):
        lines += ["", *notes]
    if comparison:
        lines += ["", *_since(comparison)]
    lines += [f"wrote {path}" for path in written]
    return "\n".join(lines)


def _since(comparison: Comparison) -> list[str]:
    if not comparison.changes:
        return ["nothing that the earlier run measured was measured now: its engines or batch sizes were others"]
    where = "" if comparison.same_machine else " (another CPU)"
    lines = [f"the machine itself{where}: {comparison.machine:.2f} times the time of then, taken out of what follows"]
    changed = [each for each in comparison.changes if each.verdict != "same"]
    for each in changed:
        lines.append(
            f"{each.engine}, batch size {each.batch_size}: {each.verdict}, {each.ratio:.2f} times the time of then "
            f"(95 %: {each.low:.2f} to {each.high:.2f})"
        )
    same = len(comparison.changes) - len(changed)
    return [*lines, f"{same} of {len(comparison.changes)} times are the same as far as noise tells"]
