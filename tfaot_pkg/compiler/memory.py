"""Scratch memory of a function: lifetimes of its buffers, their offsets, and how many rows are computed at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.instructions import Instruction
from tfaot_pkg.compiler.loops import Allocate, Block, Buffer, Keep, Node
from tfaot_pkg.compiler.program import NUMPY_TYPES, Symbol

# A cache line, and a vector of AVX-512: loads of it cross no line.
ALIGNMENT = 64
_CACHE = 256 * 1024
"""Bytes of values between loops: with weights and stack beside them, they fit the second-level cache of any CPU of the
last ten years."""
_FIRST_CACHE = 32 * 1024
"""The same for the first-level cache."""
_MANY_ROWS = 64
"""The rows of a product that the kernel library multiplies by weights at a time (kManyRows of scratch.h)."""
_WEIGHT_BYTE, _ENTRY = 4, 1024
"""What a byte of weights, and beginning a loop or a layer, cost in bytes of values that the first cache does not hold.
A product of few rows waits for its weights, which streams of values do not."""
_MUCH_LESS = 0.75
"""Of the bytes that move: less is not worth smaller products. A deep set of 40 items moves 5 % less with 8 rows than
with 64, and takes 1.02 of its time."""
_LEAST_IN_LOOPS = 8
"""The least rows of a block if a loop multiplies by weights: each iteration reads all weights, but few of the values.
An LSTM of 96 units over 30 steps, 16 rows: three rows at a time take 310 us, four 237 (AVX-512). One of 100 units:
eight take 0.97 of the time of four on AVX-512, and 0.98 to 0.99 on AVX2; 16 and 24 gain no more."""
_MOST_IN_LOOPS = 4 * 1024 * 1024
"""The limit of such a block's values in bytes (decision 061)."""
_BLOCKS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)


@dataclass(slots=True)
class Lifetime:
    """From the line `first` on, up to the line `last`."""

    first: int
    last: int


def lifetimes(nodes: Iterable[Node], aliases: Mapping[str, tuple[str, ...]]) -> dict[str, Lifetime]:
    """The lifetimes of the buffers that lowered nodes allocate; `aliases` are those that a variable may point to."""
    walk = _Walk(aliases, {})
    walk.over(nodes)
    return walk.found


