"""Signed provenance as others read it: sigstore's verifier for Node.js, with the public key alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kept import REPOSITORY
from tests.registry.conftest import Package
from tests.registry.signing import make_signed
from tests.registry.test_attestation import CHECKOUT, release_of
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.pipeline.publish import attested

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


def test_sigstores_verifier_accepts_what_a_publisher_signed_and_no_changed_one(
    make_package: Callable[..., Package], tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    node, npm = require_program("node"), require_program("npm")
    verifier = tmp_path / "sigstore"
    shutil.copytree(REPOSITORY / "tests" / "provenance" / "sigstore", verifier)
    run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=verifier, timeout=300)
    signed = attested(release_of(make_package), make_signed(tmp_path), CHECKOUT)
    envelope, archive = signed.blobs["attestation"], signed.blobs["prefix"]
    assert isinstance(envelope, bytes) and isinstance(archive, Path)

    def verified(content: bytes) -> str:
        (tmp_path / "envelope.json").write_bytes(content)
        return run(
            [node, verifier / "verify.cjs", tmp_path / "envelope.json", tmp_path / "keys" / "release.pub"]
        ).stdout

    statement = json.loads(verified(envelope))
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"][0]["digest"] == {"sha256": sha256_file(archive)}
    changed = json.loads(envelope)
    changed["payload"] = changed["payload"].replace("a", "b", 1)
    with pytest.raises(CommandFailed, match="signature verification failed"):
        verified(json.dumps(changed).encode())
