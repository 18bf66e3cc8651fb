"""Documents that were changed at random: each becomes a program that is valid, or an error of the model."""

from __future__ import annotations

import json
import random
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.aten_lowering.aten_files import ARTIFACTS, changed, symbols_of
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.aten_lowering.ends import lowered
from tfaot_pkg.frontends.frozen.aten_file import read_module

_FILES = sorted(ARTIFACTS.rglob("*.aten"))
_DRAWS, _SECONDS = 120, 30
_WHOLE = (-(1 << 63), -3, -2, -1, 0, 1, 2, 3, 7, 100, 4096, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1)
_REAL = (0.0, -1.0, 0.5, 1e30, 1e-30)


@pytest.mark.sweep("0", night=["1", "2", "3"])
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_changed_documents_become_programs_or_errors_of_the_model(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    programs = 0
    for number in range(_DRAWS):
        original = drawn.choice(_FILES)
        path = changed(original, tmp_path / f"{number}.aten", lambda document: _change(document, drawn))
        try:
            with _at_most(_SECONDS):
                module = read_module(path)
                verify(lowered(module, symbols_of(module.document)).program)
            programs += 1
        except (ModelError, Unsupported):
            pass
        except Exception as error:
            raise AssertionError(f"{original.name}, draw {number}: {path}") from error
        path.unlink()
    assert 0 < programs < _DRAWS


def _change(document: Any, drawn: random.Random) -> None:
    """Change one to three things: arguments, operators, axes and types of inputs, ranges of symbols."""
    names = [each["value"] for each in document["inputs"]] + [each["name"] for each in document["nodes"]]
    for _ in range(drawn.randint(1, 3)):
        node, what = drawn.choice(document["nodes"]), drawn.random()
        arguments = node["arguments"]
        if what < 0.75 and arguments:
            name = drawn.choice(sorted(arguments))
            arguments[name] = _other(arguments[name], names, drawn)
        elif what < 0.8 and arguments:
            del arguments[drawn.choice(sorted(arguments))]
        elif what < 0.9:
            node["op"] = drawn.choice(_operators())
        elif what < 0.95 and document["inputs"]:
            given = drawn.choice(document["inputs"])
            given["axes"] = _other(given["axes"], names, drawn)
            given["dtype"] = drawn.choice(["float64", "int64", "bool", "float32", "complex64"])
        else:
            ends = [drawn.choice((0, 1, 2)), drawn.choice((None, 1, 2, 1 << 20, 1 << 40))]
            document["symbols"][drawn.choice([*document["symbols"], "other"])] = ends


def _operators() -> list[str]:
    found = set()
    for path in _FILES:
        with zipfile.ZipFile(path) as archive:
            found |= {node["op"] for node in json.loads(archive.read("program.json"))["nodes"]}
    return sorted(found)


def _other(value: Any, names: list[str], drawn: random.Random) -> Any:
    """Another argument: mostly of the same kind."""
    kinds: dict[type, Callable[[], Any]] = {
        bool: lambda: drawn.choice((not value, None)),
        int: lambda: drawn.choice((*_WHOLE, None, 1.5, [value], "x")),
        float: lambda: drawn.choice((*_REAL, value * 2, None, 3)),
        list: lambda: drawn.choice(
            (value[:-1], value + (value[-1:] or [1]), [], value * 50, _inside(value, names, drawn))
        ),
        dict: lambda: drawn.choice(({"value": drawn.choice(names)}, None, 2)) if names else None,
        str: lambda: drawn.choice(("", "x", "sum", "mean", "reflect")),
    }
    return kinds.get(type(value), lambda: drawn.choice((0, 1, -1, 1.0, [1], True)))()


def _inside(values: list[Any], names: list[str], drawn: random.Random) -> list[Any]:
    place = drawn.randrange(len(values)) if values else 0
    return [*values[:place], _other(values[place], names, drawn) if values else 1, *values[place + 1 :]]


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