@dataclass(slots=True)
class _Walk:
    aliases: Mapping[str, tuple[str, ...]]
    found: dict[str, Lifetime]
    clock: int = 0

    def over(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if isinstance(node, Allocate):
                self.found[node.buffer] = Lifetime(self.clock, self.clock)
            elif isinstance(node, Keep):
                # Plus one, because the line that is written next may read it.
                self._use(node.base, self.clock + 1)
            elif isinstance(node, Instruction):
                self._line(node.bases)
            elif isinstance(node, Block):
                self._block(node)

    def _used_in(self, nodes: Iterable[Node]) -> Iterator[str]:
        for node in nodes:
            if isinstance(node, Allocate):
                yield node.buffer
            elif isinstance(node, Keep | Instruction):
                for base in (node.base,) if isinstance(node, Keep) else node.bases:
                    yield from (name for name in self.aliases.get(base, (base,)) if name in self.found)
            elif isinstance(node, Block):
                yield from self._used_in(node.nodes)

    def _use(self, base: str, line: int) -> None:
        for name in self.aliases.get(base, (base,)):
            if name in self.found:
                self.found[name].last = max(self.found[name].last, line)

    def _line(self, bases: Iterable[str]) -> None:
        for base in bases:
            self._use(base, self.clock)
        self.clock += 1

    def _block(self, block: Block) -> None:
        start = self.clock
        self._line(())
        self.over(block.nodes)
        self._line(())
        if block.is_at_once:
            for name in self._used_in(block.nodes):
                lifetime = self.found[name]
                lifetime.first, lifetime.last = min(lifetime.first, start), max(lifetime.last, self.clock - 1)
        if not block.is_repeated:
            return
        for lifetime in self.found.values():
            if lifetime.first < start <= lifetime.last:
                lifetime.last = self.clock - 1  # to the last line of the loop: the next iteration reads it again


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer that multiplies all rows of a block by `weights` bytes: `places` rows for each row of a batch."""

    weights: int
    places: int

    def read(self, rows: int) -> int:
        """The bytes of weights that a block of `rows` rows reads."""
        return self.weights * -(-rows * self.places // _MANY_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The buffers of a function, with their lifetimes.

    `weights` are bytes that each block of rows reads, `layers` those layers whose products gain by more rows, and
    `entries` how many loops and layers a block enters, if it `repeats` none of them.
    """

    buffers: Sequence[Buffer]
    lifetimes: Mapping[str, Lifetime]
    symbols: Sequence[Symbol]
    weights: int
    layers: Sequence[Layer]
    entries: int
    repeats: bool

    def _bytes(self, buffer: Buffer, rows: int) -> int:
        return max(1, buffer.elements.most(rows, self.symbols)) * NUMPY_TYPES[buffer.dtype].itemsize

    def chosen_block(self, *, multiplies_in_loops: bool = False, takes_steps: bool = False) -> int:
        """As many rows as stay in the second-level cache; fewer if that spares the first one much traffic.

        Of a program that `takes_steps`, each iteration of a loop reads and writes a part of each row: as many rows as
        stay in the first-level cache.
        """
        if takes_steps:
            return next((rows for rows in _BLOCKS if self.planned(rows)[1] <= _FIRST_CACHE), _BLOCKS[-1])
        most = self._most_rows(multiplies_in_loops=multiplies_in_loops)
        # How often a loop of the program enters others, and reads its weights, is not known here.
        if self.repeats:
            return most
        few = min((rows for rows in _BLOCKS if rows <= most), key=self._moved)
        return few if self._moved(few) < _MUCH_LESS * self._moved(most) else most

    def _moved(self, rows: int) -> float:
        """The bytes that move into the first cache for each row of a batch, in blocks of `rows`.

        Values move twice if they do not fit: what is written comes back to be read. A layer with windows reads its
        image by image, in scratch memory of constant size, so that only products of few rows for each row of a batch,
        and what begins anew for each block, gain by more rows.
        """
        grown = [buffer for buffer in self.buffers if buffer.elements.grows]
        values = sum(self._bytes(buffer, rows) for buffer in grown) / rows
        misses = max(0.0, 1 - _FIRST_CACHE / max(1, self.planned(rows)[1]))
        weights = sum(layer.read(rows) for layer in self.layers) / rows
        return 2 * values * misses + _WEIGHT_BYTE * weights + _ENTRY * self.entries / rows

    def _most_rows(self, *, multiplies_in_loops: bool) -> int:
        """The most rows whose values stay in the second-level cache between loops.

        Values may take as much as the weights, which each pass reads anyway.
        """
        most = max(_CACHE, self.weights)
        for rows in _BLOCKS:
            if multiplies_in_loops and rows == _LEAST_IN_LOOPS:
                most = max(most, _MOST_IN_LOOPS)
            if self.planned(rows)[1] <= most:
                return rows
        return _BLOCKS[-1]

    def is_affordable(self, other: Memory, rows: int) -> bool:
        """Whether it takes at most twice as much as `other`, or stays in the second-level cache."""
        return self.planned(rows)[1] <= max(2 * other.planned(rows)[1], _CACHE)

    def planned(self, block: int) -> tuple[dict[str, int], int]:
        """The offsets of all buffers for `block` rows, each in the first gap between those that live with it.

        And the bytes of all.
        """
        offsets: dict[str, int] = {}
        end = 0
        # The largest first: smaller ones fit into the gaps between them.
        sizes = {buffer.name: self._bytes(buffer, block) for buffer in self.buffers}
        for buffer in sorted(self.buffers, key=lambda each: -sizes[each.name]):
            own = self.lifetimes[buffer.name]
            beside = sorted(
                (start, start + sizes[name])
                for name, start in offsets.items()
                if self.lifetimes[name].first <= own.last and own.first <= self.lifetimes[name].last
            )
            offset = 0
            for start, stop in beside:
                if offset + sizes[buffer.name] <= start:
                    break
                offset = max(offset, -(-stop // ALIGNMENT) * ALIGNMENT)
            offsets[buffer.name] = offset
            end = max(end, offset + sizes[buffer.name])
        return offsets, end
