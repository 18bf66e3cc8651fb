"""Workers that lie: each function changes what `worker.py` puts into the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.nightly.farm.messages import Told
from tfaot_pkg.nightly.farm.store import Store
from tfaot_pkg.nightly.hosts import BuildHosts
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.results import Results

Change = Callable[[dict[str, Any]], None]


def _in_line(change: Change) -> Change:
    """Change the index line of a result."""

    def install(module: dict[str, Any]) -> None:
        def told(**fields: Any) -> Told:
            line = json.loads(fields["line"])
            change(line)
            return Told(**{**fields, "line": json.dumps(line) + "\n"})

        module["Told"] = told

    return install


def _blob(line: dict[str, Any], **fields: object) -> None:
    line["blobs"]["prefix"] |= fields


def _odd_name(line: dict[str, Any]) -> None:
    line["blobs"]["../../../../evil"] = line["blobs"]["prefix"]


def _unknown_role(line: dict[str, Any]) -> None:
    line["blobs"]["evil"] = line["blobs"]["prefix"]


def _replaced(module: dict[str, Any]) -> None:
    """The package is replaced when its digest has been signed."""
    put = module["put"]

    def after(store: Store, source: Any, *more: Any) -> str:
        digest: str = put(store, source, *more)
        if b'"line"' in (source if isinstance(source, bytes) else b""):
            line = json.loads(json.loads(source)["line"] or "{}")
            for blob in line.get("blobs", {}).values():
                store.upload(blob["sha256"], b"?" * blob["size"])
        return digest

    module["put"] = after


def _about_another(module: dict[str, Any]) -> None:
    module["Told"] = lambda **fields: replace(Told(**fields), offer="another")


def _blames_the_model(module: dict[str, Any]) -> None:
    module["Told"] = lambda **fields: Told(**{**fields, "kind": "build failed", "error": "it is broken", "line": ""})


def _no_document(module: dict[str, Any]) -> None:
    module["write"] = lambda _: b"\x00" * 100


LIES: dict[str, Change] = {
    "odd name": _in_line(_odd_name),
    "unknown role": _in_line(_unknown_role),
    "other key": _in_line(lambda line: line.update(key="0" * 64)),
    "other version": _in_line(lambda line: line.update(version="9.9.9")),
    "too large": _in_line(lambda line: _blob(line, size=1 << 40)),
    "larger than told": _in_line(lambda line: _blob(line, size=3)),
    "smaller than told": _in_line(lambda line: _blob(line, size=300)),
    "replaced": _replaced,
    "about another": _about_another,
    "no document": _no_document,
    "blames the model": _blames_the_model,
}


def _other_bytes(module: dict[str, Any]) -> None:
    """Another package than the one that was built, and everything about it is right."""
    perform = module["perform"]

    def after(request: Request, hosts: BuildHosts) -> Attempt:
        attempt: Attempt = perform(request, hosts)
        folder = Results(root=request.state).folder(request.decision.key)
        data = b"evil " + request.decision.key.encode()
        (folder / "blobs" / "prefix").write_bytes(data)
        line = json.loads((folder / "line").read_text())
        line |= {"tree": sha256_bytes(data), "blobs": {"prefix": {"sha256": sha256_bytes(data), "size": len(data)}}}
        (folder / "line").write_text(json.dumps(line) + "\n")
        return attempt

    module["perform"] = after


UNSEEN = {"other bytes": _other_bytes}
"""Lies that only another builder shows."""
