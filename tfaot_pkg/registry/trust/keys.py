"""Keys that sign a registry: files encrypted with a passphrase, or any key URI that securesystemslib supports.

A key folder holds `keys.json` (which key is for which role, where its private half is) and the private keys as
encrypted PKCS8. It is kept outside of the registry; the root keys are best moved to other places afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import read, write
from tfaot_pkg.ground.storage import make_folder, storage_errors, write_file

# cryptography and securesystemslib are imported in functions: most commands must not wait for them.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from securesystemslib.signer import Key, Signer, SSlibKey

KEYS = "keys.json"
PASSPHRASE = "TFAOT_REGISTRY_PASSPHRASE"  # noqa: S105 (a variable's name)
FOLDER = "TFAOT_REGISTRY_KEYS"

ROOT, RELEASE, SNAPSHOT, TIMESTAMP = "root", "release", "snapshot", "timestamp"
ROLES = (ROOT, RELEASE, SNAPSHOT, TIMESTAMP)
"""The roles that have keys. `release` signs the lists of what is published: TUF's targets and its delegations."""

Secrets = Callable[[str], str]
"""Returns the passphrase or PIN of a key; the argument names the key in the prompt."""

_SCHEME = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key: `uri` says where its private half is (`file:NAME.pem` is relative to the key folder)."""

    role: str
    keyid: str
    uri: str
    public: dict[str, object]
    """As in TUF metadata: keytype, scheme, keyval."""

    @property
    def key(self) -> Key:
        from securesystemslib.signer import Key

        # `from_dict` empties the dict that it is given, so it gets a copy.
        return Key.from_dict(self.keyid, json.loads(json.dumps(self.public)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    """The keys that one folder records, and `secrets`, which returns their passphrases."""

    folder: Path
    records: tuple[KeyRecord, ...]
    secrets: Secrets

    @classmethod
    def open(cls, folder: Path, secrets: Secrets) -> KeyRing:
        """Raises TrustError if there is none or it cannot be read."""
        path = folder.absolute() / KEYS
        with storage_errors(f"read the keys in {folder}"):
            try:
                data = path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                raise TrustError(f"there are no keys in {folder} (no {KEYS})", hint=KEYS_HINT) from None
        document = read(_File, data, str(path), error=TrustError, hint="restore it from a backup")
        return cls(folder=folder.absolute(), records=document.keys, secrets=secrets)

    def with_record(self, record: KeyRecord) -> KeyRing:
        return replace(self, records=(*self.records, record))

    def free_name(self, role: str) -> str:
        """A name for a new key's file; those of keys that were moved elsewhere stay taken."""
        # A name may be taken by a key whose file was moved away, or by a file that no record names yet.
        taken = {record.uri for record in self.records} | {
            f"{_SCHEME}:{path.name}" for path in self.folder.glob("*.pem")
        }
        return next(name for number in range(1, 1000) if f"{_SCHEME}:{(name := f'{role}-{number}')}.pem" not in taken)

    def save(self) -> None:
        """Raises StorageError."""
        with storage_errors(f"write the keys in {self.folder}"):
            write_file(self.folder / KEYS, write(_File(keys=self.records)), mode=0o600)

    def of_role(self, role: str) -> tuple[KeyRecord, ...]:
        return tuple(record for record in self.records if record.role == role)

    def signers(self, keyids: Iterable[str]) -> list[Signer]:
        """Signers of those `keyids` whose private half is here. Raises TrustError for a wrong passphrase."""
        wanted = set(keyids)
        found = {record.keyid: record for record in self.records if record.keyid in wanted}
        signers = [load_signer(record, self.folder, self.secrets) for record in found.values()]
        return [signer for signer in signers if signer is not None]


KEYS_HINT = f"name the folder that `registry init` wrote the keys to: --keys FOLDER, or {FOLDER}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    keys: tuple[KeyRecord, ...]
    format: int = 1


def load_signer(record: KeyRecord, folder: Path, secrets: Secrets) -> Signer | None:
    """The signer for this key; None if its file is not here. Raises TrustError."""
    from securesystemslib.signer import CryptoSigner, Signer

    scheme, _, rest = record.uri.partition(":")
    if scheme != _SCHEME:
        try:
            return Signer.from_priv_key_uri(record.uri, record.key, secrets)
        except Exception as error:  # any library's own errors: a device, a service
            raise TrustError(
                f"the {record.role} key {record.keyid[:12]} cannot be used ({record.uri}): {error}",
                hint="check that the device or service is available, and that its Python package is installed",
            ) from error
    path = folder / rest
    with storage_errors(f"read the key {path}"):
        try:
            pem = path.read_bytes()
        except FileNotFoundError:
            return None
    try:
        return CryptoSigner(_private_key(pem, path, secrets), cast("SSlibKey", record.key))
    except ValueError as error:
        raise TrustError(
            f"{path} is not the {record.role} key {record.keyid[:12]} ({error})", hint="restore it from a backup"
        ) from error


