"""Buckets for the tests: S3 as moto's server speaks it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from threading import Lock
from typing import Any
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

# As docs/how-to/registry-in-a-bucket.md says: without the right to list, what is missing would be forbidden.
PUBLIC = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::tests/*"},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::tests"},
    ],
}


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """The variables that lead boto3 to a server with the bucket `tests`."""
    # A line for each request would hide what a failed test says.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    served, one = server._server, Lock()
    assert served is not None
    answer = served.app

    def one_at_a_time(environ: Any, start_response: Any) -> list[bytes]:
        # S3 lets one conditional write of many succeed. moto looks whether there is an object, and writes it then.
        with one:
            return list(answer(environ, start_response))

    served.app = one_at_a_time
    variables = {
        "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "correct horse", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        client = boto3.Session().client("s3")
        client.create_bucket(Bucket="tests")
        client.put_bucket_policy(Bucket="tests", Policy=json.dumps(PUBLIC))
    yield variables
    server.stop()


@pytest.fixture
def bucket(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty place in a bucket, which this process and those that it starts may use."""
    for name, value in s3.items():
        monkeypatch.setitem(os.environ, name, value)
    # Of 64 digits, as digests: what tests report is compared without them (tests/wording.py).
    return f"s3://tests/{uuid4().hex}{uuid4().hex}"
