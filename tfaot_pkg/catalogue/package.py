"""A package's page in the catalogue. Publishers wrote the documents (reading.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfaot_pkg.catalogue.card import badges_of, card_of
from tfaot_pkg.catalogue.difference import Version, difference
from tfaot_pkg.catalogue.plot import latency_plot
from tfaot_pkg.catalogue.reading import DocumentReader, listed, mapped, measurements_of, text_of
from tfaot_pkg.catalogue.record import framework_of, keywords_of, shown_entry
from tfaot_pkg.catalogue.snippets import UNKNOWN_ADDRESS, Registry, called_of, snippets
from tfaot_pkg.ground import reduced
from tfaot_pkg.ground.documents import is_number
from tfaot_pkg.ground.wording import AUTHORED
from tfaot_pkg.package.drawing import Drawing, GraphNode, draw, nodes_of_document, nodes_of_signature
from tfaot_pkg.registry.entry import BlobRef, Deprecation, RegistryEntry
from tfaot_pkg.registry.files.layout import BENCH, LATENCY, PREFIX, blob_path
from tfaot_pkg.registry.reader import GRAPH, INFO, PROVENANCE, SBOM, VALIDATION
from tfaot_pkg.spec.rules import model_version

_LONGEST_EDGES = 60_000  # characters; a drawing with more edges shows nothing, and its page would exceed 200 KB
_ROWS, _NOTES, _CELLS = 30, 12, 8
_TEXT = 1500
"""Rows of a table and characters of a text at most: a page stays below 200 KB whatever a publisher wrote."""


_PAGE = 40_000
"""Bytes that a page takes, nearly always less: 22,000 to 35,000 for packages with all documents."""
_MOST_TIMES = 3


def pages_of(entries: Sequence[RegistryEntry]) -> dict[str, RegistryEntry]:
    """The builds that have pages of their own, by the model's version: its newest one, for the newest versions.

    Not of the version that the package's page describes, and no more than take `_MOST_TIMES` the package's own size.
    """
    shown, builds = model_version(shown_entry(entries).version), dict[str, RegistryEntry]()
    for entry in entries[-_ROWS:]:
        if entry.yanked is None or model_version(entry.version) not in builds:
            builds[model_version(entry.version)] = entry
    builds.pop(shown, None)
    size = sum(blob.size for entry in entries for tree in entry.trees for blob in tree.blobs.values())
    most = max(0, _MOST_TIMES * size // _PAGE - 1)  # besides the package's own page
    return dict(list(builds.items())[-most:]) if most else {}


def page_context(
    package: str,
    entries: Sequence[RegistryEntry],
    deprecation: Deprecation | None,
    read: DocumentReader,
    link: Callable[[BlobRef], str],
    registry: Registry,
    shown: RegistryEntry | None = None,
) -> dict[str, object]:
    """The variables of package.html, about the version `shown` (the one that is offered, without it).

    `link` gives a blob's address, "" if the page cannot reach it.
    """
    offered = shown_entry(entries)
    shown = shown or offered
    # Compared with the version below it, not with the one that was published before: a fix of 1.2 may follow 2.0.
    place = [entry.version for entry in entries].index(shown.version)
    before = entries[place - 1] if place else None
    report, info = read(shown, VALIDATION) or {}, read(shown, INFO) or {}
    latency, engines = latency_of(read(shown, LATENCY) or {}), engines_of(read(shown, BENCH) or {})
    return {
        "package": package,
        "entry": shown,
        "offered": offered.version,
        "pages": {entry.version: version for version, entry in pages_of(entries).items()},
        "before": before.version if before else "",
        "changes": difference(_version(before, read), _version(shown, read)) if before else (),
        "description": text_of(shown.description, _TEXT),
        "deprecation": deprecation,
        "reason": text_of(deprecation.reason, 300) if deprecation else "",
        "use": deprecation.use if deprecation else "",
        "all_yanked": offered.yanked is not None,
        "versions": list(reversed(entries))[:_ROWS],
        "more_versions": max(0, len(entries) - _ROWS),
        "archive": PREFIX,
        "parts": _parts(shown, info),
        "more_parts": max(0, len(called_of(shown, info)) - _NOTES),
        "snippets": snippets(
            shown, registry, info, mapped(report.get("example")), reference=text_of(report.get("reference"))
        ),
        "card": card_of(shown, info),
        "framework": framework_of(info) if info else "",
        "keywords": keywords_of(info),
        "badges": badges_of(shown, info, is_signed=bool(registry.fingerprint)),
        "registry": registry,
        "unknown": UNKNOWN_ADDRESS,
        "blobs": [(role, blob, link(blob)) for role, blob in sorted(shown.blobs.items())],
        "validation": _validation(report),
        "provenance": _provenance(read(shown, PROVENANCE)),
        "sbom": _sbom(read(shown, SBOM)),
        "drawing": _drawing(shown, read(shown, GRAPH)),
        "latency": latency,
        "gains": reduced.gains_told_by(read(shown, LATENCY) or {}),
        # Lines of two machines in one plot would be read as a difference of the engines.
        "plot": latency_plot(latency.rows, engines.line if engines.processor == latency.processor else ()),
        "engines": engines,
    }


def _parts(entry: RegistryEntry, info: Mapping[str, Any]) -> list[dict[str, object]]:
    """The signatures with their tables: (title, the tensors that are shown, how many there are)."""
    several = called_of(entry, info)[:_NOTES]
    whole = [("", "", entry.signature)]
    most = _NOTES if several else _ROWS
    return [
        {
            "name": name,
            "cpp_class": cpp_class,
            "tables": [
                ("Inputs", signature.inputs[:most], len(signature.inputs)),
                ("Outputs", signature.outputs[:most], len(signature.outputs)),
            ],
        }
        for name, cpp_class, signature in [(one.name, one.cpp_class, one.signature) for one in several] or whole
    ]


def _version(entry: RegistryEntry, read: DocumentReader) -> Version:
    roles = (VALIDATION, LATENCY, GRAPH, PROVENANCE)
    validation, latency, graph, provenance = (read(entry, role) or {} for role in roles)
    return Version(entry=entry, validation=validation, latency=latency, graph=graph, provenance=provenance)


def blob_link(base: str | None, download: str) -> Callable[[BlobRef], str]:
    """Addresses of blobs by the registry's download template; `base` is the way to the registry, None without one."""

    def link(blob: BlobRef) -> str:
        path = blob_path(blob.sha256, download)
        if "://" in path:
            # A registry's template can have any scheme, javascript: included: only these become links.
            return path if path.startswith(("https://", "http://")) else ""
        return "" if base is None else base + path

    return link


