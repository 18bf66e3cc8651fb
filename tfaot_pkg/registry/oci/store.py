"""Where artifacts are written to: the port, and its form for a registry over HTTP (layout.py has that for folders)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol
from urllib.parse import urlsplit

from tfaot_pkg.ground.http.client import Answer, Client, joined
from tfaot_pkg.ground.http.failure import Missing
from tfaot_pkg.ground.http.site import Patience, refused
from tfaot_pkg.ground.http.transfer import Transfer
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.oci.artifact import LIMIT, Descriptor, Manifest, referrers_tag, with_referrers
from tfaot_pkg.registry.oci.credentials import client_for
from tfaot_pkg.registry.oci.reference import Reference


class Store(Protocol):
    """What takes artifacts. All raise NetworkError or StorageError."""

    def has(self, blob: BlobRef) -> bool:
        """Whether it has this content."""

    def put(self, blob: BlobRef, content: BinaryIO) -> None:
        """Store `content`, which was checked to be `blob`, from its start."""

    def has_manifest(self, manifest: Manifest) -> bool: ...

    def put_manifest(self, manifest: Manifest) -> None: ...

    def refer(self, subject: Descriptor, referrers: Sequence[Manifest]) -> int:
        """Store `referrers` of a manifest that is there, and list them; how many were not there before."""

    def tagged(self, tag: str) -> bytes | None:
        """The manifest that has this tag."""

    def tag(self, manifest: Manifest, tag: str) -> None:
        """Store `manifest` under this tag."""


@dataclass(slots=True, kw_only=True)
class HttpStore:
    """A repository of an OCI registry."""

    reference: Reference
    patience: Patience
    _client: Client = field(init=False)
    _transfer: Transfer = field(init=False)

    def __post_init__(self) -> None:
        self._client = client_for(self.reference, self.patience)
        self._transfer = Transfer(client=self._client)

    @classmethod
    @contextmanager
    def open(cls, reference: Reference) -> Iterator[HttpStore]:
        """Raises RegistryError, NetworkError, StorageError."""
        made = cls(reference=reference, patience=Patience.of_user())
        try:
            yield made
        finally:
            made.close()

    def close(self) -> None:
        self._client.close()

    def has(self, blob: BlobRef) -> bool:
        return self._is_there(self._url(f"blobs/sha256:{blob.sha256}"))

    def put(self, blob: BlobRef, content: BinaryIO) -> None:
        # Also the beginning: a session that has failed takes no content again.
        self._transfer.repeat(lambda: self._upload(blob, content))

    def has_manifest(self, manifest: Manifest) -> bool:
        return self._is_there(self._url(f"manifests/{manifest.descriptor.digest}"))

    def put_manifest(self, manifest: Manifest) -> None:
        self.tag(manifest, manifest.descriptor.digest)

    def tagged(self, tag: str) -> bytes | None:
        return self._get(f"manifests/{tag}")

    def tag(self, manifest: Manifest, tag: str) -> None:
        url, kind = self._url(f"manifests/{tag}"), manifest.descriptor.media_type
        self._transfer.repeat(lambda: self._send("PUT", url, (201,), io.BytesIO(manifest.body), kind))

    def refer(self, subject: Descriptor, referrers: Sequence[Manifest]) -> int:
        missing = [one for one in referrers if not self.has_manifest(one)]
        own_list = self._get(f"referrers/{subject.digest}")
        listed = own_list if own_list is not None else self.tagged(referrers_tag(subject))
        where = f"the list of referrers of {subject.digest} in {self.reference}"
        changed = with_referrers(listed, referrers, where)
        for one in missing if changed is None else referrers:
            self.put_manifest(one)
        # A registry without that resource (distribution 2.8, for one) lists nothing by itself.
        if own_list is None and changed is not None:
            self.tag(changed, referrers_tag(subject))
        return len(missing)

    def _url(self, path: str) -> str:
        return self.reference.address.join(f"{self.reference.api}/{path}")

    def _get(self, path: str) -> bytes | None:
        try:
            document = self._transfer.get(self._url(path), LIMIT)
        except Missing:
            return None
        assert document is not None
        return document.body

    def _is_there(self, url: str) -> bool:
        def ask() -> bool:
            with self._client.ask(url, {}, self.patience.document, method="HEAD") as answer:
                if answer.status != 404:
                    self._transfer.expect(answer, (200,))
                return answer.status == 200

        return self._transfer.repeat(ask)

    def _upload(self, blob: BlobRef, content: BinaryIO) -> None:
        """POST, then PUT (distribution-spec, "Pushing a blob monolithically")."""
        begun = self._send("POST", self._url("blobs/uploads/"), (202,))
        location = self._location(begun)
        mark = "&" if urlsplit(location).query else "?"
        url = f"{location}{mark}digest=sha256%3A{blob.sha256}"
        self._send("PUT", url, (201,), content, "application/octet-stream", self.patience.file)

    def _location(self, answer: Answer) -> str:
        """Where the registry wants the content. Raises NetworkError if it may not."""
        location = answer.headers.get("Location", "")
        try:
            target = joined(answer.url, location)
        except ValueError as error:
            raise refused(location, answer.url, str(error), self._client.site) from None
        if fault := self._client.site.fault(target, answer.url):
            raise refused(target, answer.url, fault, self._client.site)
        return target

    def _send(
        self, method: str, url: str, good: tuple[int, ...], body: BinaryIO | None = None, kind: str = "",
        whole: float | None = None,
    ) -> Answer:  # fmt: skip
        headers = {"Content-Type": kind} if kind else {}
        length = whole or self.patience.document
        with self._client.ask(url, headers, length, method=method, body=body) as answer:
            self._transfer.expect(answer, good)
            answer.skip()
        return answer
