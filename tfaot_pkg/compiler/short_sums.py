"""Steps of layers of bytes: an order of their products in which no sum of 16 bits saturates (quantized_steps.h).

AVX2 adds products of bytes in 16 bits, by `vpmaddubsw`. Weights are known, and inputs are from 0 to 255: a sum of
several products is exact if its positive weights are at most 128 together, and its negative ones likewise. A step has
two words for each of COLUMNS columns, thus two such sums, of two bytes of each word. A word is a group of four inputs
in one of three orders; if none fits, it is two words, each with half of the weights. Words that fit one another are
found by a greedy matching, those with the fewest partners first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COLUMNS = 8  # kStepColumns of tfaot_kernels/scratch.h
_ORDERS = np.array([[0, 1, 2, 3], [0, 2, 1, 3], [0, 3, 1, 2]])
_LARGEST = 128  # times 255 is below 2^15
_AT_A_TIME = 64  # groups among which words look for a partner: time is proportional to it, 2.4 ms for 64 and COLUMNS
_MOST_STEPS, _FEWEST_OUTPUTS = 0.7, 32
"""Steps of a group of four, and columns, from which on steps are faster than pairs of 16 bits. On Zen 3 a layer of 64
by 128 takes 1.28 times as long with 0.96 steps, one of 512 by 512 0.81 with 0.55; one of 4,096 by 10 takes 1.07 with
0.50, because its rows are written in three orders for few columns.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The arrays of a layer's Steps (kernels.h)."""

    begins: NDArray[np.uint32]
    weights: NDArray[np.int8]
    words: NDArray[np.uint16]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """Words of some columns: the group of each, its weights (of all orders, columns and bytes), and its sums of
    positive and of negative weights; 255 if those of an order saturate.
    """

    groups: NDArray[np.intp]
    weights: NDArray[np.int8]
    totals: NDArray[np.uint8]


def fast_steps_of(weights: NDArray[np.int8]) -> Steps | None:
    """The steps of a layer if they are faster than products in pairs."""
    return None if weights.shape[1] < _FEWEST_OUTPUTS else steps_of(weights, most=_MOST_STEPS)


def steps_of(weights: NDArray[np.int8], *, most: float = 2) -> Steps | None:
    """Steps of a layer with `weights` (inputs, outputs), at most `most` for a group of four, or none; two suffice."""
    inputs, outputs = weights.shape
    groups, lists = -(-inputs // 4), -(-outputs // COLUMNS)
    if groups * len(_ORDERS) > np.iinfo(np.uint16).max:
        return None
    padded = np.zeros((4 * groups, lists * COLUMNS), np.int8)
    padded[:inputs, :outputs] = weights
    by_list = padded.reshape(groups, 4, lists, COLUMNS).transpose(2, 0, 3, 1)
    begins, found, numbers = [0], [], []
    for number, each in enumerate(by_list, 1):
        for parts, words in _of_columns(each):
            found.append(parts)
            numbers.append(words)
        begins.append(sum(map(len, found)))
        if begins[-1] > most * groups * number:
            return None
    return Steps(
        begins=np.array(begins, np.uint32), weights=np.concatenate(found).ravel(), words=np.concatenate(numbers).ravel()
    )


def _of_columns(weights: NDArray[np.int8]) -> Iterator[tuple[NDArray[np.int8], NDArray[np.uint16]]]:
    """Weights (steps, 2, COLUMNS, 4) and numbers of words (steps, 2), for weights (groups, COLUMNS, 4)."""
    count, first = len(weights), 0
    for part in np.array_split(weights, max(1, count // _AT_A_TIME)):
        words = _words(part)
        pairs = list(_matched(words))
        parts = np.zeros((len(pairs), 2, COLUMNS, 4), np.int8)
        numbers = np.zeros((len(pairs), 2), np.uint16)
        for step, pair in enumerate(pairs):
            for place, (word, order) in enumerate(pair):
                parts[step, place] = words.weights[word, order]
                numbers[step, place] = order * count + first + words.groups[word]
        yield parts, numbers
        first += len(part)


def _words(weights: NDArray[np.int8]) -> _Words:
    whole = _ordered(weights)
    divided = (_totals(whole) == 255).all((1, 2))
    halves = [_ordered(weights[divided] * np.array(kept, np.int8)) for kept in ([1, 0, 1, 0], [0, 1, 0, 1])]
    groups, both = np.arange(len(weights)), np.concatenate([whole[~divided], *halves])
    parts = [groups[~divided], groups[divided], groups[divided]]
    return _Words(groups=np.concatenate(parts), weights=both, totals=_totals(both))


def _ordered(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Of weights (groups, COLUMNS, 4), in all orders: (groups, orders, COLUMNS, 4)."""
    ordered: NDArray[np.int8] = weights[..., _ORDERS].transpose(0, 2, 1, 3)
    return ordered


def _totals(weights: NDArray[np.int8]) -> NDArray[np.uint8]:
    """(words, orders, sums) of weights (words, orders, COLUMNS, 4)."""
    wide = weights.astype(np.int16)
    signs = np.concatenate([np.maximum(wide, 0), np.maximum(-wide, 0)], 2)
    sums = signs.reshape(*signs.shape[:-1], 2, 2).sum(-1).reshape(*signs.shape[:2], -1)
    return np.where((sums <= _LARGEST).all(2, keepdims=True), sums, 255).astype(np.uint8)


def _matched(words: _Words) -> Iterator[tuple[tuple[int, int], ...]]:
    """Steps, each as its words (one or two) and their orders."""
    count, flat = len(words.groups), words.totals.reshape(-1, words.totals.shape[2])
    fits = np.outer(flat[:, 0] != 255, flat[:, 0] != 255)
    for each in flat.T:
        fits &= each[:, None] <= (_LARGEST - np.minimum(each, _LARGEST))[None]
    by_order = fits.reshape(count, len(_ORDERS), count, len(_ORDERS))
    any_order = np.asarray(by_order.any((1, 3)))
    np.fill_diagonal(any_order, False)
    partners = [int.from_bytes(each.tobytes(), "little") for each in np.packbits(any_order, 1, bitorder="little")]
    free = (1 << count) - 1

    def fewest(among: int) -> int:
        found, least = -1, count
        while among:
            number = (among & -among).bit_length() - 1
            among &= among - 1
            if (size := (partners[number] & free).bit_count()) < least:
                found, least = number, size
        return found

    while free:
        first = fewest(free)
        free &= ~(1 << first)
        if not partners[first] & free:
            yield ((first, int((words.totals[first, :, 0] != 255).argmax())),)
            continue
        second = fewest(partners[first] & free)
        free &= ~(1 << second)
        orders = np.unravel_index(by_order[first, :, second].argmax(), (len(_ORDERS),) * 2)
        yield (first, int(orders[0])), (second, int(orders[1]))