def _drawing(entry: RegistryEntry, document: Mapping[str, Any] | None) -> Drawing:
    nodes: Sequence[GraphNode] = ()
    if document is not None:
        try:
            nodes = nodes_of_document(document, entry.signature)
        except (ValueError, OverflowError):
            nodes = ()
    drawing = draw(nodes) if nodes else None
    if drawing is None or sum(map(len, drawing.edges)) > _LONGEST_EDGES:
        return draw(nodes_of_signature(entry.signature, entry.model))
    return drawing


def _validation(document: Mapping[str, Any]) -> dict[str, object] | None:
    if not document:
        return None
    rows = [row for row in listed(document.get("comparisons")) if isinstance(row, dict)]
    numbers = ("batch_size", "elements", "failures", "max_absolute", "max_relative")
    rows = [row for row in rows if all(isinstance(row.get(name), int | float) for name in numbers)]
    return {
        "passed": document.get("passed") is True,
        "reference": text_of(document.get("reference")),
        "contains": ", ".join(text_of(name) for name in listed(document.get(AUTHORED))[:_NOTES]),
        "precision": reduced.told_by(document),
        "errors": _errors(document),
        "rtol": text_of(document.get("rtol")),
        "atol": text_of(document.get("atol")),
        "rows": [
            {
                **{name: _number(row[name]) for name in numbers},
                "target": text_of(row.get("target")),
                "output": text_of(row.get("output")),
            }
            for row in rows[:_ROWS]
        ],
        "count": len(rows),
        "worst": _worst(rows),
        "targets": [(text_of(name), text_of(how)) for name, how in [*mapped(document.get("targets")).items()][:_NOTES]],
        "not_run": [text_of(item) for item in listed(document.get("not_run"))[:_NOTES]],
        "warnings": [text_of(item, 160) for item in listed(document.get("warnings"))[:_NOTES]],
    }


_ERRORS = ("largest", "mean")


