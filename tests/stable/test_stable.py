"""What version 0.1 made works for ever: a signed registry, an installed prefix, a lock file, JSON, an object of C.

The files in 0.1/ were made by that version, and are never made anew (docs/reference/stable-interfaces.md).
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfaot_pkg
from tests.commands import run_command
from tests.package.conftest import build_fake_libraries
from tfaot_pkg.ground.process import run

OLD = Path(__file__).parent / "0.1"
_TEXTS = frozenset({"message", "hint"})
"""Fields whose words may change."""
_SYMBOL = "tfaot_model_affine_0123456789ab"  # of the fake model


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the registry, the prefix and the lock file of version 0.1."""
    for name in ("registry", "prefix"):
        with tarfile.open(OLD / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
    (tmp_path / "tfaot.lock").write_bytes((OLD / "tfaot.lock").read_bytes())
    return tmp_path


def json_of(old: Path, *words: str) -> Any:
    environment = {**os.environ, "TFAOT_HOME": str(old / "home")}
    done = run_command([*words, "--json"], cwd=old, env=environment)
    return json.loads((done.stdout or done.stderr).replace(str(old), "/srv"))


def lacking(now: Any, then: Any, place: str = "$") -> list[str]:
    """What JSON of 0.1 had that JSON of now has not, or has with another type or value."""
    if isinstance(then, dict):
        if not isinstance(now, dict):
            return [f"{place} is no object"]
        return [
            fault
            for name, value in then.items()
            for fault in ([f"{place}.{name}"] if name not in now else lacking(now[name], value, f"{place}.{name}"))
        ]
    if isinstance(then, list):
        same = isinstance(now, list) and len(now) == len(then)
        pairs = zip(now, then, strict=True) if same else ()
        faults = [fault for i, (a, b) in enumerate(pairs) for fault in lacking(a, b, f"{place}[{i}]")]
        return faults if same else [f"{place} is another list"]
    if place.rpartition(".")[2] in _TEXTS:
        return [] if isinstance(now, str) else [f"{place} is no text"]
    return [] if now == then else [f"{place} is {now!r}, was {then!r}"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("search", ["search", "wine", "--registry", "registry"]),
        ("show", ["show", "wine", "--registry", "registry"]),
        ("resolve", ["resolve", "wine>=1,<2", "--registry", "registry"]),
        ("outdated", ["outdated", "--registry", "registry"]),
        ("registry-verify", ["registry", "verify", "registry"]),
        ("verify-install", ["verify-install", "prefix", "--run"]),
        ("error", ["install", "nothing", "--registry", "registry", "--prefix", "prefix"]),
    ],
)
def test_commands_read_what_0_1_made_and_their_json_has_all_that_it_had(
    name: str, words: Sequence[str], old: Path
) -> None:
    if name == "resolve":
        (old / "tfaot.lock").unlink()
    then = json.loads((OLD / "json" / f"{name}.json").read_text())
    assert lacking(json_of(old, *words), then) == []


def test_a_package_of_0_1_is_installed_and_loaded(old: Path) -> None:
    """From the registry, then by the lock file; the prefix that 0.1 filled has the same files."""
    again = json_of(old, "install", "wine", "--registry", "registry", "--prefix", "new")
    then = json.loads((OLD / "json" / "install.json").read_text().replace("/srv/prefix", "/srv/new"))
    assert lacking(again, then) == []
    locked = json_of(old, "install", "--locked", "--prefix", "prefix")
    assert locked["packages"][0]["status"] == "unchanged"
    model = tfaot_pkg.load("wine", prefix=old / "prefix")
    pattern = np.float32(0.25) * (np.arange(44, dtype=np.float32) % 7) - np.float32(0.5)  # as consumer.c fills inputs
    answers = model(chemistry=pattern.reshape(4, 11), colour=pattern[:8].reshape(4, 2))
    shown = (OLD / "answers.txt").read_text().splitlines()[1].split()[1:]
    np.testing.assert_allclose(answers["probability"].ravel(), np.array(shown, float), rtol=1e-4)


def test_a_first_program_calls_a_package_of_0_1_with_the_headers_of_today(old: Path) -> None:
    """One object for all threads, over a library of 0.1, gives results; the headers of 0.1 did not."""
    refused = json_of(old, "new-app", "wine", "--prefix", "prefix")
    assert refused["error"]["kind"] == "prefix" and "10400" in refused["error"]["message"]
    json_of(old, "install", "wine", "--registry", "registry", "--prefix", "new")
    json_of(old, "new-app", "wine", "app", "--prefix", "new")
    library = old / "new/lib/libtfaot-model-wine.a"
    run(["g++", "-std=c++17", f"-I{old / 'new/include'}", old / "app/main.cpp", library, "-o", old / "program"])
    printed = [line.split() for line in run([old / "program"]).stdout.splitlines()]
    zeros = tfaot_pkg.load("wine", prefix=old / "new")(np.zeros((1, 11)), np.zeros((1, 2)))["probability"].ravel()
    assert [name for name, _ in printed] == [f"probability[{i}]" for i in range(3)]
    np.testing.assert_allclose([float(value) for _, value in printed], zeros, rtol=1e-3)


def test_an_object_compiled_with_the_header_of_0_1_runs_its_library_and_one_of_today(old: Path) -> None:
    program = old / "consumer"
    run(["gcc", OLD / "consumer.o", "-ldl", "-o", program])
    assert run([program, old / "prefix/lib/libtfaot-model-wine.so"]).stdout == (OLD / "answers.txt").read_text()
    build_fake_libraries(old, "affine", slope=2)
    (old / "entry.c").write_text(f"void *{_SYMBOL}(void);\nvoid *tfaot_model_entry(void) {{ return {_SYMBOL}(); }}\n")
    run(["gcc", "-shared", "-fPIC", "entry.c", "libtfaot-model-affine.a", "-lstdc++", "-o", "today.so"], cwd=old)
    first, labels, ys, *_ = run([program, old / "today.so"]).stdout.splitlines()
    pattern = 0.25 * (np.arange(12) % 7) - 0.5
    y = 2 * pattern.reshape(4, 3) + pattern[:3]
    assert first == "affine 1.2.0, batch of 4"
    assert labels == "label: " + " ".join(map(str, y.argmax(axis=1)))
    np.testing.assert_allclose(np.array(ys.split()[1:], float), y.ravel(), rtol=1e-4)
