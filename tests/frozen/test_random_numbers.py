"""Random numbers with a state become functions of a seed: TensorFlow's first ones, or TensorFlow's distributions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.bad_input.conftest import CommandLine, write_spec
from tests.coverage import verified
from tests.kept import saved_models
from tests.toolchains import VERSIONS
from tfaot_pkg.runtime.loader import load

HERE = Path(__file__).resolve().parent
pytestmark = [pytest.mark.coverage, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]
_CRITICAL = np.sqrt(-np.log(1e-6 / 2) / 2)
"""Of Kolmogorov and Smirnov's test: equal distributions are told apart once in a million comparisons."""


@pytest.fixture(scope="module")
def models(shared_home_folder: Path, toolchain_python: Path) -> Path:
    return saved_models(shared_home_folder, HERE / "random_models.py", toolchain_python)


@pytest.fixture
def spec(version: str, models: Path, tmp_path: Path) -> Callable[..., Path]:
    def write(signature: str, seed: str = "seed", **more: object) -> Path:
        model = {"name": "noise", "version": "1.0.0", "saved_model": "noise", "serving_key": signature}
        model |= {"seed": seed} if seed else {}
        compilation = {"batch_sizes": [1, 4], "targets": ["x86-64-v3"], "tensorflow": version, **more}
        return write_spec(tmp_path / f"{signature}.yaml", models / "noise", model=model, compilation=compilation)

    return write


@pytest.mark.sweep(night=["2.17.1"])
@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_of_a_model_with_seeds_or_a_state_are_tensorflows(
    version: str, models: Path, spec: Callable[..., Path], tfaot: CommandLine, tmp_path: Path
) -> None:
    drawn, x = np.load(models / "drawn.npz"), np.ones((1, 4), np.float32)
    with verified("random numbers: seeds of the model", version=version, engine="program"):
        tfaot.works("build", spec("fixed"), "-o", tmp_path / "fixed")
        for name, values in load(tmp_path / "fixed")(x=x).items():
            np.testing.assert_allclose(values, drawn[f"fixed/{name}"], rtol=1e-5, atol=1e-6, err_msg=name)

    tfaot.fails("check", spec("kept", ""), code=12, says=["RngReadAndSkip", "variables"])
    tfaot.works("build", spec("kept", "", variables={"update": ["*"]}), "-o", tmp_path / "kept")
    state = load(tmp_path / "kept").state()
    for step in range(4):
        for name, values in state.step(x=np.ones(6, np.float32)).items():
            np.testing.assert_allclose(values, drawn[f"kept/{name}"][step], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.sweep(night=["2.21.0"])
@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_that_follow_a_seed_have_tensorflows_distributions(
    version: str, models: Path, spec: Callable[..., Path], tfaot: CommandLine, tmp_path: Path
) -> None:
    drawn, x = np.load(models / "drawn.npz"), np.ones((1, 4), np.float32)
    with verified("random numbers: a seed of the caller", version=version, engine="program"):
        tfaot.works("build", spec("free"), "-o", tmp_path / "free")
        (report,) = (tmp_path / "free").glob("share/*/validation.json")
        classes = {each["name"]: each for each in json.loads(report.read_text())["classes"]}
        assert (classes["draws"]["rows"], classes["draws"]["differences"]) == (4000, [])
        model, count = load(tmp_path / "free"), len(drawn["free/normal"])
        draws = [model(x=x, seed=[seed, 1]) for seed in range(count)]
        for name in draws[0]:
            ours, theirs = np.stack([each[name][0] for each in draws]), drawn[f"free/{name}"]
            for place in range(4):
                assert _distance(ours[:, place], theirs[:, place]) < _CRITICAL * np.sqrt(2 / count), (name, place)
            correlated = np.corrcoef(ours[:-1, 0], ours[1:, 0])[0, 1], np.corrcoef(ours[:, 0], ours[:, 1])[0, 1]
            assert np.abs(correlated).max() < 5 / np.sqrt(count), name  # nor do seeds or places depend on one another
        again = [model(x=np.ones((3, 4), np.float32), seed=[5, 1])["normal"], model(x=x, seed=[5, 2])["normal"]]
        assert (again[0] == draws[5]["normal"]).all() and (again[1] != draws[5]["normal"]).all()

    tfaot.fails("check", spec("free", "x"), code=12, says=["'x'", "an input already"])
    tfaot.fails("check", spec("looped"), code=12, says=["RandomStandardNormal", "loop"])


def _distance(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    """Kolmogorov and Smirnov's: the largest difference of the two distribution functions."""
    places = np.union1d(first, second)
    functions = [np.searchsorted(np.sort(each), places, side="right") / len(each) for each in (first, second)]
    return float(np.abs(functions[0] - functions[1]).max())
