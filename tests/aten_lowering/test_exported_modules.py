"""Modules that PyTorch made of programs (quantization, torch.fx) are exported as others. PyTorch is a stand-in."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tfaot_pkg.export.axes import parsed
from tfaot_pkg.export.ends import inputs_of
from tfaot_pkg.export.errors import ExportError, said
from tfaot_pkg.export.framework import evaluating
from tfaot_pkg.export.nodes import module_of


class _Script:
    """TorchScript."""


class _OfOneMode:
    """As PyTorch 2.14 makes modules of torch.export, which quantization (pt2e) gives."""

    graph, code, training = SimpleNamespace(nodes=[]), "", True

    def forward(self, particles: Any, mask: Any) -> None: ...

    def eval(self) -> None:
        raise NotImplementedError("Calling eval() is not supported yet.")

    def train(self) -> None:
        self.eval()


def test_inputs_have_the_names_of_parameters() -> None:
    torch = SimpleNamespace(
        jit=SimpleNamespace(ScriptModule=_Script, ScriptFunction=_Script),
        export=SimpleNamespace(ExportedProgram=_Script),
        is_tensor=lambda each: not isinstance(each, tuple),
    )
    tensor = SimpleNamespace(detach=lambda: SimpleNamespace(cpu=lambda: None))
    assert inputs_of(torch, _OfOneMode(), (tensor, tensor))[0] == ["particles", "mask"]


def test_a_module_that_has_one_mode_keeps_it() -> None:
    mha = SimpleNamespace(get_fastpath_enabled=lambda: False)
    checks = SimpleNamespace(_validate_args=True, set_default_validate_args=lambda _: None)
    torch = SimpleNamespace(
        backends=SimpleNamespace(mha=mha), distributions=SimpleNamespace(Distribution=checks), no_grad=nullcontext
    )
    with evaluating(torch, _OfOneMode()):
        pass


def test_nodes_that_pytorch_made_itself_have_no_module() -> None:
    name = "_empty_nn_module_stack_from_metadata_hook"
    assert module_of(SimpleNamespace(meta={"nn_module_stack": {name: (name, name)}})) == ""
    own = {"": ("", "Tagger"), "encoder": ("L['self'].encoder", "Encoder")}
    assert module_of(SimpleNamespace(meta={"nn_module_stack": own})) == "encoder"


def test_an_exception_without_words_is_told_by_its_type() -> None:
    assert said(AssertionError()) == "AssertionError"
    assert said(ValueError("no such size")) == "no such size"


def test_a_multiple_of_a_size_is_two_axes() -> None:
    assert parsed("image", "batch,3,h,4,w,4") == ("batch", 3, "h", 4, "w", 4)
    with pytest.raises(ExportError, match=r"'4\*w' .* two axes, w,4, .* image\.flatten\(3, 4\)"):
        parsed("image", "batch,3,8,4*w")
