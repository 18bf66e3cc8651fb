"""How the code of each target is run for its validation: on this CPU, under an emulator, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.emulator import emulator_of
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import TARGETS, Target, runs_here
from tfaot_pkg.verify.report import NATIVE, NOT_RUN


def runnable_targets(spec: ModelSpec) -> tuple[str, ...]:
    """Those that this CPU can run."""
    return tuple(name for name in spec.compilation.targets if runs_here(TARGETS[name]))


def ways_to_run(spec: ModelSpec) -> dict[str, str]:
    """How the code of each target is run here: NATIVE, the emulator with its version, or NOT_RUN."""
    return {name: _way_to_run(TARGETS[name]) for name in spec.compilation.targets}


def _way_to_run(target: Target) -> str:
    if runs_here(target):
        return NATIVE
    emulator = emulator_of(target)
    return NOT_RUN if emulator is None else str(emulator)


def not_run_targets(spec: ModelSpec) -> tuple[str, ...]:
    """Those that neither this CPU nor an emulator can run."""
    return tuple(name for name, how in ways_to_run(spec).items() if how == NOT_RUN)


def require_verified(not_run: Sequence[str], unverified: Sequence[str]) -> None:
    """ValidationError where one of `not_run`, targets without validation, is not among `unverified`."""
    missing = [name for name in not_run if name not in unverified]
    if missing:
        raise ValidationError(
            f"no validation for {', '.join(missing)}: this machine cannot run such code, and no emulator can",
            hint="install qemu-user (it runs aarch64 and x86-64 up to v3), publish on a machine with such a CPU, "
            "or publish without validation: "
            + " ".join(f"--unverified-target {name}" for name in missing)
            + " (in registry.yaml: policy.unverified_targets)",
        )
