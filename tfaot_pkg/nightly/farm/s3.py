"""A store in S3, or in a server with its protocol that has conditional writes (`If-Match` and `If-None-Match` of PUT).

Credentials, region and endpoint are boto3's own settings: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_S3, profiles and so on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tfaot_pkg.errors import NetworkError, StorageError, TfaotError
from tfaot_pkg.nightly.farm.store import MOST, Cell, require_name

_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9_./=-]*))?")
# 409: another conditional write of the same object was under way.
_LOST = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "412", "409"})
_MISSING = frozenset({"NoSuchKey", "404"})
_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=10, read_timeout=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Store:
    """`cells/NAME` and `blobs/SHA256` below `prefix` in `bucket`. A cell's tag is its ETag."""

    url: str
    bucket: str
    prefix: str
    client: Any

    @classmethod
    def of(cls, url: str) -> S3Store:
        """Raises TfaotError for an address that is none, NetworkError if there are no credentials."""
        found = _URL.fullmatch(url)
        if found is None:
            raise TfaotError(f"--results: must be s3://BUCKET/PREFIX, got {url!r}")
        with _errors(url):
            session = boto3.Session()
            # Now, because the coordinator hides the variables that they may be in.
            credentials = session.get_credentials()
            if credentials is None:
                raise NetworkError(f"there are no credentials for {url}", hint="AWS_ACCESS_KEY_ID, or a profile")
            credentials.get_frozen_credentials()
            client = session.client("s3", config=_CONFIG)
        prefix = (found[2] or "").strip("/")
        return cls(url=url, bucket=found[1], prefix=f"{prefix}/" if prefix else "", client=client)

    def cells(self) -> dict[str, str]:
        return self._listed("cells/")

    def read(self, name: str) -> Cell | None:
        with _errors(self.url):
            try:
                answer = self.client.get_object(Bucket=self.bucket, Key=self._cell(name))
            except ClientError as error:
                if _code(error) in _MISSING:
                    return None
                raise
            return Cell(data=answer["Body"].read(MOST), tag=answer["ETag"])

    def create(self, name: str, data: bytes) -> str | None:
        return self._put(name, data, IfNoneMatch="*")

    def replace(self, name: str, data: bytes, tag: str) -> str | None:
        return self._put(name, data, IfMatch=tag)

    def remove(self, name: str) -> None:
        self._delete(self._cell(name))

    def blobs(self) -> list[str]:
        return list(self._listed("blobs/"))

    def upload(self, digest: str, source: Path | bytes) -> None:
        key = self._blob(digest)
        with _errors(self.url):
            if isinstance(source, bytes):
                self.client.put_object(Bucket=self.bucket, Key=key, Body=source)
            else:
                self.client.upload_file(str(source), self.bucket, key)

    @contextmanager
    def opened(self, digest: str) -> Iterator[tuple[BinaryIO, int]]:
        with _errors(self.url):
            try:
                answer = self.client.get_object(Bucket=self.bucket, Key=self._blob(digest))
            except ClientError as error:
                if _code(error) in _MISSING:
                    raise StorageError(f"the blob {digest} is not in {self.url}") from error
                raise
            with answer["Body"] as stream:
                yield cast(BinaryIO, stream), answer["ContentLength"]

    def drop(self, digest: str) -> None:
        self._delete(self._blob(digest))

    def _put(self, name: str, data: bytes, **condition: str) -> str | None:
        with _errors(self.url):
            try:
                answer = self.client.put_object(Bucket=self.bucket, Key=self._cell(name), Body=data, **condition)
            except ClientError as error:
                if _code(error) in _LOST:
                    return None
                raise
            return str(answer["ETag"])

    def _listed(self, folder: str) -> dict[str, str]:
        start = f"{self.prefix}{folder}"
        with _errors(self.url):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=start)
            return {one["Key"].removeprefix(start): one["ETag"] for page in pages for one in page.get("Contents", ())}

    def _delete(self, key: str) -> None:
        with _errors(self.url):
            self.client.delete_object(Bucket=self.bucket, Key=key)

    def _cell(self, name: str) -> str:
        return f"{self.prefix}cells/{require_name(name)}"

    def _blob(self, digest: str) -> str:
        return f"{self.prefix}blobs/{require_name(digest)}"


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _errors(url: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError, OSError) as error:
        raise NetworkError(f"cannot use the results in {url}: {error}", hint="check address and credentials") from error
