"""Signed documents that stand alone: DSSE envelopes (https://github.com/secure-systems-lab/dsse) of in-toto statements.

Any tool that knows the standard verifies them with the public key alone, without this tool and without a registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import read_json

# securesystemslib is imported in functions: most commands must not wait for it.
if TYPE_CHECKING:
    from securesystemslib.signer import Signer

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_FIELDS = {"payload", "payloadType", "signatures"}


def seal(payload: bytes, signers: Iterable[Signer]) -> bytes:
    """The envelope of `payload`, an in-toto statement, with a signature of each of `signers`. Raises TrustError."""
    from securesystemslib.dsse import Envelope

    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    for signer in signers:
        try:
            envelope.sign(signer)
        except Exception as error:  # devices and services have errors of their own
            raise TrustError(
                f"the key {signer.public_key.keyid[:12]} cannot sign: {error.__cause__ or error}",
                hint="check that the device or service is available",
            ) from error
    return json.dumps(envelope.to_dict(), sort_keys=True).encode() + b"\n"


def opened(data: bytes, keys: Mapping[str, Mapping[str, Any]], what: str) -> bytes:
    """The payload of the envelope `data`, which every one of `keys` must have signed, and nobody else.

    `keys` go by key id, in the form of TUF's metadata; `what` names the document in errors. Raises TrustError.
    """
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import Key

    if not keys:
        raise TrustError(f"no key is known that signed {what}")
    try:
        document = read_json(data)
        if document.keys() != _FIELDS:
            raise ValueError(f"its fields are {sorted(document)}")
        envelope = Envelope.from_dict(document)
        # `from_dict` empties the dict that it is given, so it gets a copy.
        trusted = [Key.from_dict(keyid, json.loads(json.dumps(key))) for keyid, key in keys.items()]
    except Exception as error:  # the library raises whatever its parts do
        raise TrustError(f"{what} is not a signed document: {error}") from error
    if envelope.payload_type != PAYLOAD_TYPE:
        raise TrustError(f"{what} is of the type {envelope.payload_type!r}, not {PAYLOAD_TYPE!r}")
    if envelope.signatures.keys() != keys.keys():
        raise TrustError(f"{what} is not signed by the keys that the index names")
    try:
        envelope.verify(trusted, threshold=len(trusted))
    except VerificationError as error:
        raise TrustError(f"the signature of {what} is wrong", hint="tell the registry's maintainer") from error
    return envelope.payload
