"""Times of the sample model's library: they are plausible, and for every target and batch size."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.samples import Published
from tests.wording import reported
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.registry.files.layout import LATENCY
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.verify import latency
from tfaot_pkg.verify.latency import Timer, document, measure, measured_today, timer

TARGETS = ("x86-64-v2", "x86-64-v3")
pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]


def _timer(folder: Path) -> Timer:
    compiler = find_compiler("x86_64", log=folder / "log", output=lambda _: None)
    return timer(compiler, BuildCache(root=folder / "timer"))


def _library(published: Published) -> Path:
    return published.prefix / "lib" / "libtfaot-model-digits.so"


def test_every_target_and_batch_size_is_timed_and_more_rows_take_longer(published: Published, tmp_path: Path) -> None:
    measured = measure(_library(published), _timer(tmp_path), TARGETS)
    times = {(one.target, one.batch_size): one.nanoseconds for one in measured}
    assert set(times) == {(target, size) for target in TARGETS for size in (1, 2, 4, 8, 16)}
    for target in TARGETS:
        # 49,000 multiplications a row: at least 0.1 microseconds on any core, and 16 rows cost more than one
        assert 1e2 < times[target, 1] < times[target, 16] < 1e9
    assert document(measured, load=0.25)["processor"]


def test_a_target_that_the_library_has_not_is_an_error(published: Published, tmp_path: Path) -> None:
    with reported(ValidationError):
        measure(_library(published), _timer(tmp_path), ("x86-64-v4",))


def test_a_library_is_timed_once_a_day(published: Published, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries of several toolchains are often the same. Another one, or another day, is timed."""
    cache = BuildCache(root=tmp_path / "builds")
    compiler = find_compiler("x86_64", log=tmp_path / "log", output=lambda _: None)

    def measured(library: Path) -> dict[str, object]:
        return measured_today(library, compiler, TARGETS[:1], cache)

    first, copy = measured(_library(published)), tmp_path / "copy.so"
    copy.write_bytes(_library(published).read_bytes())
    calls: list[Path] = []

    def none(library: Path, *_: object) -> tuple[()]:
        calls.append(library)
        return ()

    monkeypatch.setattr(latency, "measure", none)
    assert measured(copy) == first and not calls
    copy.write_bytes(_library(published).read_bytes() + b"0")
    assert measured(copy)["measurements"] == [] and calls == [copy]
    monkeypatch.setattr(latency, "utc_now", lambda: "2100-01-01T00:00:00Z")
    assert measured(_library(published))["date"] == "2100-01-01" and len(calls) == 2


def test_a_published_version_has_its_times_beside_the_package_not_inside(published: Published) -> None:
    registry = FolderRegistry.open(published.registry)
    entry = registry.resolve("digits")
    with registry.open_blob(entry.blobs[LATENCY]) as content:
        times = json.loads(content.read())["measurements"]
    assert len(times) == len(entry.targets) * len(entry.batch_sizes)
    assert not list(published.prefix.rglob("*latency*"))


def test_times_that_are_too_short_are_refused(published: Published, tmp_path: Path) -> None:
    """By our own clock: a process may print any number for the library that runs in it."""
    clock = _timer(tmp_path)
    measured = measure(_library(published), clock, TARGETS[:1])
    with reported(ValidationError, varies=r"(?<=, and ).*"):
        clock.require_true(_library(published), [replace(each, nanoseconds=1.0) for each in measured])


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param("0 x86-64-v2 1 1.0", id="of-its-own"),
        pytest.param("7 x86-64-v2 1 1.0", id="of-no-library"),
        pytest.param("0 x86-64-v3 1 1.0", id="of-another-target"),
        pytest.param("0 x86-64-v2 1 nan", id="no-number"),
        pytest.param("0 x86-64-v2 1 0.0", id="nothing"),
        pytest.param("0 x86-64-v2 1", id="none"),
        pytest.param("0 x86-64-v2 1 1.0\\n0 x86-64-v2 1 2.0", id="twice"),
        pytest.param("", id="silence"),
    ],
)
def test_what_a_library_prints_is_no_measurement(printed: str, tmp_path: Path) -> None:
    (tmp_path / "library.c").write_text(
        "#include <stdio.h>\n#include <unistd.h>\n"
        f'__attribute__((constructor)) static void lie(void) {{ puts("{printed}"); fflush(stdout); _exit(0); }}\n'
    )
    library = tmp_path / "library.so"
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "library.c", "-o", library], check=True)
    with reported(ValidationError):
        measure(library, _timer(tmp_path), TARGETS[:1])
