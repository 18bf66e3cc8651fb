"""Means of large images are as exact as float32 allows, also where all roundings have one direction."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tfaot_pkg.compiler.passes.pipeline import PASSES, run
from tfaot_pkg.compiler.text import parse

_SUM = """%0 f32[batch,{sizes},3] = parameter number=0
%1 f32[] = constant literal={{0.0}}
%5 f32[batch,3] = reduce %0 %1 dimensions=[{axes}]
  region:
    %2 f32[] = parameter number=0
    %3 f32[] = parameter number=1
    %4 f32[] = add %2 %3
    give %4
give %5
"""


@pytest.mark.parametrize(("sizes", "axes"), [("256,256", "1,2"), ("65536", "1"), ("65537", "1"), ("40,40,40", "1,2,3")])
def test_sums_of_equal_numbers_have_no_drift(sizes: str, axes: str, compiled: Compile) -> None:
    program = run(parse(_SUM.format(sizes=sizes, axes=axes)), PASSES)
    shape = tuple(map(int, sizes.split(",")))
    given = np.broadcast_to(np.array([0.1, 0.7, 1 / 3], np.float32), (2, *shape, 3)).copy()
    (found,) = compiled(program, 2)(given)
    np.testing.assert_allclose(found, given.astype(np.float64).reshape(2, -1, 3).sum(1), rtol=5e-6)
