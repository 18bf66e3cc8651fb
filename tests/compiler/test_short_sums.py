"""Steps of layers of bytes: together they are the layer, and no sum of 16 bits can saturate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tfaot_pkg.compiler.short_sums import COLUMNS, Steps, fast_steps_of, steps_of

_ORDERS = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2))
_KINDS = ("normal", "ends", "any", "few")


def _weights(kind: str, inputs: int, outputs: int, seed: int) -> NDArray[np.int8]:
    random = np.random.default_rng(seed)
    if kind == "normal":
        real = random.normal(size=(inputs, outputs))
        return np.asarray(np.rint(real / np.abs(real).max(0) * 127), np.int8)
    choices = {"ends": [-128, -127, 127], "few": [-128, 0, 0, 0, 127, 1], "any": [*range(-128, 128)]}[kind]
    return random.choice(choices, (inputs, outputs)).astype(np.int8)


def _sums(steps: Steps) -> NDArray[np.int16]:
    """The weights of each 16 bits: (steps, COLUMNS, halves of a word, the weights of both words)."""
    by_word = steps.weights.astype(np.int16).reshape(-1, 2, COLUMNS, 2, 2)
    return np.asarray(by_word.transpose(0, 2, 3, 1, 4).reshape(-1, COLUMNS, 2, 4))


def _together(steps: Steps, inputs: int, outputs: int) -> NDArray[np.int64]:
    """The layer that the steps are."""
    groups, lists = -(-inputs // 4), len(steps.begins) - 1
    found = np.zeros((lists, groups, 4, COLUMNS), np.int64)
    weights, words = steps.weights.reshape(-1, 2, COLUMNS, 4), steps.words.reshape(-1, 2)
    for number in range(lists):
        for step in range(steps.begins[number], steps.begins[number + 1]):
            for each, word in zip(weights[step], words[step], strict=True):
                order, group = divmod(int(word), groups)
                found[number, group, _ORDERS[order]] += each.T
    whole = found.transpose(1, 2, 0, 3).reshape(4 * groups, lists * COLUMNS)
    assert not whole[inputs:].any() and not whole[:, outputs:].any()
    return np.asarray(whole[:inputs, :outputs])


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(_KINDS),
    inputs=st.integers(1, 600),
    outputs=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_steps_are_the_layer_and_saturate_for_no_input(kind: str, inputs: int, outputs: int, seed: int) -> None:
    weights = _weights(kind, inputs, outputs, seed)
    steps = steps_of(weights)
    assert steps is not None
    np.testing.assert_array_equal(_together(steps, inputs, outputs), weights)
    sums = _sums(steps)
    assert 255 * np.maximum(sums, 0).sum(3).max(initial=0) < 2**15
    assert 255 * np.minimum(sums, 0).sum(3).min(initial=0) >= -(2**15)


@pytest.mark.parametrize("sign", [1, -1])
def test_two_groups_share_a_step_up_to_weights_of_128(sign: int) -> None:
    for largest, count in ((32, 1), (33, 2)):
        # All orders have the same sums: two of 32 and two of `largest`.
        steps = steps_of(sign * np.array([[32]] * 4 + [[largest]] * 4, np.int8))
        assert steps is not None
        assert steps.begins[-1] == count


@pytest.mark.parametrize(("inputs", "most"), [(288, 0.62), (576, 0.57), (4096, 0.53)])
def test_nearly_all_groups_of_wide_layers_share_a_step(inputs: int, most: float) -> None:
    steps = steps_of(_weights("normal", inputs, 16, seed=1))
    assert steps is not None
    assert len(steps.words) / 2 <= most * 2 * (inputs // 4)


def test_steps_are_given_where_they_are_faster() -> None:
    assert fast_steps_of(_weights("normal", 512, 32, seed=1)) is not None
    for kind, inputs, outputs in (("any", 512, 32), ("ends", 512, 32), ("normal", 64, 32), ("normal", 512, 31)):
        assert fast_steps_of(_weights(kind, inputs, outputs, seed=1)) is None


def test_groups_that_words_cannot_number_have_no_steps() -> None:
    assert steps_of(np.zeros((4 * 21845, 1), np.int8)) is not None
    assert steps_of(np.zeros((4 * 21845 + 1, 1), np.int8)) is None
