"""The export helper without memory: an error, and no file with fewer constants or answers. PyTorch is a stand-in."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tfaot_pkg.export.constants import Constants
from tfaot_pkg.export.errors import ExportError
from tfaot_pkg.export.runs import ModelRuns

# As PyTorch 2.13 says it: of CPUs, and of a GPU.
_CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "400000000000 bytes. Error code 12 (Cannot allocate memory)"
)
_GPU = RuntimeError("CUDA out of memory. Tried to allocate 372.53 GiB.")
_WITHOUT_MEMORY = [pytest.param(each, id=type(each).__name__ + str(each)[:4]) for each in (_CPU, _GPU, MemoryError())]


@dataclass(eq=False)  # nodes are keys
class _Node:
    target: Any
    op: str = "call_function"
    name: str = "eye"
    args: tuple[()] = ()
    kwargs: dict[str, object] = field(default_factory=dict)
    all_input_nodes: tuple[()] = ()
    meta: dict[str, object] = field(default_factory=dict)


def _raising(error: Exception) -> Any:
    def function(*_: object) -> None:
        raise error

    return function


def _constants(error: Exception) -> Constants:
    """Of a graph whose one node computes something of nothing, and fails."""
    target = _raising(error)
    target._schema, target.tags = SimpleNamespace(is_mutable=False), ()
    node = _Node(target)
    torch = SimpleNamespace(
        no_grad=nullcontext,
        is_tensor=lambda _: False,
        fx=SimpleNamespace(map_arg=lambda given, _: given),
        Tag=SimpleNamespace(nondeterministic_seeded="seeded"),
    )
    return Constants(torch, SimpleNamespace(nodes=[node]), {})


def test_a_constant_that_pytorch_has_no_code_for_stays_in_the_program() -> None:
    constants = _constants(RuntimeError("not implemented for 'Half'"))
    nodes, stored = constants.required(["eye"])
    assert [each.name for each in nodes] == ["eye"]
    assert stored == {}


@pytest.mark.parametrize("error", _WITHOUT_MEMORY)
def test_a_constant_without_memory_is_an_error(error: Exception) -> None:
    with pytest.raises(ExportError, match=r"^not enough memory to compute .* \(eye\) of weights alone"):
        _constants(error)


class _Model:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *_: object) -> object:
        raise self._error

    def double(self) -> object:
        return self


class _Uncopied(_Model):
    def __deepcopy__(self, _: object) -> object:
        raise self._error


_DOCUMENT = {"inputs": [{"name": "x", "axes": ["batch"]}], "outputs": [{"name": "y"}]}
_TORCH = SimpleNamespace(from_numpy=lambda x: x)


@pytest.mark.parametrize("error", _WITHOUT_MEMORY)
def test_answers_without_memory_are_an_error(error: Exception) -> None:
    with pytest.raises(ExportError, match=r"^not enough memory for the model's answers"):
        ModelRuns(_TORCH, _Model(error), _DOCUMENT).answers({"x": np.zeros(1)})


def test_numbers_that_the_model_rejects_are_none() -> None:
    assert ModelRuns(_TORCH, _Model(ValueError("x < 0")), _DOCUMENT).answers({"x": np.zeros(1)}) is None


@pytest.mark.parametrize("error", _WITHOUT_MEMORY)
def test_a_copy_in_float64_without_memory_is_an_error(error: Exception) -> None:
    with pytest.raises(ExportError, match=r"^not enough memory for a copy of the model in float64"):
        ModelRuns(_TORCH, _Uncopied(error), _DOCUMENT)


def test_a_model_that_cannot_be_copied_has_no_answers_in_float64() -> None:
    assert ModelRuns(_TORCH, _Uncopied(TypeError("cannot pickle")), _DOCUMENT).exact({}, 1, []) == {}
