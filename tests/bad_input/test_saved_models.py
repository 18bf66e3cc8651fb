"""SavedModels that are damaged, or that cannot be compiled."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bad_input.conftest import CommandLine

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]


@pytest.fixture
def dense(models: Mapping[str, Path], tmp_path: Path) -> Path:
    """A copy of the model `dense`, to be damaged."""
    return Path(shutil.copytree(models["dense"], tmp_path / "source" / "dense"))


def test_a_folder_that_is_missing_empty_or_something_else_is_refused(
    tfaot: CommandLine, tmp_path: Path, spec_of: Callable[..., Path]
) -> None:
    model, registry = tmp_path / "source" / "dense", tmp_path / "registry"
    (tmp_path / "source" / "other").mkdir(parents=True)
    spec = spec_of(model)
    tfaot.fails("publish", spec, "--registry", registry, code=11, says=["model.saved_model", str(model.parent)])
    assert not registry.exists()
    model.mkdir()
    tfaot.fails("publish", spec, "--registry", registry, code=11, says=[str(model), "no files"])
    (model / "readme.txt").write_text("not a model")
    tfaot.fails("check", model, code=12, says=["saved_model.pb is missing", "readme.txt"])


DAMAGE: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "truncated saved_model.pb": (lambda m: _cut(m / "saved_model.pb"), ["saved_model.pb is damaged"]),
    "empty saved_model.pb": (lambda m: (m / "saved_model.pb").write_bytes(b""), ["saved_model.pb is damaged or empty"]),
    "no variables": (lambda m: shutil.rmtree(m / "variables"), ["variables are missing", "variables.index"]),
    "no variable data": (
        lambda m: (m / "variables" / "variables.data-00000-of-00001").unlink(),
        ["variables", "damaged", "variables.data-00000-of-00001"],
    ),
    "truncated variable data": (
        lambda m: _cut(m / "variables" / "variables.data-00000-of-00001"),
        ["variables", "damaged"],
    ),
    "altered variable data": (
        lambda m: _alter(m / "variables" / "variables.data-00000-of-00001"),
        ["variables", "damaged"],
    ),
    "truncated variables.index": (lambda m: _cut(m / "variables" / "variables.index"), ["variables", "damaged"]),
}


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.sweep("truncated saved_model.pb", night=["no variables", "altered variable data"])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_model_is_refused(
    *, tfaot: CommandLine, tmp_path: Path, dense: Path, spec_of: Callable[..., Path], name: str
) -> None:
    harm, says = DAMAGE[name]
    harm(dense)
    error = tfaot.fails("build", spec_of(dense), "-o", tmp_path / "prefix", code=12, says=says)
    assert not (tmp_path / "prefix").exists()
    assert "again" in error["hint"]


REFUSED: dict[str, tuple[str, dict[str, Any], list[str], str]] = {
    "unknown signature": ("dense", {"model": {"serving_key": "nope"}}, ["'nope'", "serving_default, twice"], "serving"),
    "unknown tags": ("dense", {"model": {"tags": ["train"]}}, ["train", "it has: serve"], "model.tags"),
    "unknown input": ("dense", {"model": {"shapes": {"z": [None, 4]}}}, ["model.shapes", "z", "x"], ""),
    "unknown name in the order": (
        "two_inputs",
        {"model": {"inputs": ["secnd", "first"]}},
        ["model.inputs", "there is no 'secnd' (did you mean 'second'?)", "'second' is missing"],
        "the inputs are: first, second",
    ),
    "missing name in the order": (
        "two_inputs",
        {"model": {"outputs": ["sum"]}},
        ["model.outputs", "'difference' is missing"],
        "the outputs are: difference, sum",
    ),
    "text": ("text_input", {}, ["input 'words'", "string"], "look it up in the calling program"),
    "operation": ("unsupported", {}, ["FractionalMaxPool", "the_pool", "XLA has no kernel"], "check --table"),
}


@pytest.mark.sweep("unknown signature", "operation", night=["text", "unknown input"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compiled_is_named_with_what_to_do(
    *, tfaot: CommandLine, tmp_path: Path, models: Mapping[str, Path], spec_of: Callable[..., Path], name: str
) -> None:
    model, changes, says, hints = REFUSED[name]
    spec = spec_of(models[model], **changes)
    error = tfaot.fails("publish", spec, "--registry", tmp_path / "registry", code=12, says=says, hints=hints)
    assert error["kind"] == "model"
    assert not (tmp_path / "registry").exists()


@pytest.mark.nightly
def test_check_says_the_same_of_an_operation_without_failing_half_way(
    tfaot: CommandLine, models: Mapping[str, Path]
) -> None:
    done = tfaot.run("check", models["unsupported"])
    assert done.code == 12
    done.require_tidy()
    assert "no   FractionalMaxPool" in done.stdout
    assert "the_pool: XLA has no kernel for it" in done.stdout
    assert done.stdout.endswith("the model cannot be compiled\n")
