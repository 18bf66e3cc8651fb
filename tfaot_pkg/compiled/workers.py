"""Units shared among worker processes: XLA reads its flags once per process, so other flags are other workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest

from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.progress import Step
from tfaot_pkg.toolchain.worker import Worker, WorkerPool
from tfaot_pkg.worker_program.messages.requests import Compile, Compiled, Unit

_UNITS_PER_WORKER = 8  # below, starting another worker (an import of TensorFlow) costs more than it saves


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagged:
    """A unit, and the XLA_FLAGS that it is compiled with."""

    unit: Unit
    xla_flags: tuple[str, ...]


def compile_units(
    pool: WorkerPool, request: Compile, units: Sequence[Flagged], *, tf_xla_flags: Sequence[str], step: Step
) -> set[str]:
    """Compile all units; the nodes of the weights that had to be embedded, because XLA must know them.

    `request` is what units of all flags have in common: it names no units, and no weights to embed.
    """
    embedded: set[str] = set()
    while wanted := _run(pool, replace(request, embed=tuple(sorted(embedded))), units, tf_xla_flags, step):
        if wanted <= embedded:
            raise ToolchainError(f"TensorFlow asked again for the weights {', '.join(sorted(wanted))}")
        if unknown := wanted.difference(weight.node for weight in request.weights):  # there would be no end of them
            raise ToolchainError(f"TensorFlow asked for weights that the model does not have: {min(unknown)!r}")
        embedded |= wanted
    return embedded


def _run(
    pool: WorkerPool, request: Compile, units: Sequence[Flagged], tf_xla_flags: Sequence[str], step: Step
) -> set[str]:
    """The weights that must be embedded; none where all is compiled."""
    shares = _shares(pool, units, tf_xla_flags)
    with ThreadPoolExecutor(os.cpu_count() or 1) as executor:
        futures: list[Future[Compiled]] = []
        try:
            for worker, share in shares:
                futures.append(executor.submit(worker.call, replace(request, units=tuple(share)), Compiled, step=step))
            return {name for future in futures for name in future.result().embed}
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for (worker, _), future in zip_longest(shares, futures):
                if future is None or not future.done():
                    worker.kill()
            raise


def _shares(pool: WorkerPool, units: Sequence[Flagged], tf_xla_flags: Sequence[str]) -> list[tuple[Worker, list[Unit]]]:
    """Workers with what each of them compiles: as many for each set of flags as pay."""
    shares = []
    for flags in dict.fromkeys(each.xla_flags for each in units):
        same = [each.unit for each in units if each.xla_flags == flags]
        count = max(1, min(os.cpu_count() or 1, len(same) // _UNITS_PER_WORKER))
        for number in range(count):
            worker = pool.get(xla_flags=flags, tf_xla_flags=tf_xla_flags, number=number)
            shares.append((worker, same[number::count]))
    return shares
