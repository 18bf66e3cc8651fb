"""Calls: chains of layers that one function computes, and the plan of that function for a batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tfaot_pkg.kernels.layer import Layer, conv2d_max_pool_scratch, conv2d_scratch

_Pair = tuple[Layer, Layer | None]

_CACHE = 1 << 20
"""Bytes: half of a usual second-level cache."""
_IMAGES = 1 << 18
"""Bytes of activations of the images that are worked on together."""
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
    takes the `pool` behind it along, a sum adds what is `added`. `scratch` is the memory that it needs to work in, in
    floats.
    """

    layer: Layer
    pool: Layer | None
    source: Place
    target: Place
    added: Place | None
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
    """The maximal chains of `chosen` layers that contain a product."""
    kept = [chain for chain in chains_of(layers, chosen) if any(layer.is_product for layer in chain)]
    return tuple(Call(index=index, layers=chain) for index, chain in enumerate(kept))


def chains_of(layers: Iterable[Layer], chosen: frozenset[str]) -> tuple[tuple[Layer, ...], ...]:
    """The `chosen` ones of `layers` as maximal chains whose intermediate results have no other consumer.

    A sum is left out if the layer whose input it adds is not in its chain.
    """
    known = tuple(layers)
    # Leaving out a sum may divide a chain and so separate other sums from their terms: repeated until none is left.
    while True:
        seen_outside = {layer.adds for layer in known if layer.name not in chosen}  # the inputs of these layers
        chains: dict[str, tuple[Layer, ...]] = {}  # by the name of their last layer
        for layer in known:
            if layer.name in chosen:
                before = () if layer.name in seen_outside else chains.pop(layer.after, ())
                chains[layer.name] = (*before, layer)
        row_of = {layer.name: last for last, chain in chains.items() for layer in chain}
        sums = [layer for layer in known if layer.adds and layer.name in chosen]
        if not (apart := {layer.name for layer in sums if row_of.get(layer.adds) != row_of[layer.name]}):
            return tuple(chains.values())
        chosen -= apart


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
        between, end = _between(part, rows, end)
        places = [here, *between, target]
        read_at = {layer.name: place for (layer, _), place in zip(part, places, strict=False)}
        steps = [
            Step(
                layer=layer, pool=pool, source=source, target=there, added=read_at[layer.adds] if layer.adds else None,
                operand=operands.get(layer.name), scratch=_scratch(layer, pool),
            )
            for (layer, pool), source, there in zip(part, places[:-1], places[1:], strict=True)
        ]  # fmt: skip
        stages.append(Stage(rows=rows, steps=tuple(steps)))
        here = target
    scratch = max(step.scratch for stage in stages for step in stage.steps)
    return Plan(batch_size=batch_size, block=block, stages=tuple(stages), scratch=end, memory=max(1, end + scratch))


def _between(part: Sequence[_Pair], rows: int, begin: int) -> tuple[list[Place], int]:
    """Places for `rows` rows of the values between the layers of `part`, from `begin` on in the memory, and their end.

    A value's place is free again after its last reader: without sums there are two places, used in turn.
    """
    slots: list[int] = []
    sizes: list[int] = []
    needed_until: list[int] = []  # by slot: the last layer that reads it
    for index, pair in enumerate(part[:-1]):
        free = [slot for slot, last in enumerate(needed_until) if last < index]
        slot = free[0] if free else len(sizes)
        if not free:
            sizes.append(0)
            needed_until.append(0)
        reader = part[index + 1][0].name
        sums = [each for each, (layer, _) in enumerate(part) if layer.adds == reader]
        needed_until[slot] = max([index + 1, *sums])
        sizes[slot] = max(sizes[slot], _aligned(rows * _size(pair)))
        slots.append(slot)
    offsets = list(accumulate(sizes, initial=begin))
    return [Place(base="memory", offset=offsets[slot], row_size=0) for slot in slots], offsets[-1]


def _with_pools(layers: Sequence[Layer]) -> list[_Pair]:
    """Each layer with the maximum pooling that one call computes with it."""
    pairs: list[_Pair] = []
    added = {layer.adds for layer in layers}  # their inputs must be there
    for layer in layers:
        fits = layer.kind == "max_pool" and layer.name not in added
        if fits and pairs and pairs[-1][0].kind == "conv2d" and pairs[-1][1] is None:
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
    """Layers on images apart from layers on vectors, unless a sum adds a value from across that border."""
    place_of = {layer.name: index for index, (layer, _) in enumerate(pairs)}
    spans = [(place_of[layer.adds], place_of[layer.name]) for layer, _ in pairs if layer.adds]
    parts: list[list[_Pair]] = []
    for index, pair in enumerate(pairs):
        is_spanned = any(first < index <= last for first, last in spans)
        if parts and (is_spanned or parts[-1][0][0].is_spatial == pair[0].is_spatial):
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
    # 16 floats are 64 bytes: a vector of AVX-512, the widest of any target.
    return -(-floats // 16) * 16
