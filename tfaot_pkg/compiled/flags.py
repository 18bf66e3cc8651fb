"""Flags of a spec, tried before anything is built: a process of TensorFlow is made to read them.

XLA reads its flags when it first compiles. A model that the kernel library computes alone never comes so far, and
nobody would notice a flag that the toolchain does not know.
"""

from __future__ import annotations

from tfaot_pkg.cache import BuildCache
from tfaot_pkg.code import code_digest
from tfaot_pkg.compiled.assignment import tuned_code, units_of
from tfaot_pkg.keys import key_of
from tfaot_pkg.progress import Progress
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.toolchain.worker import WorkerPool
from tfaot_pkg.worker_program.messages.requests import Nothing, ReadFlags

STAGE = "flags"


def require_flags(spec: ModelSpec, *, pool: WorkerPool, cache: BuildCache, progress: Progress) -> None:
    """Raise SpecError where the toolchain does not take the flags of `spec`, also where no unit needs XLA.

    What it takes is remembered: the next build asks no process.
    """
    for xla_flags in _sets(spec, pool):
        _require(xla_flags, spec.compilation.tf_xla_flags, pool, cache, progress)


def _sets(spec: ModelSpec, pool: WorkerPool) -> list[tuple[str, ...]]:
    """The XLA_FLAGS of each process that would compile units, without those that ask for nothing."""
    compilation, tuned = spec.compilation, tuned_code(spec, pool.environment.toolchain)
    sets = dict.fromkeys(compilation.xla_flags + tuned.flags(target, size) for size, target in units_of(compilation))
    return [flags for flags in sets if flags or compilation.tf_xla_flags]


def _require(
    xla_flags: tuple[str, ...], tf_xla_flags: tuple[str, ...], pool: WorkerPool, cache: BuildCache, progress: Progress
) -> None:
    parts = {
        "toolchain": pool.environment.identity,
        "xla_flags": list(xla_flags),
        "tf_xla_flags": list(tf_xla_flags),
    }
    key = key_of(STAGE, code_digest(__name__), parts)
    if not cache.has(STAGE, key):
        with progress.step("flags"):
            pool.get(xla_flags=xla_flags, tf_xla_flags=tf_xla_flags).call(ReadFlags(), Nothing)
            cache.get_or_make(STAGE, key, lambda _: None)
