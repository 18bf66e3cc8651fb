"""Recurrent networks run frame by frame, and agree with a run over the whole sequence."""

from __future__ import annotations

import numpy as np
import pytest

from tests.coverage import verified
from tests.state.conftest import Built
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION

pytestmark = [
    pytest.mark.coverage,
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.needs_tensorflow,
    pytest.mark.timeout(600),
]


@pytest.mark.sweep(night=["lstm"])
@pytest.mark.parametrize("kind", ["gru", "lstm", "simple_rnn"])
def test_frames_one_by_one_are_the_whole_sequence(kind: str, built: Built) -> None:
    with verified(f"state: {kind} by frames", version=DEFAULT_VERSION, engine="program"):
        network = built(kind)
        state = network.model.state()
        answers = np.stack([state.step(frame)["y"] for frame in network.inputs["frame"]])
        assert answers.shape == (1000, 1, 3)
        np.testing.assert_allclose(answers, network.outputs["y"], rtol=1e-4, atol=1e-5)


def test_a_program_computes_it(built: Built) -> None:
    assert built("gru").model.any_batch_size
