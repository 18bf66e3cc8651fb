"""The bill of materials of a package: CycloneDX 1.6, JSON.

What it lists is what is in the package: the model, its author's operations, TensorFlow if XLA generated code of the
library or parts of its runtime were linked, Eigen if one of those contains its code, functions of the compiler's own
library if they were linked, libstdc++ for the templates of its headers, and our own code. Licences are SPDX
expressions.
The library writes the document; we add `modelCard`, for which it has no class, and remove the time, which it adds.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.exception import CycloneDxException
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.contact import OrganizationalContact
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tfaot_pkg._version import __version__
from tfaot_pkg.frontends.toolchain.definition import KERNELS
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.provenance.materials import Made, Materials
from tfaot_pkg.verify.report import ValidationReport

_NAMESPACE = uuid.UUID("6f6c6f7a-2f0b-5d3e-9c55-0a3b6a1f7d10")
_APACHE, _MPL = "Apache-2.0", "MPL-2.0"
_GCC_RUNTIME = "GPL-3.0-or-later WITH GCC-exception-3.1"
_LIBGCC = "libgcc"
_PREFIX = "tfaot"
_UNSAFE_IN_URIS = re.compile(r"[\s<>\"{}|\\^`]")


def sbom(materials: Materials, made: Made) -> dict[str, object]:
    """The bill of materials of the package that `materials` were made into."""
    model = _model(materials)
    others = [
        _own_code(made),
        *_kernels(made),
        *_operations(materials, made),
        *_xla(materials, made),
        *_eigen(materials, made),
        _cpp_headers(materials),
        *_compiler_code(materials, made),
    ]
    package = _package(materials, made)
    # From the key, not random: equal packages must have equal documents (decision 014).
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, materials.key), components=[model, *others])
    bom.metadata.component = package
    bom.metadata.tools.components.add(
        Component(name="tfaot-pkg", version=__version__, type=ComponentType.APPLICATION, bom_ref="tool")
    )
    bom.register_dependency(package, [model, *others])
    for component in (model, *others):
        bom.register_dependency(component)
    return _finished(json.loads(JsonV1Dot6(bom).output_as_string()), made)


def _finished(document: dict[str, Any], made: Made) -> dict[str, object]:
    """`document` without its time, with the model's card, and in an order that no version of the library changes."""
    # A time would make every build differ (decision 014).
    del document["metadata"]["timestamp"]
    model = next(each for each in document["components"] if each["bom-ref"] == "model")
    model["modelCard"] = _model_card(made)
    ordered: dict[str, object] = json.loads(canonical_json(document))
    return ordered


def _package(materials: Materials, made: Made) -> Component:
    info = materials.spec.model
    files = [
        Component(
            name=path,
            type=ComponentType.FILE,
            bom_ref=f"file:{path}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        )
        for path, digest in sorted(made.binaries.items())
    ]
    return Component(
        name=info.package_name,
        version=info.version,
        type=ComponentType.LIBRARY,
        bom_ref="package",
        purl=PackageURL(type="conan", name=info.package_name, version=info.version),
        licenses=[_licence(info.license)] if info.license else [],
        description=info.description or None,
        components=files,
        properties=[_property("key", materials.key)],
    )


def _model(materials: Materials) -> Component:
    info = materials.spec.model
    return Component(
        name=info.name,
        version=info.version,
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref="model",
        scope=ComponentScope.REQUIRED,
        description=info.description or None,
        authors=[OrganizationalContact(name=info.author)] if info.author else [],
        licenses=[_licence(info.license)] if info.license else [],
        external_references=_homepage(info.homepage),
        properties=[
            _property("source-digest", materials.source),
            _property("signature", info.serving_key),
            _property("targets", " ".join(materials.spec.compilation.targets)),
            _property("batch-sizes", " ".join(map(str, materials.spec.compilation.batch_sizes))),
        ],
    )


def _homepage(address: str) -> list[ExternalReference]:
    # The spec takes any text, CycloneDX takes URIs only.
    if not address or _UNSAFE_IN_URIS.search(address):
        return []
    return [ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(address))]


def _own_code(made: Made) -> Component:
    return Component(
        name="tfaot",
        version=__version__,
        type=ComponentType.LIBRARY,
        bom_ref="tfaot",
        scope=ComponentScope.REQUIRED,
        description="The C ABI, its glue and the C++ headers, made by tfaot-pkg",
        licenses=[_licence(_APACHE)],
        properties=_linked(made, ours=True),
    )


def _kernels(made: Made) -> list[Component]:
    """The kernel library, if it computes layers of the program."""
    parts = sorted((part.target, part.source) for part in made.parts if part.source.startswith(KERNELS))
    if not parts:
        return []
    component = Component(
        name="tfaot-kernels",
        version=__version__,
        type=ComponentType.LIBRARY,
        bom_ref="tfaot-kernels",
        scope=ComponentScope.REQUIRED,
        description="Kernels that compute layers of the model",
        licenses=[_licence(_APACHE)],
        properties=[_property("linked-part", f"{source} ({target})") for target, source in parts],
    )
    return [component]


def _operations(materials: Materials, made: Made) -> list[Component]:
    """The operations that the program calls in code of the model's author, whose licence is the model's."""
    info = materials.spec.model
    return [
        Component(
            name=name,
            type=ComponentType.LIBRARY,
            bom_ref=f"operation:{name}",
            scope=ComponentScope.REQUIRED,
            description="An operation in C++ that the model's author supplies",
            authors=[OrganizationalContact(name=info.author)] if info.author else [],
            licenses=[_licence(info.license)] if info.license else [],
            properties=[_property("source", info.operations[name].source)],
        )
        for name in sorted(made.engine.called)
    ]