def _private_key(pem: bytes, path: Path, secrets: Secrets) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    # Ask for a passphrase only if the key needs one.
    encrypted = b"BEGIN ENCRYPTED PRIVATE KEY" in pem
    try:
        return load_pem_private_key(pem, secrets(f"the key {path}").encode() if encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise TrustError(
            f"the key {path} cannot be read: " + ("wrong passphrase, or damaged" if encrypted else str(error)),
            hint=f"the passphrase comes from --passphrase-file, {PASSPHRASE} or the prompt",
        ) from error


def make_key(role: str, folder: Path, name: str, passphrase: str | None) -> KeyRecord:
    """A new ed25519 key in `folder/NAME.pem`, mode 0600, encrypted unless `passphrase` is None; `NAME.pub` beside it.

    Raises StorageError, TrustError if there is such a key.
    """
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
    )
    from securesystemslib.signer import CryptoSigner

    signer = CryptoSigner.generate_ed25519()
    # CryptoSigner gives its key unencrypted; it must be encrypted before it reaches the disk.
    private = load_pem_private_key(signer.private_bytes, None)
    encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase.encode())
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    public_pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with storage_errors(f"write the keys in {folder}"):
        # A folder that exists keeps its permissions: others may use it too.
        if not folder.exists():
            make_folder(folder)
            folder.chmod(0o700)
        if (folder / f"{name}.pem").exists():
            raise TrustError(f"{folder / name}.pem exists already, and keys are never overwritten", hint=KEYS_HINT)
        write_file(folder / f"{name}.pem", pem, mode=0o600)
        write_file(folder / f"{name}.pub", public_pem, mode=0o600)
    public = signer.public_key
    return KeyRecord(role=role, keyid=public.keyid, uri=f"{_SCHEME}:{name}.pem", public=public.to_dict())


def import_key(role: str, uri: str) -> KeyRecord:
    """A key that lives elsewhere: `URI` as securesystemslib's signers take it, e.g. `hsm:`, `gcpkms:...`, `awskms:...`.

    The public half is read from there. Raises TrustError.
    """
    from securesystemslib.signer import SIGNER_FOR_URI_SCHEME

    scheme, _, rest = uri.partition(":")
    # `file2:` is the scheme of securesystemslib for key files.
    if scheme in (_SCHEME, "file2"):
        return _import_file(role, Path(rest))
    signer = SIGNER_FOR_URI_SCHEME.get(scheme)
    if signer is None or not hasattr(signer, "import_"):
        known = ", ".join(sorted([*SIGNER_FOR_URI_SCHEME, _SCHEME]))
        raise TrustError(f"{uri}: no signer is known for {scheme!r}", hint=f"known: {known}")
    try:
        new_uri, key = signer.import_(rest) if rest else signer.import_()
    except Exception as error:  # any library's own errors
        raise TrustError(
            f"the key {uri} cannot be used: {error}",
            hint="check that the device or service is available, and that its Python package is installed",
        ) from error
    return KeyRecord(role=role, keyid=key.keyid, uri=new_uri, public=key.to_dict())


def _import_file(role: str, path: Path) -> KeyRecord:
    key = public_key(path.with_suffix(".pub") if path.suffix == ".pem" else path)
    return KeyRecord(role=role, keyid=key.keyid, uri=f"{_SCHEME}:{path.absolute()}", public=key.to_dict())


def public_key(path: Path) -> SSlibKey:
    """The public key (PEM) in `path`. Raises TrustError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    try:
        return SSlibKey.from_crypto(load_pem_public_key(path.read_bytes()))
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise TrustError(
            f"{path} is not a public key ({error})",
            hint="a public key is NAME.pub (PEM); that of NAME.pem must be beside it",
        ) from error


def secrets_from(passphrase_file: Path | None = None, *, new: bool = False) -> Secrets:
    """The passphrase from the first line of a file, the environment or the terminal; TrustError if there is none.

    A `new` one is asked for twice, and must not be empty.
    """
    # A command may open several keys, but asks once.
    known: dict[str, str] = {}

    def give(what: str) -> str:
        if not known:
            known["passphrase"] = _passphrase(what, passphrase_file, new)
        return known["passphrase"]

    return give


def _passphrase(what: str, passphrase_file: Path | None, new: bool) -> str:
    given = _given_passphrase(what, passphrase_file) if passphrase_file or PASSPHRASE in os.environ else None
    if given is None:
        given = _typed_passphrase(what, new)
    if new and not given:
        raise TrustError(f"{what} need a passphrase that is not empty", hint="or give --no-passphrase")
    return given


def _given_passphrase(what: str, passphrase_file: Path | None) -> str:
    if passphrase_file is None:
        return os.environ[PASSPHRASE]
    with storage_errors(f"read the passphrase of {what}"):
        # Editors end a file with a newline, which is not part of the passphrase.
        return (passphrase_file.read_text(encoding="utf-8").splitlines() or [""])[0]


def _typed_passphrase(what: str, new: bool) -> str:
    if not sys.stdin.isatty():
        raise TrustError(
            f"there is no passphrase for {what}, and no terminal to ask on",
            hint=f"give --passphrase-file FILE, or set {PASSPHRASE}",
        )
    import getpass

    typed = getpass.getpass(f"Passphrase for {what}: ")
    if new and typed != getpass.getpass("Again: "):
        raise TrustError("the two passphrases differ", hint="try again")
    return typed
