"""Signed provenance beside packages: published, checked by readers, and refused if it is not the publisher's."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from securesystemslib.signer import CryptoSigner

from tests.commands import run_command
from tests.provenance.materials import TREE, make_materials, make_spec
from tests.registry.conftest import Package, install
from tests.registry.signing import make_signed, open_signed
from tests.registry.tiny import tiny_files
from tests.wording import reported
from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.pipeline.publish import Release, attested
from tfaot_pkg.provenance.attestation import attested_statement
from tfaot_pkg.provenance.statement import read_statement, statement
from tfaot_pkg.registry.audit import audit
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.trust.envelope import seal
from tfaot_pkg.spec.source.checkout import Checkout

MakePackage = Callable[..., Package]
_SPEC = make_spec()
_MODEL = replace(_SPEC.model, name="digits", version="1.0")
MATERIALS = make_materials(replace(_SPEC, model=_MODEL))
PROVENANCE = canonical_json(statement(MATERIALS, TREE))
CHECKOUT = Checkout(commit="12" * 20, path="models/digits.yaml", modified=True)


@pytest.fixture
def release(make_package: MakePackage) -> Release:
    return release_of(make_package)


def release_of(make_package: MakePackage) -> Release:
    """A package with its provenance in it, and beside it."""
    path = "share/tfaot-model-digits/provenance.json"
    package = make_package("digits", "1.0", {**tiny_files("digits", "1.0"), path: PROVENANCE}, key=MATERIALS.key)
    entry = replace(package.entry, blobs={**package.entry.blobs, "provenance": BlobRef.of(PROVENANCE)})
    return Release(entry=entry, blobs={**package.blobs, "provenance": PROVENANCE})


def payload(envelope: Path | bytes) -> Any:
    assert isinstance(envelope, bytes)
    return json.loads(base64.b64decode(json.loads(envelope)["payload"]))


def with_envelope(release: Release, envelope: bytes, **fields: Any) -> Release:
    blobs = {**release.entry.blobs, "attestation": BlobRef.of(envelope)}
    return Release(
        entry=replace(release.entry, blobs=blobs, **fields), blobs={**release.blobs, "attestation": envelope}
    )


def test_a_publisher_signs_what_it_publishes_and_readers_accept_it(release: Release, tmp_path: Path) -> None:
    registry = make_signed(tmp_path)
    signed = attested(release, registry, CHECKOUT)
    registry.publish(signed.entry, signed.blobs)
    reader = open_signed(tmp_path, trust="reader")
    assert audit(reader, Silent()).faults == []
    assert install(reader, "digits", tmp_path / "prefix").outcome.status == "installed"
    entry = reader.resolve("digits")
    (keyid,) = entry.attestors
    assert keyid in {record.keyid for record in registry.keys.rings[0].of_role("release")}


def test_show_prints_the_envelope_as_it_was_signed(release: Release, tmp_path: Path, tfaot_home: Path) -> None:
    registry = make_signed(tmp_path)
    signed = attested(release, registry, CHECKOUT)
    registry.publish(signed.entry, signed.blobs)
    done = run_command(["show", "digits", "--attestation", "--registry", registry.root], env=os.environ)
    assert done.returncode == 0, done
    assert json.loads(done.stdout) == json.loads(signed.blobs["attestation"])  # type: ignore[arg-type]


def test_what_is_signed_names_archive_builder_and_commit(release: Release, tmp_path: Path) -> None:
    registry = make_signed(tmp_path)
    found = payload(attested(release, registry, CHECKOUT).blobs["attestation"])
    assert found["subject"][0] == {
        "name": "tfaot-model-digits-1.0.tar.gz", "digest": {"sha256": release.entry.blobs["prefix"].sha256}
    }  # fmt: skip
    root = BlobRef.of(registry.root / "metadata" / "1.root.json").sha256
    assert found["predicate"]["runDetails"]["builder"]["id"] == f"urn:tfaot-pkg:builder:sha256:{root}"
    assert found["predicate"]["buildDefinition"]["resolvedDependencies"][-1] == {
        "name": "spec",
        "digest": {"gitCommit": "12" * 20},
        "annotations": {"path": "models/digits.yaml", "modified": True},
    }
    packaged = json.loads(PROVENANCE)
    assert found["subject"][1:] == packaged["subject"]
    assert (
        found["predicate"]["buildDefinition"]["externalParameters"]
        == (packaged["predicate"]["buildDefinition"]["externalParameters"])
    )
    assert read_statement(json.dumps(found).encode(), "digits").key == MATERIALS.key


def test_the_address_of_a_fetched_spec_is_told_without_its_password(release: Release) -> None:
    fetched = replace(CHECKOUT, modified=False, address="https://user:secret@example.org/models.git")
    signed = json.loads(attested_statement(PROVENANCE, release.entry, publisher="ab" * 32, spec=fetched))
    spec = signed["predicate"]["buildDefinition"]["resolvedDependencies"][-1]
    assert spec["uri"].startswith("git+https://") and spec["uri"].endswith(f"example.org/models.git@{'12' * 20}")
    assert "secret" not in spec["uri"]


def test_an_unsigned_registry_gets_the_statement_alone(release: Release, tmp_path: Path) -> None:
    assert attested(release, FolderRegistry.create(tmp_path / "unsigned"), CHECKOUT) == release


def test_a_version_that_was_published_without_one_stays_installable(release: Release, tmp_path: Path) -> None:
    registry = make_signed(tmp_path)
    registry.publish(release.entry, release.blobs)
    assert b"attestors" not in registry.resolve("digits").line()
    assert audit(registry, Silent()).faults == []
    assert install(registry, "digits", tmp_path / "prefix").outcome.status == "installed"


def test_it_stays_valid_when_the_registrys_key_changes(release: Release, tmp_path: Path) -> None:
    """The index names the keys, and is signed again by those of now."""
    from tfaot_pkg.registry.signing_keys import list_keys

    registry = make_signed(tmp_path)
    signed = attested(release, registry, None)
    other = CryptoSigner.generate_ed25519()
    envelope = seal(canonical_json(payload(signed.blobs["attestation"])), [other])
    keys = {other.public_key.keyid: other.public_key.to_dict()}
    former = with_envelope(release, envelope, attestors=keys)
    registry.publish(former.entry, former.blobs)
    assert other.public_key.keyid not in {each.keyid for each in list_keys(registry)}
    assert install(registry, "digits", tmp_path / "prefix").outcome.status == "installed"


def _another_key(release: Release, signed: Release) -> Release:
    other = CryptoSigner.generate_ed25519()
    return with_envelope(
        release, seal(canonical_json(payload(signed.blobs["attestation"])), [other]), attestors=signed.entry.attestors
    )


def _another_archive(release: Release, signed: Release) -> Release:
    other = CryptoSigner.generate_ed25519()
    document = payload(signed.blobs["attestation"])
    document["subject"][0]["digest"]["sha256"] = "00" * 32
    keys = {other.public_key.keyid: other.public_key.to_dict()}
    return with_envelope(release, seal(canonical_json(document), [other]), attestors=keys)


def _no_statement(release: Release, signed: Release) -> Release:
    other = CryptoSigner.generate_ed25519()
    keys = {other.public_key.keyid: other.public_key.to_dict()}
    return with_envelope(release, seal(b"[]", [other]), attestors=keys)


def _changed(release: Release, signed: Release) -> Release:
    envelope = signed.blobs["attestation"]
    assert isinstance(envelope, bytes)
    document = json.loads(envelope)
    content = base64.b64decode(document["payload"]).replace(b"models/digits.yaml", b"models/evil.yaml")
    document["payload"] = base64.b64encode(content).decode()
    return with_envelope(release, json.dumps(document).encode(), attestors=signed.entry.attestors)


def _no_keys(release: Release, signed: Release) -> Release:
    envelope = signed.blobs["attestation"]
    assert isinstance(envelope, bytes)
    return with_envelope(release, envelope)


def _stripped(release: Release, signed: Release) -> Release:
    return Release(entry=replace(release.entry, attestors=signed.entry.attestors), blobs=release.blobs)


@pytest.mark.parametrize("forge", [_another_key, _another_archive, _no_statement, _changed, _no_keys, _stripped])
def test_a_provenance_that_is_not_the_publishers_is_refused(
    release: Release, tmp_path: Path, forge: Callable[[Release, Release], Release]
) -> None:
    registry = make_signed(tmp_path)
    forged = forge(release, attested(release, registry, CHECKOUT))
    registry.publish(forged.entry, forged.blobs)
    with reported(TrustError):
        install(registry, "digits", tmp_path / "prefix")
    assert not (tmp_path / "prefix" / "lib").exists()
    assert len(audit(registry, Silent()).faults) == 1
