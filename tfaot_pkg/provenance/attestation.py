"""The provenance that a publisher signs: the package's own, about the archive as well, with builder and commit.

The package's own statement (statement.py) names neither: it is a part of the package, and two builds from the same
materials give the same bytes wherever they run.
"""

from __future__ import annotations

from typing import Any

from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.http.site import without_secrets
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.provenance.statement import BUILDER
from tfaot_pkg.registry.attestation import archive_name
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.spec.source.checkout import Checkout


def attested_statement(packaged: bytes, entry: RegistryEntry, *, publisher: str, spec: Checkout | None) -> bytes:
    """What is signed for `entry`, whose package holds the statement `packaged`.

    `publisher` is the SHA-256 of the first root of the registry, the identity that all its keys descend from; `spec`
    the checkout that the spec was read from. Raises ValueError.
    """
    statement: Any = read_json(packaged)
    archive = {"name": archive_name(entry), "digest": {"sha256": entry.blobs[PREFIX].sha256}}
    statement["subject"].insert(0, archive)
    predicate = statement["predicate"]
    predicate["runDetails"]["builder"]["id"] = f"{BUILDER}:sha256:{publisher}"
    if spec is not None:
        predicate["buildDefinition"]["resolvedDependencies"].append(_dependency(spec))
    return canonical_json(statement)


def _dependency(spec: Checkout) -> dict[str, object]:
    # A checkout of this machine has no address that others know.
    address = {"uri": f"git+{without_secrets(spec.address)}@{spec.commit}"} if spec.address else {}
    return {
        "name": "spec",
        **address,
        "digest": {"gitCommit": spec.commit},
        "annotations": {"path": spec.path, "modified": spec.modified},
    }
