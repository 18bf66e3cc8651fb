"""The content of live objects: the same for the same numbers and code, another one for any other."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfaot_pkg.live.content import content_of

FACTOR = 2.0


def _scaled(x: Any, weights: Any) -> Any:
    return x @ weights * FACTOR


def _closed(weights: Any) -> Any:
    return lambda x: x @ weights


class _Net:
    def __init__(self, weights: Any) -> None:
        self.weights, self.name = weights, "net"

    def __call__(self, x: Any) -> Any:
        return _scaled(x, self.weights)


class _Slotted:
    __slots__ = ("weights",)

    def __init__(self, weights: Any) -> None:
        self.weights = weights


MAKERS = {
    "closure": _closed,
    "partial": lambda weights: functools.partial(_scaled, weights=weights),
    "object": _Net,
    "method": lambda weights: _Net(weights).__call__,
    "slots": _Slotted,
    "nested": lambda weights: {"a": [_Net(weights), (1, weights)]},
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_other_numbers_are_other_content(make: Any) -> None:
    first, other = np.ones((3, 2), "float32"), np.ones((3, 2), "float32")
    other[2, 1] = np.nextafter(np.float32(1), np.float32(2))
    assert content_of(make(first)) == content_of(make(first.copy()))
    assert content_of(make(first)) != content_of(make(other))


def test_other_code_and_other_numbers_that_it_reads_are_other_content(monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_of(lambda x: _Net(x)(x))
    assert content_of(lambda x: x + 1) != content_of(lambda x: x + 2)
    scaled = content_of(_scaled)
    monkeypatch.setitem(_scaled.__globals__, "FACTOR", 3.0)
    assert content_of(_scaled) != scaled
    assert content_of(lambda x: _Net(x)(x)) != before


_REACHED = {
    "attribute": "import {helper}\ndef net(x): return {helper}.scale(x)\n",
    "constant": "import {helper}\ndef net(x): return {helper}.FACTOR * x\n",
    "alias": "import {helper} as h\ndef net(x): return [h.scale(each) for each in x]\n",
    "imported when called": "def net(x):\n    from {helper} import scale\n    return scale(x)\n",
    "a module in a class": "import {helper}\nclass Net:\n    ops = {helper}\n    def __call__(self, x): return self.ops.scale(x)\n"
    "net = Net()\n",
    "property": "import {helper}\nclass Net:\n    @property\n    def k(self): return {helper}.FACTOR\nnet = Net()\n",
}


@pytest.mark.parametrize("text", _REACHED.values(), ids=_REACHED)
def test_code_in_modules_of_the_author_is_content(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the function that is compiled does not change: an old package would be taken for the new code."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def content(factor: int) -> bytes:
        (tmp_path / "author_helper.py").write_text(f"FACTOR = {factor}\ndef scale(x): return x * {factor}\n")
        (tmp_path / "author_net.py").write_text(text.format(helper="author_helper"))
        for name in ("author_helper", "author_net"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        importlib.import_module("author_helper")
        return content_of(importlib.import_module("author_net").net)

    try:
        assert content(2) == content(2) != content(3)
    finally:
        for name in ("author_helper", "author_net"):
            sys.modules.pop(name, None)


def test_a_module_that_is_not_there_yet_may_be_anything() -> None:
    def net(x: Any) -> Any:
        import no_module_of_this_name  # type: ignore[import-not-found]

        return no_module_of_this_name.scale(x)

    assert content_of(net) != content_of(net)


def test_what_cannot_be_read_is_never_the_same() -> None:
    net = _Net(np.ones(2))
    assert content_of(net) == content_of(net)
    net.name = threading.Lock()  # type: ignore[assignment]
    assert content_of(net) != content_of(net)
