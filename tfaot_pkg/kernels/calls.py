"""Calls: chains of layers that one function computes, and the plan of that function for a batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.kernels.scratch import conv2d_max_pool_scratch, conv2d_scratch

_Pair = tuple[Layer, Layer | None]

_CACHE = 1 << 20
"""Bytes: what is half of a usual second-level cache."""
_IMAGES = 1 << 18
"""Bytes of activations that images worked on at a time may have."""
_ROWS = 64
"""Rows that are followed through several layers at a time: as many as the kernels handle together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Layers, each of which reads what the one before it gives, as one call out of XLA's code."""

    index: int
    layers: tuple[Layer, ...]

    @property
    def name(self) -> str:
        """Of the graph's node."""
        return f"tfaot_call_{self.index}"

    def function(self, batch_size: int) -> str:
        return f"{self.name}_b{batch_size}"

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the model."""
        return self.layers[0].reads_input and self.layers[-1].gives_output

    @property
    def with_parameters(self) -> tuple[Layer, ...]:
        """The layers that have parameters: operands of the call behind its input."""
        return tuple(layer for layer in self.layers if layer.parameters is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where floats lie: `offset` into "input", "result" or "memory"; `row_size` of each row that is passed."""

    base: str
    offset: int
    row_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One layer, from `source` to `target`; `operand` is the number of its parameters among the call's. A convolution
    takes the `pool` behind it along. `scratch` is the memory that it needs to work in, in floats.
    """

    layer: Layer
    pool: Layer | None
    source: Place
    target: Place
    operand: int | None
    scratch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Steps that `rows` rows of the batch take together before the next rows do."""

    rows: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A call at `batch_size`, of which `block` rows go through all stages before the next do. `memory` is what it needs
    beside its result, in floats, of which the kernels' scratch begins at `scratch`.
    """

    batch_size: int
    block: int
    stages: tuple[Stage, ...]
    scratch: int
    memory: int


def calls_of(layers: Iterable[Layer], chosen: frozenset[str]) -> tuple[Call, ...]:
    """The longest chains of `chosen` layers that hold a product."""
    chains = chains_of(layer for layer in layers if layer.name in chosen)
    kept = [chain for chain in chains if any(layer.is_product for layer in chain)]
    return tuple(Call(index=index, layers=chain) for index, chain in enumerate(kept))


def chains_of(layers: Iterable[Layer]) -> tuple[tuple[Layer, ...], ...]:
    """`layers` in the longest rows of which each reads what the one before it alone gives."""
    chains: dict[str, tuple[Layer, ...]] = {}  # by the name of their last layer
    for layer in layers:
        chains[layer.name] = (*chains.pop(layer.after, ()), layer)
    return tuple(chains.values())


def plan_of(call: Call, batch_size: int) -> Plan:
    """How `call` is computed at `batch_size`."""
    operands = {layer.name: index for index, layer in enumerate(call.with_parameters)}
    parts = _parts(_with_pools(call.layers))
    # What lies between stages stays in the cache, and takes little memory. One stage has nothing between.
    block = batch_size if len(parts) == 1 else min(_ROWS, batch_size)
    stages: list[Stage] = []
    here, end = Place(base="input", offset=0, row_size=call.layers[0].input_size), 0
    for number, part in enumerate(parts):
        rows = min(_rows(part), block)
        is_last = number == len(parts) - 1
        target = Place(base="result" if is_last else "memory", offset=0 if is_last else end, row_size=_size(part[-1]))
        end += 0 if is_last else _aligned(block * target.row_size)
        # What lies between layers goes to two places in turn.
        widest = [_aligned(rows * max((_size(pair) for pair in part[:-1][i::2]), default=0)) for i in (0, 1)]
        between = [Place(base="memory", offset=offset, row_size=0) for offset in (end, end + widest[0])]
        steps = []
        for index, (layer, pool) in enumerate(part):
            there = target if index == len(part) - 1 else between[index % 2]
            steps.append(
                Step(
                    layer=layer, pool=pool, source=here, target=there,
                    operand=operands.get(layer.name), scratch=_scratch(layer, pool),
                )
            )  # fmt: skip
            here = there
        stages.append(Stage(rows=rows, steps=tuple(steps)))
        end += sum(widest)
    scratch = max(step.scratch for stage in stages for step in stage.steps)
    return Plan(batch_size=batch_size, block=block, stages=tuple(stages), scratch=end, memory=max(1, end + scratch))


def _with_pools(layers: Sequence[Layer]) -> list[_Pair]:
    """Each layer with the maximum pooling that one call computes with it."""
    pairs: list[_Pair] = []
    for layer in layers:
        if layer.kind == "max_pool" and pairs and pairs[-1][0].kind == "conv2d" and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], layer)
        else:
            pairs.append((layer, None))
    return pairs


def _size(pair: _Pair) -> int:
    layer, pool = pair
    return (pool or layer).output_size


def _scratch(layer: Layer, pool: Layer | None) -> int:
    if layer.kind != "conv2d":
        return 0
    return conv2d_max_pool_scratch(layer.operation, pool.operation) if pool else conv2d_scratch(layer.operation)


def _parts(pairs: Sequence[_Pair]) -> list[list[_Pair]]:
    """Layers on images apart from layers on vectors."""
    parts: list[list[_Pair]] = []
    for pair in pairs:
        if parts and parts[-1][-1][0].is_spatial == pair[0].is_spatial:
            parts[-1].append(pair)
        else:
            parts.append([pair])
    return parts


def _rows(part: Sequence[_Pair]) -> int:
    """Rows that go through `part` together."""
    if part[0][0].is_spatial:
        return max(1, _IMAGES // (4 * max(_size(pair) for pair in part)))
    if sum(layer.parameters_size for layer, _ in part) <= _CACHE:
        return _ROWS
    return 1 << 30  # layer by layer: else all weights would come from memory for each few rows


def _aligned(floats: int) -> int:
    return -(-floats // 16) * 16
