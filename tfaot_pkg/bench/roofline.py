"""The least time that a model can take on one core: its roofline.

The roofline model (Williams, Waterman, Patterson, CACM 52, 2009): a run takes at least as long as its arithmetic
at the core's peak of multiply-adds, and at least as long as reading its weights and inputs and writing its outputs
once, at the bandwidth for so many bytes. What lies between layers is not counted: it may stay in the caches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfaot_pkg.signature import Signature
from tfaot_pkg.worker_program.messages.graph import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one core at one target: floating-point operations a second, and bytes read a second by bytes read."""

    target: str
    flops: float
    bandwidths: Mapping[int, float]

    def as_dict(self) -> dict[str, object]:
        return {
            "target": self.target,
            "gflops": round(self.flops / 1e9, 1),
            "read_gbytes": {str(size): round(rate / 1e9, 1) for size, rate in self.bandwidths.items()},
        }


def bytes_moved(work: Work, signature: Signature, batch_size: int) -> int:
    """Bytes that a run reads or writes at least."""
    tensors = sum(tensor.nbytes_at(batch_size) for tensor in (*signature.inputs, *signature.outputs))
    return work.constant_bytes + tensors


def operations(work: Work, batch_size: int) -> float:
    """Floating-point operations of a run: a multiplication and an addition are two."""
    return work.operations_per_call + work.operations_per_row * batch_size


def sizes_read(work: Work, signature: Signature, batch_sizes: Sequence[int]) -> tuple[int, ...]:
    """The amounts whose bandwidths a roofline needs."""
    return tuple(dict.fromkeys(bytes_moved(work, signature, size) for size in batch_sizes))


def least_time(work: Work, signature: Signature, batch_size: int, limits: Limits) -> float:
    """Nanoseconds."""
    moved = bytes_moved(work, signature, batch_size)
    return 1e9 * max(operations(work, batch_size) / limits.flops, moved / limits.bandwidths[moved])
