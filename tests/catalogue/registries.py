"""Registries to be shown: a handful of packages with all that a page can have, and 100,000 that exist as entries only."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from tfaot_pkg.ground.keys import key_of, sha256_bytes
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.registry import reader
from tfaot_pkg.registry.entry import BlobRef, Deprecation, RegistryEntry
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.spec.rules import package_name

HOSTILE = "</title><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"'>{{ 7 * 7 }} & more"
"""What a publisher may try in a description, a licence, a reason."""

_SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 1, 8, 8)),),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 10)),),
)
_ARCHIVE = b"what is published" * 60_000


def entry_of(model: str, version: str = "1.0.0", **fields: Any) -> RegistryEntry:
    entry = RegistryEntry(
        name=package_name(model),
        model=model,
        version=version,
        key=key_of("test", 1, {"model": model, "version": version}),
        tree=sha256_bytes(f"{model} {version}".encode()),
        toolchain="tensorflow 2.17.1",
        targets=("x86-64-v2", "x86-64-v3"),
        batch_sizes=(1, 2, 4, 8),
        signature=_SIGNATURE,
        license="Apache-2.0",
        description=f"The model {model}",
        blobs={},
    )
    return replace(entry, **fields)


def publish(registry: FolderRegistry, entry: RegistryEntry, **documents: Mapping[str, Any] | bytes) -> RegistryEntry:
    """Publish `entry` with documents by role."""
    blobs: dict[str, Path | bytes] = {"prefix": _ARCHIVE}
    for role, document in documents.items():
        blobs[role] = document if isinstance(document, bytes) else json.dumps(document).encode()
    refs = {role: BlobRef.of(content) for role, content in blobs.items()}
    return registry.publish(replace(entry, blobs=refs), blobs).entry


def graph_document(layers: int = 3) -> dict[str, Any]:
    """A dense network with a way around its middle."""
    nodes: list[dict[str, Any]] = [
        {
            "name": "image",
            "op": "Placeholder",
            "kind": "input",
            "dtype": "float32",
            "shape": [None, 8, 8],
            "inputs": [],
        },
        {"name": "flat", "op": "Reshape", "kind": "operation", "dtype": "float32", "shape": [None, 64], "inputs": [0]},
    ]
    for number in range(layers):
        for op in ("MatMul", "BiasAdd", "Relu"):
            nodes.append(
                {"name": f"dense_{number}/{op}", "op": op, "kind": "operation", "dtype": "float32",
                 "shape": [None, 32], "inputs": [len(nodes) - 1]}
            )  # fmt: skip
    nodes.append(
        {"name": "add", "op": "AddV2", "kind": "operation", "dtype": "float32", "shape": [None, 32],
         "inputs": [4, len(nodes) - 1]}
    )  # fmt: skip
    nodes.append(
        {"name": "digit", "op": "Identity", "kind": "output", "dtype": "float32", "shape": [None, 10],
         "inputs": [len(nodes) - 1]}
    )  # fmt: skip
    return {"format": 1, "nodes": nodes}


def validation_document() -> dict[str, Any]:
    comparisons = [
        {"target": target, "batch_size": size, "output": "digit", "elements": size * 10, "failures": 0,
         "max_absolute": 1.1920928955078125e-07 * size, "max_relative": 3.4e-7}
        for target in ("x86-64-v2", "x86-64-v3") for size in (1, 2, 4, 8)
    ]  # fmt: skip
    return {
        "format": 1, "passed": True, "reference": "tensorflow 2.17.1", "inputs": {}, "rtol": 1e-4, "atol": 1e-5,
        "comparisons": comparisons, "not_run": [], "warnings": ["GatherV2: indices out of range are clamped"],
    }  # fmt: skip


def provenance_document() -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "predicate": {
            "buildDefinition": {
                "internalParameters": {
                    "command": "tfaot-pkg publish spec.yaml",
                    "toolchain": {"tensorflow": "2.17.1", "xlaFlags": ["--xla_cpu_use_thunk_runtime=false"]},
                    "compiler": {"version": "g++ 12.2.0", "machine": "x86_64-linux-gnu"},
                },
                "resolvedDependencies": [{"name": "model", "digest": {"tfaotTree1": "ab" * 32}}],
            },
            "runDetails": {"builder": {"id": "urn:tfaot-pkg:builder"}},
        },
    }


def sbom_document() -> dict[str, Any]:
    return {
        "bomFormat": "CycloneDX",
        "components": [
            {"name": "digits", "version": "1.1.0", "type": "machine-learning-model", "licenses": [{"license": {"id": "MIT"}}]},
            {"name": "tensorflow", "version": "2.17.1", "type": "library", "licenses": [{"license": {"id": "Apache-2.0"}}]},
            {"name": "libgcc", "type": "library", "licenses": [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}]},
        ],
    }  # fmt: skip


def small_registry(root: Path) -> FolderRegistry:
    """Eight packages: one with everything, one hostile, one deprecated, one yanked, and others."""
    days = count(0)
    registry = replace(
        FolderRegistry.create(root), clock=lambda: f"{date(2026, 1, 3) + timedelta(days=14 * next(days))}T12:00:00Z"
    )
    publish(
        registry,
        entry_of("wine", description="Which cultivar a wine is of, from thirteen chemical measurements", license="MIT"),
    )
    publish(
        registry,
        entry_of(
            "jet_tagger",
            "0.9.0",
            description="Tags jets that come from bottom quarks",
            targets=("x86-64-v3", "aarch64"),
        ),
        info={"model_format": "onnx", "keywords": ["physics"], "origin": "ONNX, opset 20, producer pytorch 2.13.0"},
        graph={"format": 1, "nodes": [{"name": "lstm_1/while", "op": "While", "kind": "operation", "inputs": []}]},
    )
    publish(
        registry,
        entry_of(
            "muon_filter",
            description="Finds muons among fakes; replaced by a better one",
            toolchain="tensorflow 2.21.0",
        ),
    )
    publish(registry, entry_of("vertex", description="Where a track begins"))
    fields = Signature(
        inputs=(Tensor(name="electrons", dtype=DType.FLOAT32, shape=(None, 3)),), outputs=_SIGNATURE.outputs
    )
    publish(
        registry,
        entry_of("signal", signature=fields),
        info={"model_format": "trees", "origin": "XGBoost 3.2.0, 20 trees"},
    )
    publish(registry, entry_of("evil", description=HOSTILE, license=HOSTILE, toolchain=HOSTILE, targets=(HOSTILE,)),
            validation={"passed": True, "reference": HOSTILE, "comparisons": [{**validation_document()["comparisons"][0], "output": HOSTILE}], "warnings": [HOSTILE]},
            sbom={"components": [{"name": HOSTILE}]}, graph={"nodes": [{"name": HOSTILE, "op": HOSTILE, "kind": "operation", "inputs": []}]},
            provenance={"predicate": {"runDetails": {"builder": {"id": HOSTILE}}}})  # fmt: skip
    for version in ("1.0.0", "1.0.1", "1.1.0"):
        publish(
            registry,
            entry_of(
                "digits", version, description="Recognizes handwritten digits in images of 8 × 8 pixels", license="MIT"
            ),
            validation=validation_document(),
            provenance=provenance_document(),
            sbom=sbom_document(),
            graph=graph_document(),
        )
    registry.yank("digits", "1.0.1", "trained on the wrong data")
    registry.yank("vertex", "1.0.0", HOSTILE)
    publish(registry, entry_of("muon_filter2", description="Finds muons among fakes"))
    registry.deprecate("muon_filter", Deprecation(use="muon_filter2", reason=HOSTILE))
    return registry


_WORDS = "jet tagger muon track vertex photon energy regression image digit anomaly autoencoder filter trigger".split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Many:
    """A `RegistryReader` of `count` packages that are made when they are asked for."""

    count: int
    location: str = "/nowhere"
    root_version: int | None = None
    channels: None = None

    def names(self) -> tuple[str, ...]:
        return tuple(package_name(self.model(number)) for number in range(self.count))

    def model(self, number: int) -> str:
        return f"{_WORDS[number % len(_WORDS)]}_{_WORDS[number // 14 % len(_WORDS)]}_{number:06}"

    def entries(self, package: str) -> tuple[RegistryEntry, ...]:
        number = int(package.rpartition("-")[2])
        words = " ".join(_WORDS[(number >> shift) % len(_WORDS)] for shift in (0, 3, 6))
        when = f"{2020 + number % 7}-{number % 12 + 1:02}-{number % 28 + 1:02}T00:00:00Z"
        license_ = ("Apache-2.0", "MIT", "BSD-3-Clause")[number % 3]
        description = f"A {words} of the year {2000 + number % 30}, with number {number}"
        return (entry_of(self.model(number), license=license_, description=description, published=when),)

    def deprecation(self, package: str) -> Deprecation | None:
        return None

    def search(self, text: str) -> reader.SearchResult:
        return reader.search(self, text)

    @contextmanager
    def open_blob(self, blob: BlobRef) -> Iterator[BinaryIO]:
        yield io.BytesIO()
