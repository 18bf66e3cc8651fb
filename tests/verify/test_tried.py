"""Classes of inputs to which the framework gives no answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfaot_pkg.errors import ModelError
from tfaot_pkg.verify.oracle import Tried, with_answers


def test_values_that_the_framework_rejects_are_no_fault_of_sizes() -> None:
    refused = {"4/ran": np.zeros(2, np.bool_)}
    tried = Tried(name="nonfinite n=17", inputs=Path("x"), rows=2, eager=refused, at_sizes=True)
    assert with_answers("JAX 0.10.2", tried).fault == "JAX 0.10.2 rejects these values"
    usual = Tried(name="n=17 m=2", inputs=Path("x"), rows=2, eager=refused, at_sizes=True)
    with pytest.raises(ModelError, match="does not compute the model for n=17 m=2"):
        with_answers("JAX 0.10.2", usual)
    some = Tried(name="n=17", inputs=Path("x"), rows=2, eager={"4/ran": np.array([False, True])}, at_sizes=True)
    assert with_answers("JAX 0.10.2", some) is some
