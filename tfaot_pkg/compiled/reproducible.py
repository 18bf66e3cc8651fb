"""Whether a program's results are the same bits on every CPU (docs/decisions/039), and if not, why."""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.compiler.program import Operation, Program
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.worker_program.messages.carriers import OPERATION

_OF_THE_C_LIBRARY = {
    "atan2": "atan2", "cbrt": "cbrt", "cosine": "cos", "erf": "erf", "power": "pow", "sine": "sin", "tan": "tan",
}  # fmt: skip
"""What the C library computes of doubles, in other ways on other CPUs and in other versions."""


def unfused(targets: Sequence[str]) -> tuple[str, ...]:
    """Those of `targets` that cannot fuse a multiplication and an addition, if others can: their last bits differ."""
    found = tuple(name for name in targets if not TARGETS[name].has_fma)
    return found if len(found) < len(targets) else ()


def difference(program: Program) -> str:
    """Why the bits may depend on the CPU beyond that. Empty if they do not."""
    known = {each.id: each for each in program.entry.everything()}
    called = {_OF_THE_C_LIBRARY[each.opcode] for each in known.values() if _is_of_the_c_library(each)}
    targets = [each.attributes["target"] for each in known.values() if each.opcode == "custom-call"]
    if any(target != OPERATION for target in targets):
        return "XLA computes parts of it"
    if targets:
        return "it calls operations of the model's author"
    if called:
        return f"it calls {', '.join(sorted(called))} of the C library"
    if any(each.opcode == "bitcast-convert" and _reads_a_float(each, known) for each in known.values()):
        return "it reads the bits of floats, and those of NaN depend on the CPU"
    return ""


def _is_of_the_c_library(operation: Operation) -> bool:
    return operation.opcode in _OF_THE_C_LIBRARY and operation.shape.dtype == "f64"


def _reads_a_float(operation: Operation, known: dict[int, Operation]) -> bool:
    return known[operation.operands[0]].shape.dtype in ("f32", "f64")
