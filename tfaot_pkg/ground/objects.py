"""Objects in a bucket of S3, or of a server with its protocol that has conditional writes (`If-Match` of PUT).

Credentials, region and endpoint are boto3's own settings: AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_S3, profiles and so on.
boto3 is imported when a bucket is opened: few need it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from tfaot_pkg.errors import NetworkError, TfaotError

_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9_./=-]*))?")
# 409: another conditional write of the same object was under way.
_LOST = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "412", "409"})
_MISSING = frozenset({"NoSuchKey", "404"})
SCHEME = "s3://"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAddress:
    """`s3://BUCKET/PREFIX`; `prefix` is empty or ends in `/`."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, text: str, what: str) -> BucketAddress:
        """Read what a user wrote for `what`. Raises TfaotError."""
        found = _URL.fullmatch(text)
        prefix = (found[2] or "").strip("/") if found else ""
        # S3 takes all keys, but clients of http remove `.` and `..` from addresses.
        if found is None or any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
            raise TfaotError(f"{what}: must be {SCHEME}BUCKET/PREFIX, got {text!r}")
        return cls(bucket=found[1], prefix=f"{prefix}/" if prefix else "")

    @property
    def url(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An object as it is listed: the time of its last change in seconds since 1970."""

    tag: str
    size: int
    modified: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects below an address. Keys are relative to it; a tag (S3's ETag) changes with an object's content.

    Methods raise NetworkError.
    """

    address: BucketAddress
    client: Any

    @classmethod
    def open(cls, address: BucketAddress) -> Objects:
        """Raises NetworkError if there are no credentials, TfaotError without boto3."""
        try:
            import boto3
            from botocore.config import Config
        except ModuleNotFoundError as error:
            raise TfaotError(
                f"{address} needs a module that is not installed: {error.name}", hint="pip install 'tfaot-pkg[s3]'"
            ) from error
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=10, read_timeout=60,
            max_pool_connections=16,
        )  # fmt: skip
        with _errors(address):
            session = boto3.Session()
            # Now, because a night hides the variables that they may be in from what it starts.
            credentials = session.get_credentials()
            if credentials is None:
                raise NetworkError(f"there are no credentials for {address}", hint="AWS_ACCESS_KEY_ID, or a profile")
            credentials.get_frozen_credentials()
            client = session.client("s3", config=config)
        return cls(address=address, client=client)

    def read(self, key: str, limit: int) -> tuple[bytes, str] | None:
        """Content, of which no more than `limit` + 1 bytes are read, and tag; None if there is no such object."""
        with self._opened(key) as answer:
            return None if answer is None else (answer["Body"].read(limit + 1), str(answer["ETag"]))

    @contextmanager
    def stream(self, key: str) -> Iterator[tuple[BinaryIO, int] | None]:
        """Content to be read once, and its size; None if there is no such object."""
        with self._opened(key) as answer:
            yield None if answer is None else (cast(BinaryIO, answer["Body"]), int(answer["ContentLength"]))

    @contextmanager
    def _opened(self, key: str) -> Iterator[Any]:
        from botocore.exceptions import ClientError

        with _errors(self.address):
            try:
                answer = self.client.get_object(Bucket=self.address.bucket, Key=self._key(key))
            except ClientError as error:
                if _code(error) not in _MISSING:
                    raise
                yield None
                return
            with answer["Body"]:
                yield answer

    def tag(self, key: str) -> str | None:
        """The tag of an object; None if there is none."""
        from botocore.exceptions import ClientError

        with _errors(self.address):
            try:
                return str(self.client.head_object(Bucket=self.address.bucket, Key=self._key(key))["ETag"])
            except ClientError as error:
                if _code(error) in _MISSING:
                    return None
                raise

    def write(self, key: str, source: Path | bytes, sha256: str) -> None:
        """Write an object, also if it exists. The server compares what it gets with that SHA-256."""
        checksum = b64encode(bytes.fromhex(sha256)).decode()
        with _errors(self.address), ExitStack() as opened:
            body = source if isinstance(source, bytes) else opened.enter_context(source.open("rb"))
            self.client.put_object(Bucket=self.address.bucket, Key=self._key(key), Body=body, ChecksumSHA256=checksum)

    def replace(self, key: str, data: bytes, tag: str | None) -> str | None:
        """Write an object whose tag is `tag` (None: that does not exist). Returns its new tag; None if it is not so."""
        from botocore.exceptions import ClientError

        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        with _errors(self.address):
            try:
                answer = self.client.put_object(Bucket=self.address.bucket, Key=self._key(key), Body=data, **condition)
            except ClientError as error:
                if _code(error) in _LOST:
                    return None
                raise
            return str(answer["ETag"])

    def listed(self, folder: str) -> dict[str, Item]:
        """All objects whose keys begin with `folder`, by what follows it."""
        start = self._key(folder)
        with _errors(self.address):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.address.bucket, Prefix=start)
            return {
                one["Key"].removeprefix(start): Item(
                    tag=one["ETag"], size=one["Size"], modified=one["LastModified"].timestamp()
                )
                for page in pages
                for one in page.get("Contents", ())
            }

    def remove(self, key: str) -> None:
        """Remove an object, if it exists."""
        with _errors(self.address):
            self.client.delete_object(Bucket=self.address.bucket, Key=self._key(key))

    def _key(self, key: str) -> str:
        return self.address.prefix + key


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _errors(address: BucketAddress) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError, OSError) as error:
        raise NetworkError(f"cannot use {address}: {error}", hint="check address and credentials") from error
