"""Specs as texts: a good one, and what is said of a bad one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tfaot_pkg.errors import SpecError
from tfaot_pkg.spec.parse import parse_spec

GOOD = """\
model:
  name: digits
  version: 1.0.0
compilation:
  batch_sizes: [1, 2, 4]
"""

FaultsOf = Callable[..., list[str]]


@pytest.fixture
def good() -> str:
    """The smallest spec."""
    return GOOD


@pytest.fixture
def faults_of() -> FaultsOf:
    """What is said of a text: each fault as it is printed, without the file's name; empty for a good spec."""

    def faults(text: str | bytes, defines: Mapping[str, str] | None = None) -> list[str]:
        content = text.encode() if isinstance(text, str) else text
        try:
            parse_spec(content, Path("spec.yaml"), defines)
        except SpecError as error:
            found = error
        else:
            return []
        assert all(fault.file == "spec.yaml" and fault.line >= 1 for fault in found.faults)
        assert str(found) == "\n".join(map(str, found.faults))
        return [str(fault).removeprefix("spec.yaml:") for fault in found.faults]

    return faults
