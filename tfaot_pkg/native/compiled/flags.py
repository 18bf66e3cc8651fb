"""XLA's flags of each unit: those of the spec, then those of the tuning file for the toolchain."""

from __future__ import annotations

from collections.abc import Mapping

from tfaot_pkg.errors import SpecError
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.spec.types import Compilation, ModelSpec, TunedCode
from tfaot_pkg.worker_program.messages.requests import Nothing, ReadFlags

Unit = tuple[int, str]
"""Batch size and target."""


def units_of(compilation: Compilation) -> tuple[Unit, ...]:
    return tuple((size, target) for target in compilation.targets for size in compilation.batch_sizes)


def flags_of(spec: ModelSpec, toolchain: Toolchain) -> Mapping[Unit, tuple[str, ...]]:
    """All XLA_FLAGS of each unit of `spec`."""
    tuned, compilation = tuned_code(spec, toolchain), spec.compilation
    # `tune` chooses no flag that the spec sets, so their order decides nothing.
    return {(size, target): compilation.xla_flags + tuned.flags(target, size) for size, target in units_of(compilation)}


def flags_document(spec: ModelSpec, toolchain: Toolchain) -> list[list[object]]:
    """The flags that the tuning file adds, as JSON values. Units without any are left out: they change no key."""
    tuned = tuned_code(spec, toolchain)
    return [
        [size, target, *flags] for size, target in units_of(spec.compilation) if (flags := tuned.flags(target, size))
    ]


def tuned_code(spec: ModelSpec, toolchain: Toolchain) -> TunedCode:
    """The entry of `spec`'s tuning file for that toolchain."""
    # No entry, no flags: those of another release may be errors, or mean something else (decision 025).
    toolchains = spec.tuning.toolchains if spec.tuning is not None else {}
    return toolchains.get(toolchain.version, TunedCode())


STAGE = "flags"


def require_flags(spec: ModelSpec, *, pool: WorkerPool, cache: BuildCache, progress: Progress) -> None:
    """Raise SpecError if the toolchain rejects the flags of `spec`, even if no unit needs XLA.

    Accepted flags are cached: the next build starts no process for them.

    XLA reads its flags when it first compiles. If the model becomes a program, XLA compiles nothing, and an unknown
    flag would remain unnoticed.
    """
    sets = _sets(spec, pool)
    if sets and not pool.environment.toolchain.has_tensorflow:
        raise SpecError(
            "compilation.xla_flags and tf_xla_flags: no TensorFlow takes part in this model, and none reads them",
            hint="remove them from the spec, and from its tuning file",
        )
    for xla_flags in sets:
        _require(xla_flags, spec.compilation.tf_xla_flags, pool, cache, progress)


def _sets(spec: ModelSpec, pool: WorkerPool) -> list[tuple[str, ...]]:
    """The XLA_FLAGS of each process that would compile units, without processes that have no flags at all."""
    sets = dict.fromkeys(flags_of(spec, pool.environment.toolchain).values())
    return [flags for flags in sets if flags or spec.compilation.tf_xla_flags]


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
