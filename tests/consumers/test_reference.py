"""The examples of the C++ reference: one for each class, compiled with warnings as errors, and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.consumers.conftest import WARNINGS
from tests.kept import REPOSITORY
from tests.samples import Published
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]


def test_the_examples_of_the_reference_do_what_they_say(published: Published, tmp_path: Path) -> None:
    source = REPOSITORY / "docs" / "reference" / "examples.cpp"
    include = [f"-I{resources.headers()}", f"-I{published.prefix / 'include'}"]
    library = published.library("digits", "a")
    run(["g++", "-std=c++17", "-O1", "-pthread", *WARNINGS, *include, source, library, "-o", tmp_path / "examples"])
    first, second = run([tmp_path / "examples"]).stdout.splitlines()
    assert first.startswith("digit 1, probability ")
    assert second == 'digits: input "image": expected 128 elements (2 rows of 64), got 100'
