"""What was chosen for each unit: the layers that the kernel library computes, and XLA's flags.

The tuning file (spec/types.py) decides for the toolchain that it was measured with, otherwise the cost model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tfaot_pkg.cache import BuildCache
from tfaot_pkg.code import code_digest
from tfaot_pkg.errors import SpecError
from tfaot_pkg.kernels.calls import Call, calls_of
from tfaot_pkg.kernels.costs import estimated
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.keys import key_of
from tfaot_pkg.progress import Progress
from tfaot_pkg.spec.tuning import choice_document, tuning_path
from tfaot_pkg.spec.types import Compilation, LayerChoice, ModelSpec, TunedCode
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.toolchain.definition import Toolchain
from tfaot_pkg.toolchain.worker import WorkerPool
from tfaot_pkg.worker_program.messages.requests import Nothing, ReadFlags

Unit = tuple[int, str]
"""Batch size and target."""

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """`calls` and `xla_flags` of each unit; the flags are all that its worker has, those of the spec first."""

    calls: Mapping[Unit, tuple[Call, ...]]
    xla_flags: Mapping[Unit, tuple[str, ...]]


def units_of(compilation: Compilation) -> tuple[Unit, ...]:
    return tuple((size, target) for target in compilation.targets for size in compilation.batch_sizes)


def uses_kernels(compilation: Compilation) -> bool:
    """Whether the kernel library may compute layers."""
    # The kernels' packed weights lie in the shared blob (docs/decisions/026).
    return compilation.kernels == "auto" and compilation.weights == "shared"


def possible_calls(layers: Sequence[Layer], chosen: frozenset[str], toolchain: Toolchain) -> tuple[Call, ...]:
    """The calls of a unit whose `chosen` layers are for the kernel library, as far as the toolchain supports calls."""
    calls = calls_of(layers, chosen)
    # Without custom calls (TensorFlow 2.21) the kernels compute a model as a whole or not at all.
    return calls if toolchain.custom_calls or any(call.is_whole for call in calls) else ()


def choices_of(spec: ModelSpec, layers: Sequence[Layer], toolchain: Toolchain) -> Choices:
    """What is chosen for each unit of `spec`. SpecError if the tuning file names layers that are not there."""
    tuned, compilation = tuned_code(spec, toolchain), spec.compilation
    units = units_of(compilation)
    usable = uses_kernels(compilation)
    if usable:
        _require_layers(spec, tuned, layers)
    return Choices(
        calls={
            unit: possible_calls(layers, chosen_layers(tuned, layers, unit), toolchain) if usable else ()
            for unit in units
        },
        xla_flags={(size, target): compilation.xla_flags + tuned.flags(target, size) for size, target in units},
    )


def chosen_layers(tuned: TunedCode, layers: Sequence[Layer], unit: Unit) -> frozenset[str]:
    """The names of the layers that the kernel library computes in `unit`."""
    size, target = unit
    choice = tuned.layers(target, size)
    return estimated(layers, size, TARGETS[target]) if choice is None else choice.among([each.name for each in layers])


def choices_document(spec: ModelSpec, toolchain: Toolchain) -> dict[str, object]:
    """What the choices depend on besides the frozen model and our own code, as JSON values."""
    tuned, units = tuned_code(spec, toolchain), units_of(spec.compilation)
    usable = uses_kernels(spec.compilation)
    # What decides nothing is left out: a change of it must not compile anything again.
    return {
        "xla_flags": [[size, target, *flags] for size, target in units if (flags := tuned.flags(target, size))],
        "layers": [[size, target, _document(tuned.layers(target, size))] for size, target in units] if usable else [],
    }


def _document(choice: LayerChoice | None) -> object:
    return None if choice is None else choice_document(choice)


def tuned_code(spec: ModelSpec, toolchain: Toolchain) -> TunedCode:
    """What the tuning file of `spec` says for that toolchain."""
    toolchains = spec.tuning.toolchains if spec.tuning is not None else {}
    return toolchains.get(toolchain.version, TunedCode())


def missing_layers(spec: ModelSpec, tuned: TunedCode, layers: Sequence[Layer]) -> tuple[str, ...]:
    """Layers that `tuned` names for the units of `spec`, and that are not among `layers`."""
    names = {layer.name for layer in layers}
    choices = [choice for size, target in units_of(spec.compilation) if (choice := tuned.layers(target, size))]
    return tuple(sorted({name for choice in choices for name in choice.missing(names)}))


def _require_layers(spec: ModelSpec, tuned: TunedCode, layers: Sequence[Layer]) -> None:
    if missing := missing_layers(spec, tuned, layers):
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise SpecError(
            f"{tuning_path(spec.path)}: the model has no layers {', '.join(missing[:_SHOWN])}{more}: the file was "
            "measured with another version of the model",
            hint=f"measure again: tfaot-pkg tune {spec.path.name}; or remove the file",
        )


STAGE = "flags"


def require_flags(spec: ModelSpec, *, pool: WorkerPool, cache: BuildCache, progress: Progress) -> None:
    """Raise SpecError if the toolchain rejects the flags of `spec`, even if no unit needs XLA.

    Accepted flags are cached: the next build starts no process for them.

    XLA reads its flags when it first compiles. A model that the kernel library computes alone never gets that far, and
    nobody would notice a flag that the toolchain does not know.
    """
    for xla_flags in _sets(spec, pool):
        _require(xla_flags, spec.compilation.tf_xla_flags, pool, cache, progress)


def _sets(spec: ModelSpec, pool: WorkerPool) -> list[tuple[str, ...]]:
    """The XLA_FLAGS of each process that would compile units, without processes that have no flags at all."""
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
