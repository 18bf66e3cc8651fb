"""Stores for the tests: a folder and a bucket."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pytest

from tfaot_pkg.nightly.farm.address import store_at
from tfaot_pkg.nightly.farm.store import Store


@dataclass(frozen=True, kw_only=True)
class Place:
    """An address, and the variables with which a process gets there."""

    url: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        return store_at(self.url)


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty store of each kind."""
    if request.param == "folder":
        return Place(url=str(tmp_path / "store"))
    variables: dict[str, str] = request.getfixturevalue("s3")
    for name, value in variables.items():
        monkeypatch.setitem(os.environ, name, value)
    return Place(url=f"s3://tests/{uuid4()}", variables=variables)