def _errors(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """The errors on the main inputs, if the spec has bars: of each output on the target with the largest one."""
    rows = [row for row in map(mapped, listed(document.get("accuracy"))) if all(is_number(row.get(n)) for n in _ERRORS)]
    found: dict[str, Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: float(row["largest"])):
        found[text_of(row.get("output"))] = row
    return [
        {
            "output": output,
            **{name: _number(float(row[name])) for name in _ERRORS},
            "quantiles": ", ".join(
                f"{text_of(name, 12)}: {_number(float(error))}"
                for name, error in [*mapped(row.get("quantiles")).items()][:_NOTES]
                if is_number(error)
            ),
            "argmax": f"{100 * row['argmax']:.5g} %" if is_number(row.get("argmax")) else "",
            "tasks": ", ".join(
                f"{text_of(each.get('name'), 80)} {each['ours']:.6g} (float32 {each['theirs']:.6g})"
                for each in map(mapped, listed(row.get("tasks"))[:_NOTES])
                if is_number(each.get("ours")) and is_number(each.get("theirs"))
            ),
        }
        for output, row in [*found.items()][:_NOTES]
    ]


def _worst(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """For each output, over all targets and batch sizes: how many comparisons, and the largest differences."""
    by_output: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_output.setdefault(text_of(row.get("output")), []).append(row)
    return [
        {
            "output": output,
            "count": len(of_it),
            **{name: _number(max(row[name] for row in of_it)) for name in ("max_absolute", "max_relative")},
            "failures": _number(sum(row["failures"] for row in of_it)),
        }
        for output, of_it in [*by_output.items()][:_NOTES]
    ]


def _provenance(document: Mapping[str, Any] | None) -> dict[str, object] | None:
    """The lines of a SLSA statement that people ask for."""
    if document is None:
        return None
    definition = mapped(mapped(document.get("predicate")).get("buildDefinition"))
    details = mapped(mapped(document.get("predicate")).get("runDetails"))
    internal = mapped(definition.get("internalParameters"))
    toolchain, compiler = mapped(internal.get("toolchain")), mapped(internal.get("compiler"))
    rows = {
        "Builder": mapped(details.get("builder")).get("id"),
        "TensorFlow": toolchain.get("tensorflow"),
        "XLA flags": " ".join(map(text_of, listed(toolchain.get("xlaFlags"))[:_NOTES])),
        "Compiler": compiler.get("version"),
        "Machine": compiler.get("machine"),
    }
    command = internal.get("command")
    return {
        "rows": [(name, text_of(value, 300)) for name, value in rows.items() if value],
        "command": text_of(" ".join(map(text_of, command[:_ROWS])) if isinstance(command, list) else command, 1000),
        "sources": [
            (
                text_of(item.get("name") or item.get("uri")),
                text_of(" ".join(f"{k}:{v}" for k, v in mapped(item.get("digest")).items()), 100),
            )
            for item in listed(definition.get("resolvedDependencies"))[:8]
            if isinstance(item, dict)
        ],
        "source_count": len(listed(definition.get("resolvedDependencies"))),
    }


def _sbom(document: Mapping[str, Any] | None) -> dict[str, object] | None:
    if document is None:
        return None
    found = [item for item in listed(document.get("components")) if isinstance(item, dict)]
    rows = [
        {
            "name": text_of(item.get("name")),
            "version": text_of(item.get("version")),
            "type": text_of(item.get("type")),
            "licenses": ", ".join(filter(None, map(_licence, listed(item.get("licenses"))[:3]))),
        }
        for item in found[:_ROWS]
    ]
    return {"rows": rows, "count": len(found)}


def _licence(item: object) -> str:
    """Of a CycloneDX `licenses` item."""
    one = mapped(item)
    inner = mapped(one.get("license"))
    return text_of(one.get("expression") or inner.get("id") or inner.get("name"))


_NOISY = 0.1
"""The median relative spread of a measurement's rounds from which on it is marked: on calm machines it is below 3 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Nanoseconds of a call by target and batch size, and what is known of the machine: "" or None if it is not."""

    rows: tuple[tuple[str, int, float], ...]
    processor: str
    date: str
    load: float | None
    is_noisy: bool


def latency_of(document: Mapping[str, Any]) -> Measured:
    """The measurements that a package was published with (verify/latency.py)."""
    rows = [row for row in listed(document.get("measurements"))[:_ROWS] if isinstance(row, dict)]
    spreads = sorted(row["spread"] for row in rows if is_number(row.get("spread")))
    load, cpus = document.get("load"), document.get("cpus")
    return Measured(
        rows=tuple(measurements_of(document)),
        processor=text_of(document.get("processor")),
        date=text_of(document.get("date"), 10),
        load=float(load) if is_number(load) else None,
        is_noisy=(bool(spreads) and spreads[len(spreads) // 2] > _NOISY)
        or (is_number(load) and is_number(cpus) and load > cpus),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Nanoseconds of a call by batch size, in an engine."""

    title: str
    version: str
    is_ours: bool
    times: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """What `bench` measured, the fastest first; `sizes` are the batch sizes that are shown."""

    found: tuple[Engine, ...]
    sizes: tuple[int, ...]
    processor: str
    date: str
    load: float | None

    @property
    def line(self) -> tuple[tuple[str, int, float], ...]:
        """The rows of a plot for the best engine that is not ours."""
        best = next((one for one in self.found if not one.is_ours), None)
        return tuple((best.title, size, best.times[size]) for size in sorted(best.times)) if best else ()


def engines_of(document: Mapping[str, Any]) -> Engines:
    """The measurements beside other engines that a package was published with (measure/bench/results.py)."""
    found = []
    for each in map(mapped, listed(document.get("engines"))[:_NOTES]):
        rows = {size: time for _, size, time in measurements_of(each)}
        if rows:
            title, version = text_of(each.get("title"), 40), text_of(each.get("version"), 40)
            found.append(Engine(title=title, version=version, is_ours=each.get("is_ours") is True, times=rows))
    sizes = sorted({size for one in found for size in one.times})[:_CELLS]
    # The mean of logarithms: no batch size counts more than another one.
    common = [size for size in sizes if all(size in one.times for one in found)]
    found.sort(key=lambda one: sum(math.log(one.times[size]) for size in common))
    load = document.get("load")
    return Engines(
        found=tuple(found),
        sizes=tuple(sizes),
        processor=text_of(document.get("processor")),
        date=text_of(document.get("date"), 10),
        load=float(load) if is_number(load) else None,
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
