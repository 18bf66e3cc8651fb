"""Who wrote a worker's cell: each is signed with the worker's key (Ed25519), whose digest is a part of its name.

So nobody can fail builds in the name of another worker, who would be excluded for it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import convert, read_json, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.storage import storage_errors, write_file

# cryptography is imported in functions: other commands must not wait for it.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_T = TypeVar("_T")
_LABEL = re.compile(r"[^a-z0-9]+")
_LONGEST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    """A worker's cell: `content` is a JSON document, `key` the public key and `signature` that of content, in hex."""

    content: str
    key: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A worker: its name, and the private key with which it signs."""

    name: str
    private: Ed25519PrivateKey

    @classmethod
    def of(cls, label: str, private: Ed25519PrivateKey) -> Identity:
        """A new worker, one of several with this label and key."""
        word = _LABEL.sub("-", label.lower()).strip("-")[:_LONGEST] or "worker"
        return cls(name=f"{word}-{secrets.token_hex(3)}-{_end_of_name(_public(private))}", private=private)

    @property
    def public(self) -> str:
        """The public key, in hex, as `builders` in registry.yaml has it."""
        return _public(self.private).hex()

    def seal(self, document: object) -> bytes:
        """A cell with `document`."""
        content = write(document)
        signed = _Signed(
            content=content.decode(), key=_public(self.private).hex(), signature=self.private.sign(content).hex()
        )
        return write(signed)


def opened(cell: bytes, kind: type[_T], name_of: Callable[[_T], str]) -> _T:
    """The `kind` in a cell of a worker; `name_of` gives its name. Raises ValueError if somebody else wrote it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signed = convert(_Signed, read_json(cell))
    public, content = bytes.fromhex(signed.key), signed.content.encode()
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(signed.signature), content)
    except InvalidSignature as error:
        raise ValueError("its signature is wrong") from error
    document = convert(kind, read_json(content))
    if not name_of(document).endswith(f"-{_end_of_name(public)}"):
        raise ValueError(f"it is not signed by {name_of(document)}")
    return document


def is_of(name: str, keys: Iterable[str]) -> bool:
    """Whether the worker `name` has one of these public keys."""
    return any(name.endswith(f"-{_end_of_name(bytes.fromhex(key))}") for key in keys)


def new_key() -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate()


def key_in(path: Path) -> Ed25519PrivateKey:
    """The key in the file `path` (PKCS #8, PEM), which is made if it is missing. Raises TrustError, StorageError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    with storage_errors(f"read the key {path}"):
        if not path.exists():
            made = new_key()
            pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            write_file(path, pem, mode=0o600)
            return made
        pem = path.read_bytes()
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise TrustError(f"{path} is not a private key without passphrase: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise TrustError(f"{path} is not an Ed25519 key")
    return key


def _public(private: Ed25519PrivateKey) -> bytes:
    return private.public_key().public_bytes_raw()


def _end_of_name(public: bytes) -> str:
    return sha256_bytes(public)[:16]
