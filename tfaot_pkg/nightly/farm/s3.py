"""A store in a bucket: `cells/NAME` and `blobs/SHA256` below its address. A cell's tag is the object's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.objects import BucketAddress, Objects
from tfaot_pkg.nightly.farm.store import MOST, Cell, require_name


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Store:
    objects: Objects

    @classmethod
    def of(cls, url: str) -> S3Store:
        """Raises TfaotError for an address that is none, NetworkError if there are no credentials."""
        return cls(objects=Objects.open(BucketAddress.parse(url, "--results")))

    @property
    def url(self) -> str:
        return self.objects.address.url

    def cells(self) -> dict[str, str]:
        return {name: item.tag for name, item in self.objects.listed("cells/").items()}

    def read(self, name: str) -> Cell | None:
        found = self.objects.read(_cell(name), MOST - 1)
        return None if found is None else Cell(data=found[0], tag=found[1])

    def create(self, name: str, data: bytes) -> str | None:
        return self.objects.replace(_cell(name), data, None)

    def replace(self, name: str, data: bytes, tag: str) -> str | None:
        return self.objects.replace(_cell(name), data, tag)

    def remove(self, name: str) -> None:
        self.objects.remove(_cell(name))

    def blobs(self) -> list[str]:
        return list(self.objects.listed("blobs/"))

    def upload(self, digest: str, source: Path | bytes) -> None:
        self.objects.write(_blob(digest), source, digest)

    @contextmanager
    def opened(self, digest: str) -> Iterator[tuple[BinaryIO, int]]:
        with self.objects.stream(_blob(digest)) as found:
            if found is None:
                raise StorageError(f"the blob {digest} is not in {self.url}")
            yield found

    def drop(self, digest: str) -> None:
        self.objects.remove(_blob(digest))


def _cell(name: str) -> str:
    return f"cells/{require_name(name)}"


def _blob(digest: str) -> str:
    return f"blobs/{require_name(digest)}"