def _xla(materials: Materials, made: Made) -> list[Component]:
    """TensorFlow, if code that XLA generated or parts of its runtime are in the library: few programs have any."""
    parts, engine = _linked(made, ours=False), made.engine
    held = []
    if not engine.is_program:
        held.append("the code that XLA generated")
    elif engine.segments:
        computed = ", ".join(each.reason for each in engine.segments)
        held.append(f"the code that XLA generated for parts of the model ({computed})")
    if parts:
        held.append("parts of XLA's CPU runtime")
    if not held:
        return []
    version = materials.toolchain.toolchain.version
    told = " and ".join(held)
    component = Component(
        name="tensorflow",
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref="tensorflow",
        scope=ComponentScope.REQUIRED,
        purl=PackageURL(type="pypi", name="tensorflow-cpu", version=version),
        description=told[0].upper() + told[1:],
        licenses=[_licence(_APACHE)],
        properties=parts,
    )
    return [component]


def _linked(made: Made, *, ours: bool) -> list[Property]:
    """The parts of the runtime that were linked: this project's, or TensorFlow's."""
    return [
        _property("linked-part", f"{p.source} ({p.target})")
        for p in made.parts
        if p.ours == ours and not p.source.startswith(KERNELS)
    ]


def _eigen(materials: Materials, made: Made) -> list[Component]:
    if not any(part.eigen for part in made.parts):
        return []
    component = Component(
        name="eigen",
        version=materials.toolchain.toolchain.eigen or None,
        type=ComponentType.LIBRARY,
        bom_ref="eigen",
        scope=ComponentScope.REQUIRED,
        description="Inlined into parts of the runtime; only code under the MPL-2.0 (EIGEN_MPL2_ONLY)",
        licenses=[_licence(_MPL)],
    )
    return [component]


def _cpp_headers(materials: Materials) -> Component:
    """The C++ standard library: no product is linked with it, but all are compiled with templates of its headers."""
    return Component(
        name="libstdc++",
        version=_gcc_version(materials),
        type=ComponentType.LIBRARY,
        bom_ref="libstdc++",
        scope=ComponentScope.REQUIRED,
        description=f"Templates of its headers only; compiled by {materials.compiler.version}",
        licenses=[_licence(_GCC_RUNTIME)],
    )


def _compiler_code(materials: Materials, made: Made) -> list[Component]:
    """The archives of which the linker put something into the shared library or a program: the compiler's own library.

    A static library holds none of it: whoever links that adds what it needs.
    """
    held: dict[str, list[Property]] = {}
    for path, members in sorted(made.archives.items()):
        for member in members:
            held.setdefault(member.archive, []).append(_property("linked-member", f"{member.member} ({path})"))
    return [
        Component(
            # Version and licence are known for libgcc only; other archives are listed by name.
            name=_LIBGCC if archive == f"{_LIBGCC}.a" else archive,
            version=_gcc_version(materials) if archive == f"{_LIBGCC}.a" else None,
            type=ComponentType.LIBRARY,
            bom_ref=archive,
            scope=ComponentScope.REQUIRED,
            description=f"Linked by {materials.compiler.version}",
            licenses=[_licence(_GCC_RUNTIME)] if archive == f"{_LIBGCC}.a" else [],
            properties=properties,
        )
        for archive, properties in sorted(held.items())
    ]


def _gcc_version(materials: Materials) -> str | None:
    """GCC's; Clang uses the headers and the library of a GCC too, but does not say which."""
    found = re.search(r"\b\d+\.\d+\.\d+\b", materials.compiler.version) if materials.compiler.is_gcc else None
    return found.group() if found else None


def _licence(text: str) -> License:
    """An SPDX identifier or expression if `text` is one, else a licence of that name."""
    try:
        return LicenseFactory().make_from_string(text)
    except CycloneDxException:
        return LicenseFactory().make_with_name(text)


def _property(name: str, value: str) -> Property:
    return Property(name=f"{_PREFIX}:{name}", value=value)


def _model_card(made: Made) -> dict[str, object]:
    """CycloneDX 1.6, modelCard: what goes in and out, how far it is from TensorFlow, and what it does differently."""
    card: dict[str, object] = {
        "bom-ref": "model-card",
        "modelParameters": {
            "inputs": [{"format": str(tensor)} for tensor in made.signature.inputs],
            "outputs": [{"format": str(tensor)} for tensor in made.signature.outputs],
        },
        "quantitativeAnalysis": {"performanceMetrics": _metrics(made.report)},
    }
    if made.report.warnings:
        # Comparisons of several targets may give the same warning.
        card["considerations"] = {"technicalLimitations": list(dict.fromkeys(made.report.warnings))}
    return card


def _metrics(report: ValidationReport) -> list[dict[str, str]]:
    """The largest differences from TensorFlow's answers, by output."""
    metrics = []
    for output in sorted({comparison.output for comparison in report.comparisons}):
        mine = [comparison for comparison in report.comparisons if comparison.output == output]
        for name, values in (
            ("absolute", [c.max_absolute for c in mine]),
            ("relative", [c.max_relative for c in mine]),
        ):
            kind = f"largest {name} difference from {report.reference}"
            # `repr` is the shortest text that gives the same float again.
            metrics.append({"type": kind, "value": repr(max(values)), "slice": f"output {output}"})
    return metrics
