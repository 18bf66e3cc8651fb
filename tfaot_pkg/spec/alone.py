"""Specs read alone, several at a time: all faults of all of them, without a toolchain or the files of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tfaot_pkg.errors import Fault, SpecError
from tfaot_pkg.spec.parse import load_spec


def faults_of(specs: Sequence[Path], defines: Mapping[str, str]) -> tuple[Fault, ...]:
    """The faults of `specs`, in their order; `defines` are the values of `env.*` in the expressions of each."""
    return tuple(fault for spec in specs for fault in _faults(spec, defines))


def _faults(spec: Path, defines: Mapping[str, str]) -> Iterator[Fault]:
    try:
        load_spec(spec, defines)
    except SpecError as error:
        if error.faults:
            yield from error.faults
            return
        # A file that is no spec at all: its hint says what to do, those of faults only where the reference is.
        said = error.message.removeprefix(f"{spec}: ")
        yield Fault(file=str(spec), line=0, path="", message=f"{said}; {error.hint}" if error.hint else said)
