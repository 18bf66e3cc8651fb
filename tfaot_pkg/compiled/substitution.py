"""Graphs in which calls of the kernel library replace layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.frozen.model import FrozenModel
from tfaot_pkg.kernels.calls import Call, plan_of
from tfaot_pkg.toolchain.worker import WorkerPool, from_worker
from tfaot_pkg.worker_program.messages.graph import Weight
from tfaot_pkg.worker_program.messages.requests import CallSizes, LayerCall, Substitute, Substituted

_Variant = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """The graph's file for each set of calls, and the weights and parameters that any of them needs."""

    paths: Mapping[_Variant, Path]
    weights: tuple[Weight, ...]
    made: tuple[Path, ...]

    def path(self, calls: Sequence[Call]) -> Path:
        return self.paths[_variant(calls)]

    def remove(self) -> None:
        """Once all is compiled."""
        for path in self.made:
            path.unlink()


def all_weights(frozen: FrozenModel) -> tuple[Weight, ...]:
    """The weights of `frozen`, then the parameters of its layers, each once: layers may share them."""
    parameters = {layer.parameters.node: layer.parameters for layer in frozen.layers if layer.parameters is not None}
    return (*frozen.weights, *parameters.values())


def with_calls(frozen: FrozenModel, units: Iterable[tuple[Call, ...]], *, pool: WorkerPool, folder: Path) -> Graphs:
    """The graph of `frozen` with the calls of each of `units`, below `folder`."""
    variants = {_variant(calls): calls for calls in units}
    if not any(variants):
        return Graphs(paths={(): pool.give(frozen.graph)}, weights=frozen.weights, made=())
    ordered = sorted(variants)
    request = Substitute(
        graph=str(pool.give(frozen.graph)),
        out=str(folder),
        inputs=frozen.inputs,
        outputs=frozen.outputs,
        variants=tuple(tuple(map(_description, variants[variant])) for variant in ordered),
    )
    answer = pool.get().call(request, Substituted)
    with from_worker():
        paths = [folder / Path(path).name for path in answer.graphs]  # names only: the worker is not trusted
        needed = set(answer.weights)
        return Graphs(
            paths=dict(zip(ordered, paths, strict=True)),
            weights=tuple(weight for weight in all_weights(frozen) if weight.node in needed),
            made=tuple(paths),
        )


def call_arguments(calls: Sequence[Call], batch_size: int) -> dict[str, CallSizes]:
    """What the worker needs to know of a unit's calls."""
    return {
        call.name: CallSizes(
            function=call.function(batch_size),
            sizes=(batch_size * call.layers[-1].output_size, plan_of(call, batch_size).memory),
        )
        for call in calls
    }


def _description(call: Call) -> LayerCall:
    last = call.layers[-1]
    return LayerCall(
        name=call.name,
        reads=call.layers[0].reads,
        gives=last.name,
        shape=last.output_shape,
        parameters=tuple(layer.parameters for layer in call.layers if layer.parameters is not None),
    )


def _variant(calls: Sequence[Call]) -> _Variant:
    """What tells sets of calls apart."""
    return tuple(tuple(layer.name for layer in call.layers) for call in calls)
