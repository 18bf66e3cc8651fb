"""Signed provenance: what any tool for DSSE verifies, and what is refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.signer import CryptoSigner

from tests.wording import reported
from tfaot_pkg.errors import TrustError
from tfaot_pkg.registry.trust.envelope import PAYLOAD_TYPE, opened, seal

PAYLOAD = b'{"_type": "https://in-toto.io/Statement/v1"}'


def keys_of(*signers: CryptoSigner) -> dict[str, dict[str, Any]]:
    return {signer.public_key.keyid: signer.public_key.to_dict() for signer in signers}


def test_the_signature_is_over_the_encoding_that_the_standard_defines() -> None:
    signer = CryptoSigner.generate_ed25519()
    document = json.loads(seal(PAYLOAD, [signer]))
    assert base64.b64decode(document["payload"]) == PAYLOAD
    (signature,) = document["signatures"]
    assert signature["keyid"] == signer.public_key.keyid
    # DSSE v1: PAE(type, body) = "DSSEv1" + SP + LEN(type) + SP + type + SP + LEN(body) + SP + body
    signed = b" ".join([b"DSSEv1", b"28", b"application/vnd.in-toto+json", str(len(PAYLOAD)).encode(), PAYLOAD])
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer.public_key.keyval["public"]))
    public.verify(base64.b64decode(signature["sig"]), signed)


def test_it_opens_with_all_keys_that_signed_it() -> None:
    one, two = CryptoSigner.generate_ed25519(), CryptoSigner.generate_ecdsa()
    assert opened(seal(PAYLOAD, [one, two]), keys_of(one, two), "it") == PAYLOAD


def _payload(document: dict[str, Any]) -> None:
    document["payload"] = base64.b64encode(PAYLOAD + b" ").decode()


def _type(document: dict[str, Any]) -> None:
    document["payloadType"] = "application/json"


def _signature(document: dict[str, Any]) -> None:
    document["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()


def _unsigned(document: dict[str, Any]) -> None:
    document["signatures"] = []


def _another_name(document: dict[str, Any]) -> None:
    document["signatures"][0]["keyid"] = "00" * 32


def _twice(document: dict[str, Any]) -> None:
    document["signatures"] *= 2


def _more(document: dict[str, Any]) -> None:
    document["hidden"] = 1


@pytest.mark.parametrize("change", [_payload, _type, _signature, _unsigned, _another_name, _twice, _more])
def test_a_changed_envelope_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    signer = CryptoSigner.generate_ed25519()
    document = json.loads(seal(PAYLOAD, [signer]))
    change(document)
    with pytest.raises(TrustError):
        opened(json.dumps(document).encode(), keys_of(signer), "the provenance of wine@1.0")


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000])
def test_what_is_no_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(TrustError):
        opened(data, keys_of(CryptoSigner.generate_ed25519()), "the provenance of wine@1.0")


def test_another_key_of_the_same_name_is_refused() -> None:
    signer, other = CryptoSigner.generate_ed25519(), CryptoSigner.generate_ed25519()
    keys = {signer.public_key.keyid: other.public_key.to_dict()}
    with reported(TrustError):
        opened(seal(PAYLOAD, [signer]), keys, "the provenance of wine@1.0")


def test_the_type_is_the_one_of_in_toto() -> None:
    assert PAYLOAD_TYPE == "application/vnd.in-toto+json"
