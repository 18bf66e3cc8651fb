"""tfaot/columns.h: a model as a function of columns, as ROOT's RDataFrame calls one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.consumers.conftest import WARNINGS
from tests.samples import Published, Sample, assert_agrees
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

SOURCE = Path(__file__).with_name("columns.cpp")


@pytest.mark.sweep("g++", night=[])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_columns_give_tensorflows_answers_in_threads_and_for_rows_together(
    compiler: str, published: Published, samples: Mapping[str, Sample], tmp_path: Path
) -> None:
    libraries = [published.library(name, "a") for name in ("wine", "digits")]
    flags = ["-std=c++17", *WARNINGS, "-Wconversion", "-Wshadow", f"-I{published.prefix}/include"]
    program = tmp_path / "columns"
    run([compiler, *flags, SOURCE, *libraries, "-lm", "-pthread", "-o", program])
    wine = samples["wine"]
    rows = np.concatenate([wine.inputs["chemistry"], wine.inputs["colour"]], axis=1)
    (tmp_path / "rows").write_bytes(np.ascontiguousarray(rows, np.float32).tobytes())
    printed = run([program, tmp_path / "rows"]).stdout.split()[1::2]
    assert_agrees(np.array(printed, np.float32), wine.answers["probability"][:, 1])
    assert run([program]).stdout.splitlines() == [
        'wine: element of output "probability": expected an index below 3, got 3',
        "wine: column 7: expected 2 rows, as in column 0, got 1",
        "0",
    ]
