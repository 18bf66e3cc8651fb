"""Steps of training: losses and weights follow TensorFlow's over 50 steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from tests.bad_input.conftest import CommandLine, write_spec
from tests.coverage import verified
from tests.kept import saved_models
from tests.state.conftest import HERE, Built
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.runtime.loader import load

pytestmark = [
    pytest.mark.coverage,
    pytest.mark.slow,
    pytest.mark.needs_tensorflow,
    pytest.mark.timeout(600),
    pytest.mark.sweep("dense-adam-training"),
]
_STEPS = 50
_ENGINES: Mapping[str, Literal["program", "xla"]] = {"dense": "program", "conv": "xla"}


@pytest.mark.sweep("dense-adam-training", night=["conv-momentum-training", "dense-sgd-inference"])
@pytest.mark.parametrize("mode", ["training", "inference"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_losses_and_weights_follow_tensorflow(kind: str, optimizer: str, mode: str, built: Built) -> None:
    with verified(f"training: {kind}, {optimizer}, {mode}", version=DEFAULT_VERSION, engine=_ENGINES[kind]):
        trained = built(f"{kind}_{optimizer}_{mode}", {"update": ["*"], "read": ["*moving_*"]})
        state = trained.model.state()
        losses = np.array(
            [state.step(x=x, y=y)["loss"] for x, y in zip(*(trained.inputs[name] for name in "xy"), strict=True)]
        )
        assert losses.shape == (_STEPS,) and losses[-5:].mean() < losses[:5].mean()
        np.testing.assert_allclose(losses, trained.outputs["loss"], rtol=2e-4, atol=1e-5)
        compared = {name: values for name, values in state.tensors.items() if name in trained.state}
        # All that steps change has its name in Python.
        assert {each.name for each in trained.model.signature.state if each.output} <= set(compared)
        for name, values in compared.items():
            np.testing.assert_allclose(values, trained.state[name], rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.sweep(night=["dense"])
@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_gradients_are_a_function(kind: str, built: Built) -> None:
    """A signature of a GradientTape; the weights are constants, and nothing changes."""
    with verified(f"training: gradients, {kind}", version=DEFAULT_VERSION, engine=_ENGINES[kind]):
        network = built(f"{kind}_sgd_inference", {}, serving_key="gradients")
        given = {name: values[0] for name, values in network.inputs.items()}
        answers = network.model(**given)
        assert sorted(answers) == sorted(network.gradients) and len(answers) > 5
        for name, expected in network.gradients.items():
            np.testing.assert_allclose(answers[name], expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.nightly
def test_a_step_that_scales_its_loss_follows_tensorflow(
    tfaot: CommandLine, shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    """Of a step whose gradients are not finite, only the scale stays."""
    models = saved_models(shared_home_folder, HERE / "scaled_loss.py", toolchain_python)
    sections = {"batch_sizes": [1], "targets": ["x86-64-v3"], "variables": {"update": ["*"]}}
    spec = write_spec(tmp_path / "spec.yaml", models / "scaled_loss", compilation=sections)
    with verified("training: a scaled loss", version=DEFAULT_VERSION, engine="program"):
        tfaot.works("build", spec, "-o", tmp_path / "prefix")
        answers, state = np.load(models / "scaled_loss.npz"), load(tmp_path / "prefix").state()
        losses = [state.step(x=x, y=y)["loss"] for x, y in zip(answers["x"], answers["y"], strict=True)]
        np.testing.assert_allclose(losses, answers["loss"], rtol=2e-5)
        known = {name.removeprefix("state/") for name in answers if name.startswith("state/")}
        assert {name for name in known if "dynamic_scale" in name or "step_counter" in name} <= set(state.tensors)
        for name in known & set(state.tensors):
            np.testing.assert_allclose(
                state.tensors[name], answers[f"state/{name}"], rtol=1e-4, atol=1e-6, err_msg=name
            )
