"""Stores for the tests: a folder, and S3 as moto's server speaks it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

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


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """The variables that lead boto3 to a server with the bucket `farm`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "correct horse", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        boto3.Session().client("s3").create_bucket(Bucket="farm")
    yield variables
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty store of each kind."""
    if request.param == "folder":
        return Place(url=str(tmp_path / "store"))
    variables: dict[str, str] = request.getfixturevalue("s3")
    for name, value in variables.items():
        monkeypatch.setitem(os.environ, name, value)
    return Place(url=f"s3://farm/{uuid4()}", variables=variables)
