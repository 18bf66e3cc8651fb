"""The provenance of a package: a SLSA provenance v1 predicate in an in-toto Statement v1.

https://slsa.dev/spec/v1.0/provenance, https://github.com/in-toto/attestation/tree/main/spec/v1. The document is a
part of the package, so that its subjects are all other files, and the install tree without it. It names no time,
place or person: two builds from the same materials give the same bytes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import TrustError
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.ground.keys import sha256_bytes, sha256_file
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.package.listing import Tree
from tfaot_pkg.provenance.materials import Materials, Pin, ToolchainFacts, pins_of
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.formats import Format
from tfaot_pkg.spec.row_files import DOCUMENTED, digest_in
from tfaot_pkg.spec.types import ArchiveSource, FolderSource, GitSource, ModelSpec

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:tfaot-pkg:build:1"
BUILDER = "urn:tfaot-pkg:builder"
TREE_DIGEST = "tfaotTree1"
"""Name of digests over several files: SHA-256 of the canonical JSON of their sorted names and SHA-256 digests."""

_TENSORFLOW = "tensorflow-cpu"


def statement(
    materials: Materials, tree: Tree, *, glibc: str = "", validated: Mapping[str, str] | None = None
) -> dict[str, object]:
    """The statement for the package that holds `tree` besides the statement itself.

    `glibc` is the oldest C library that its shared library and programs load with, `validated` how the code of each
    target was run to validate it (verify/report.py).
    """
    measured: list[dict[str, object]] = [{"name": "glibc", "annotations": {"oldest": glibc}}] if glibc else []
    if validated:
        measured.append({"name": "validation", "annotations": {"targets": dict(validated)}})
    return {
        "_type": STATEMENT_TYPE,
        "subject": _subjects(materials, tree),
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": _external(materials),
                "internalParameters": _internal(materials),
                "resolvedDependencies": _dependencies(materials),
            },
            "runDetails": {
                "builder": {"id": BUILDER, "version": {"tfaot-pkg": __version__}},
                # What was measured is no input, so it cannot be a parameter of the build.
                **({"byproducts": measured} if measured else {}),
            },
        },
    }


def _subjects(materials: Materials, tree: Tree) -> list[dict[str, object]]:
    model = materials.spec.model
    files: list[dict[str, object]] = [
        {"name": path, "digest": {"sha256": digest}} for path, digest in tree.files.items()
    ]
    # The tree first: one digest that stands for the whole package.
    return [{"name": f"{model.package_name}@{model.version}", "digest": {TREE_DIGEST: tree.digest}}, *files]


def _external(materials: Materials) -> dict[str, object]:
    # Sorted: the order of -D options must not change the document.
    return {"spec": spec_document(materials.spec), "defines": dict(sorted(materials.spec.defines.items()))}


def _internal(materials: Materials) -> dict[str, object]:
    spec, compiler, toolchain = materials.spec, materials.compiler, materials.toolchain.toolchain
    return {
        "key": materials.key,
        "keys": materials.keys,
        "command": _command(materials),
        "toolchain": {
            **({"tensorflow": toolchain.version} if toolchain.has_tensorflow else {}),
            "identity": materials.toolchain.identity,
            "pinned": bool(materials.toolchain.lock),
            "xlaFlags": [*toolchain.xla_flags, *spec.compilation.xla_flags],
            "tfXlaFlags": list(spec.compilation.tf_xla_flags),
        },
        **_frontend(spec.model.files.format),
        "compiler": {
            "version": compiler.version,
            "machine": compiler.machine,
            "linker": compiler.linker,
            "libc": compiler.libc,
            "flags": list(compiler.all_flags),
        },
        "targets": [
            {"name": each.name, "triple": each.triple, "cpu": each.cpu, "flags": list(each.flags)}
            for each in (TARGETS[name] for name in spec.compilation.targets)
        ],
        "validationInputs": materials.validation_inputs,
        "confinement": materials.confinement.value,
    }


def _command(materials: Materials) -> str:
    # `spec.yaml` is the name of the package's copy of the spec.
    defines = [f"-D{key}={value}" for key, value in sorted(materials.spec.defines.items())]
    return shlex.join(["tfaot-pkg", "publish", "spec.yaml", *defines])


def _dependencies(materials: Materials) -> list[dict[str, object]]:
    return [
        *_source(materials.spec),
        {"name": "model", "digest": {TREE_DIGEST: materials.source}},
        *_files(materials),
        *_toolchain(materials.toolchain),
        *_frontend_lock(materials.spec.model.files.format),
    ]


def _frontend(wanted: Format) -> dict[str, object]:
    """What read the model beside the toolchain, and gave the answers that it was compared with."""
    if wanted not in FRONTENDS:
        return {}
    return {
        "frontend": {"format": wanted, "reference": FRONTENDS[wanted].reference, "identity": FRONTENDS[wanted].identity}
    }


def _frontend_lock(wanted: Format) -> list[dict[str, object]]:
    if wanted not in FRONTENDS:
        return []
    lock = FRONTENDS[wanted].requirements
    pinned: dict[str, object] = {"name": f"frontend-{lock.name}", "digest": {"sha256": sha256_file(lock)}}
    return [pinned, *map(_pin, pins_of(lock.read_text()))]


def _files(materials: Materials) -> list[dict[str, object]]:
    """The files beside spec and model. The tuning's digest is that of the package's copy."""
    inputs, tuning = materials.validation_inputs, materials.spec.tuning
    found: list[dict[str, object]] = []
    if tuning is not None:
        from tfaot_pkg.spec.tuning import PACKAGED, tuning_bytes  # reads YAML, which `show` must not wait for

        found.append({"name": f"tuning {PACKAGED}", "digest": {"sha256": sha256_bytes(tuning_bytes(tuning))}})
    if "sha256" in inputs:
        found.append({"name": f"validation inputs {inputs['file']}", "digest": {"sha256": inputs["sha256"]}})
    for key, name in DOCUMENTED.items():
        if digest := digest_in(inputs, key):
            file: Any = inputs[name]
            found.append({"name": f"{name} {file['file']}", "digest": {"sha256": digest}})
    return found


def _source(spec: ModelSpec) -> list[dict[str, object]]:
    """What was fetched; a folder of the builder's machine has no address, and is identified by its digest alone."""
    document: Any = spec_document(spec)["source"]
    match spec.source:
        case FolderSource():
            return []
        case ArchiveSource(sha256=sha256):
            return [{"name": "source", "uri": document["url"], "digest": {"sha256": sha256}}]
        case GitSource(revision=revision):
            return [{"name": "source", "uri": f"git+{document['git']}@{revision}", "digest": {"gitCommit": revision}}]


