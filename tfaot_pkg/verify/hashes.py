"""Hashes of a program's answers to pinned inputs (corpus.py), which are the same on every CPU (decision 039).

A hash is the SHA-256 of an output in all batches of one size, one after the other: row-major, little-endian, booleans
as bytes 0 and 1, bfloat16 as float32, complex numbers as real and imaginary part, and each NaN as the positive quiet
one without a payload (0x7E00, 0x7FC00000, 0x7FF8000000000000).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.errors import ValidationError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.keys import canonical_json, sha256_bytes
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.verify.corpus import SIZES

FORMAT = 1
ENDS_LATE = "the model does not end in time on the pinned inputs"
NO_TARGET = "the machine that built it could run none of its targets"
OF_THE_MACHINE = (ENDS_LATE, NO_TARGET)
"""Reasons for missing hashes that depend on the machine: another one may be able to compute them."""

_NAN = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}
_SHOWN = 5
_HASH = re.compile("[0-9a-f]{64}")
_NAME = re.compile("[a-z0-9_-]{1,40}")
_LONGEST_REASON = 500

Batches = Mapping[int, Mapping[str, str]]
"""Hashes by batch size and output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Targets that give the same bits, with the hashes of their answers. `run` are the targets that were run."""

    targets: tuple[str, ...]
    run: tuple[str, ...]
    batches: Batches

    def __post_init__(self) -> None:
        # The sizes decide how long a run takes, so a document may only have those of the corpus.
        if not self.batches or self.sizes != SIZES[: len(self.batches)]:
            raise ValueError(f"expected the batch sizes {SIZES} or the first of them, got {self.sizes}")
        if not all(_HASH.fullmatch(text) for outputs in self.batches.values() for text in outputs.values()):
            raise ValueError("expected hashes of 64 hexadecimal digits")
        # Names from a document are printed, and looked up in the table of targets.
        if not all(map(_NAME.fullmatch, self.targets)) or not set(self.run) <= set(self.targets):
            raise ValueError("expected names of targets, and those that were run among them")

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted(self.batches))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashes:
    """The hashes of a package, or the `reason` why there are none."""

    groups: tuple[Group, ...] = ()
    reason: str = ""
    format: int = FORMAT

    def __post_init__(self) -> None:
        if len(self.reason) > _LONGEST_REASON or not self.reason.isprintable():
            raise ValueError("expected one line of text for the reason")

    def of(self, target: str) -> Group | None:
        return next((group for group in self.groups if target in group.targets), None)

    def __str__(self) -> str:
        if not self.groups:
            return f"hashes of answers: none ({self.reason})"
        run = ", ".join(name for group in self.groups for name in group.run)
        sizes = ", ".join(map(str, self.groups[0].sizes))
        return f"hashes of answers: batch sizes {sizes}; targets {run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherBits:
    """An output at one batch size whose hash differs from the expected one."""

    target: str
    batch_size: int
    output: str

    def __str__(self) -> str:
        return f"{self.target}, output {self.output!r}, batch size {self.batch_size}"


def digests(answers: Mapping[str, Array], signature: Signature, sizes: Sequence[int]) -> dict[int, dict[str, str]]:
    """The hashes of `answers`, which are by "SIZE/OUTPUT"."""
    return {
        size: {tensor.name: sha256_bytes(_canonical(answers[f"{size}/{tensor.name}"])) for tensor in signature.outputs}
        for size in sizes
    }


def unlike(target: str, given: Batches, expected: Batches) -> list[OtherBits]:
    """The outputs whose hashes differ, or that only one side has."""
    return [
        OtherBits(target=target, batch_size=size, output=output)
        for size in sorted({*given, *expected})
        for output in sorted({*given.get(size, {}), *expected.get(size, {})})
        if given.get(size, {}).get(output) != expected.get(size, {}).get(output)
    ]


def grouped(
    model: str,
    targets: Sequence[str],
    answers: Mapping[str, Mapping[str, Array]],
    signature: Signature,
    sizes: Sequence[int],
) -> Hashes:
    """The hashes of `answers`, which are by target; a target that was not run has none.

    Raises ValidationError if targets that promise the same bits give others, or rows depend on the size of their batch.
    """
    found: list[str] = []
    groups = []
    # Targets with and without fused multiply-add promise the same bits only among themselves.
    for fused in (True, False):
        named = tuple(name for name in targets if TARGETS[name].has_fma is fused)
        run = tuple(name for name in named if name in answers)
        hashed = {name: digests(answers[name], signature, sizes) for name in run}
        for name in run:
            found += [f"{each}: other bits than {run[0]}" for each in unlike(name, hashed[name], hashed[run[0]])]
            found += [
                f"{each}: other bits than the same rows have at batch size {max(sizes)}"
                for each in _other_rows(name, answers[name], signature, sizes)
            ]
        if run:
            groups.append(Group(targets=named, run=run, batches=hashed[run[0]]))
    if found:
        more = f"\n  and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        lines = "".join(f"\n  {each}" for each in found[:_SHOWN])
        raise ValidationError(
            f"model {model}: its answers to the pinned inputs do not have the same bits everywhere:{lines}{more}",
            hint="this is a fault of the C++ compiler or of this tool: try another compiler, and report it; "
            "compilation.engine: xla makes a package that does not promise the same bits",
        )
    return Hashes(groups=tuple(groups)) if groups else Hashes(reason=NO_TARGET)


def combined(hashes: Hashes | None) -> dict[str, str]:
    """One digest of all hashes of the targets with fused multiply-add, "fused", and of the others, "unfused"."""
    groups = hashes.groups if hashes is not None else ()
    return {
        "fused" if TARGETS[group.run[0]].has_fma else "unfused": sha256_bytes(canonical_json(plain(group.batches)))
        for group in groups
        if group.run
    }


def _other_rows(
    target: str, answers: Mapping[str, Array], signature: Signature, sizes: Sequence[int]
) -> Iterator[OtherBits]:
    """The outputs whose rows depend on the size of their batch."""
    # The batches of every size begin with the first row, so rows of one size are the first ones of the largest.
    for tensor in signature.outputs:
        whole = answers[f"{max(sizes)}/{tensor.name}"]
        for size in sizes:
            rows = answers[f"{size}/{tensor.name}"]
            if _canonical(rows) != _canonical(whole[: len(rows)] if tensor.has_batch_axis else whole):
                yield OtherBits(target=target, batch_size=size, output=tensor.name)


def _canonical(values: Array) -> bytes:
    made = np.array(values, values.dtype.newbyteorder("<"), order="C")
    # x86-64 makes negative NaN and AArch64 positive ones: programs do not promise these bits (decision 039).
    if made.dtype.kind == "f":
        bits = made.reshape(-1).view(f"<u{made.itemsize}")
        bits[np.isnan(made).reshape(-1)] = _NAN[made.itemsize]
    return made.tobytes()