def _toolchain(facts: ToolchainFacts) -> list[dict[str, object]]:
    if not facts.toolchain.has_tensorflow:  # the front-end's packages, which stand beside it
        return []
    # Of the user's own TensorFlow nothing but the version is in the key (decision 014).
    if not facts.lock:
        return [{"name": "TensorFlow", "uri": f"pkg:pypi/{_TENSORFLOW}@{facts.toolchain.version}"}]
    lock: dict[str, object] = {"name": f"tensorflow-{facts.toolchain.version}.txt", "digest": {"sha256": facts.lock}}
    return [lock, *map(_pin, facts.pins)]


def _pin(pin: Pin) -> dict[str, object]:
    marker: dict[str, object] = {"annotations": {"marker": pin.marker}} if pin.marker else {}
    return {"name": pin.name, "uri": pin.purl, **marker}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a rebuild needs to know from a statement."""

    key: str
    tool: str
    spec: Mapping[str, Any]
    defines: Mapping[str, str]
    source: str
    """The digest of the model's files."""
    tensorflow: str
    """Its version; "" if none took part."""
    toolchain: str
    """The toolchain's identity."""
    pinned: bool
    compiler: Mapping[str, Any]
    validation_inputs: Mapping[str, Any]
    files: Mapping[str, str]
    """The package's other files: path to SHA-256."""


def read_statement(data: bytes, what: str) -> Recorded:
    """Read what `statement` wrote; `what` names the package. Raises TrustError if it is anything else."""
    try:
        document = read_json(data)
        # The types first: the fields of another predicate or build have other meanings.
        found = convert(_AnyStatement, document)
        if str(found) != f"{PREDICATE_TYPE} in a {STATEMENT_TYPE}":
            raise ValueError(f"it is a {found}")
        build = convert(_AnyPredicate, found.predicate, "$.predicate").buildDefinition.buildType
        if build != BUILD_TYPE:
            raise ValueError(f"it is of the build type {build}")
        return convert(_Statement, document).recorded()
    except ValueError as error:
        raise TrustError(
            f"this version cannot read the provenance of {what}: {error}",
            hint="upgrade tfaot-pkg; if that does not help, ask who published the package",
        ) from error


# The parts of the document that are read, with the names of its fields.


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnyStatement:
    _type: str
    predicateType: str  # noqa: N815
    predicate: object = None

    def __str__(self) -> str:
        return f"{self.predicateType} in a {self._type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnyDefinition:
    buildType: str  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnyPredicate:
    buildDefinition: _AnyDefinition  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class _Digested:
    """A file, or another resource."""

    name: str
    digest: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _External:
    spec: Mapping[str, Any]
    defines: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolchainUsed:
    identity: str
    pinned: bool
    tensorflow: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Internal:
    key: str
    toolchain: _ToolchainUsed
    compiler: Mapping[str, Any]
    validationInputs: Mapping[str, Any]  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    externalParameters: _External  # noqa: N815
    internalParameters: _Internal  # noqa: N815
    resolvedDependencies: tuple[_Digested, ...]  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class _Builder:
    version: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    builder: _Builder


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predicate:
    buildDefinition: _Definition  # noqa: N815
    runDetails: _Run  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    subject: tuple[_Digested, ...]
    predicate: _Predicate

    def recorded(self) -> Recorded:
        """Raises ValueError if a value without a type of its own is missing."""
        definition, version = self.predicate.buildDefinition, self.predicate.runDetails.builder.version
        external, internal = definition.externalParameters, definition.internalParameters
        model = next((each for each in definition.resolvedDependencies if each.name == "model"), None)
        if model is None or TREE_DIGEST not in model.digest:
            raise ValueError(f"no resolved dependency is the model with its {TREE_DIGEST}")
        if "tfaot-pkg" not in version:
            raise ValueError("$.predicate.runDetails.builder.version does not name tfaot-pkg")
        return Recorded(
            key=internal.key,
            tool=version["tfaot-pkg"],
            spec=external.spec,
            defines=external.defines,
            source=model.digest[TREE_DIGEST],
            tensorflow=internal.toolchain.tensorflow,
            toolchain=internal.toolchain.identity,
            pinned=internal.toolchain.pinned,
            compiler=internal.compiler,
            validation_inputs=internal.validationInputs,
            # The first subject is the tree, whose digest has another name.
            files={each.name: each.digest["sha256"] for each in self.subject if "sha256" in each.digest},
        )
