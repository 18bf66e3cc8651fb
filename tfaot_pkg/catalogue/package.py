"""One package in the catalogue: its record in lists, and its page.

Publishers wrote the documents: parts that do not have the expected form are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfaot_pkg.catalogue.card import badges_of, card_of
from tfaot_pkg.catalogue.difference import Version, difference
from tfaot_pkg.catalogue.drawing import Drawing, GraphNode, draw, latency_plot, nodes_of_document, nodes_of_signature
from tfaot_pkg.catalogue.snippets import UNKNOWN_ADDRESS, Registry, called_of, snippets
from tfaot_pkg.documents import convert, is_number, read_json
from tfaot_pkg.errors import TfaotError
from tfaot_pkg.package.name import model_of
from tfaot_pkg.registry.entry import BlobRef, Deprecation, RegistryEntry, newest
from tfaot_pkg.registry.reader import GRAPH, INFO, PROVENANCE, SBOM, VALIDATION, RegistryReader
from tfaot_pkg.spec.rules import package_name
from tfaot_pkg.static.layout import BENCH, LATENCY, PREFIX, blob_path

_DESCRIPTION, _LICENSE, _TARGETS, _WORDS, _WORD, _MORE = 160, 40, 8, 40, 24, 200
_STOP = frozenset("a an and are as at by for from in is it its of on or that the this to was with".split())


DocumentReader = Callable[[RegistryEntry, str], Mapping[str, Any] | None]


class _Row(NamedTuple):
    """A record in the JSON form, by position."""

    model: str
    version: str
    description: str
    license: str
    toolchain: str
    targets: tuple[str, ...]
    published: str
    deprecated: int
    yanked: int
    framework: str
    more: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A package in a list: its best version (the newest if all are yanked), texts cut to the length of a row.

    `more` are further words by which it is found: shapes such as 28x28, kinds of layers, keywords.
    """

    model: str
    version: str
    description: str
    license: str
    toolchain: str
    targets: tuple[str, ...]
    published: str
    deprecated: bool
    yanked: bool
    framework: str
    more: str

    @property
    def package(self) -> str:
        return package_name(self.model)

    def as_list(self) -> list[object]:
        """The JSON form, in the order of the fields: site.js reads it. A list, because names would double its size."""
        flags = [int(self.deprecated), int(self.yanked)]
        head = [self.model, self.version, self.description, self.license, self.toolchain]
        return [*head, list(self.targets), self.published, *flags, self.framework, self.more]

    @classmethod
    def from_list(cls, value: object) -> Record:
        """The record in a list of `as_list`. Raises ValueError."""
        row = convert(_Row, value)
        flags = {"deprecated": bool(row.deprecated), "yanked": bool(row.yanked)}
        return cls(**{**row._asdict(), **flags})

    def words(self) -> tuple[str, ...]:
        """The words under which search finds the package, from all texts of the record: at most 40, sorted."""
        found: dict[str, None] = {}
        # Of too many words the first are kept: those of the name, then of the licence.
        # With and without underscores: people search for either.
        names = f"{self.model} {self.model.replace('_', ' ')}"
        for word in _words_of(f"{names} {self.license} {self.framework} {self.more} {self.description}"):
            if word not in _STOP:
                found.setdefault(word)
        return tuple(sorted(list(found)[:_WORDS]))


def _words_of(text: str) -> list[str]:
    return [word[:_WORD] for word in re.findall(r"\w+", text.casefold())]


def record_of(entries: Sequence[RegistryEntry], deprecation: Deprecation | None, read: DocumentReader) -> Record:
    """The record of a package with these versions (at least one)."""
    shown = shown_entry(entries)
    info, graph = read(shown, INFO) or {}, read(shown, GRAPH) or {}
    return Record(
        model=model_of(shown.name),
        version=shown.version,
        description=_cut(shown.description, _DESCRIPTION),
        license=_cut(shown.license, _LICENSE),
        toolchain=_cut(shown.toolchain, _LICENSE),
        targets=tuple(_cut(target, _LICENSE) for target in shown.targets[:_TARGETS]),
        published=shown.published[:20],
        deprecated=deprecation is not None,
        yanked=shown.yanked is not None,
        framework=_framework(info),
        more=_cut(" ".join([*_shapes(shown), *_keywords(info), *_kin(info), *_layers(graph), *_names(shown)]), _MORE),
    )


_FRAMEWORKS = {"keras": "Keras", "onnx": "ONNX", "jax": "JAX", "mlir": "MLIR", "torch": "PyTorch", "trees": "Trees"}
"""By the field of a spec that names the model's files; all others are TensorFlow's."""
_TREES = ("XGBoost", "LightGBM", "scikit-learn", "TMVA")
_PRODUCERS = ("pytorch", "keras", "tf2onnx", "sklearn")
_LAYERS = re.compile(
    "lstm|gru|rnn|conv1d|conv2d|conv3d|attention|transformer|embedding|einsum|softmax|topk|gather|fft|while|"
    "layernormalization|batchnormalization",
    re.ASCII,
)


def _framework(info: Mapping[str, Any]) -> str:
    """What made the model: of trees their library, which the package's origin names."""
    found = _FRAMEWORKS.get(str(info.get("model_format")), "TensorFlow")
    origin = str(info.get("origin"))
    return next((one for one in _TREES if one in origin), found) if found == "Trees" else found


def _kin(info: Mapping[str, Any]) -> list[str]:
    """Other words for what made the model, and the program that wrote its ONNX file."""
    kind, origin = str(info.get("model_format")), str(info.get("origin"))
    found = {"trees": ["trees", "bdt", "boosted"], "torch": ["torch"], "jax": ["stablehlo"]}.get(kind, [])
    return found + [word for word in _PRODUCERS if kind == "onnx" and word in origin]


def _names(entry: RegistryEntry) -> list[str]:
    """Names of inputs and outputs that are words."""
    return [tensor.name for tensor in entry.signature.tensors[:_TARGETS] if re.fullmatch(r"[^\W\d]{4,24}", tensor.name)]


def _shapes(entry: RegistryEntry) -> list[str]:
    """The shapes of one row of each input and output, as people search for them: 1x28x28, and 28x28."""
    rows = [tensor.row_shape for tensor in entry.signature.tensors[:_TARGETS]]
    found = ("x".join(map(str, sizes)) for row in rows for sizes in (row, [size for size in row if size != 1]))
    return list(dict.fromkeys(filter(None, found)))


def _keywords(info: Mapping[str, Any]) -> list[str]:
    return [str(word)[:_WORD] for word in _list(info.get("keywords"))[:_TARGETS]]


def _layers(document: Mapping[str, Any]) -> list[str]:
    """Kinds of layers that the graph's operations, or their names, tell of."""
    nodes = (node for node in _list(document.get("nodes")) if isinstance(node, dict))
    # Bounded: a publisher chose the names, and the pattern looks at every place of the text.
    text = " ".join(f"{node.get('name')} {node.get('op')}" for node in nodes)[:100_000]
    return sorted(set(_LAYERS.findall(text.casefold())))


def shown_entry(entries: Sequence[RegistryEntry]) -> RegistryEntry:
    """The version that a package's page describes: the best one, or the last if all are yanked."""
    return newest(entries) or entries[-1]


def _cut(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


_LARGEST_DOCUMENT = 4 << 20
_LONGEST_EDGES = 60_000  # characters; a drawing with more edges shows nothing, and its page would exceed 200 KB
_ROWS, _NOTES, _CELLS = 30, 12, 8
_LINE, _TEXT = 60, 1500
"""Rows of a table and characters of a text at most: a page stays below 200 KB whatever a publisher wrote."""


def document_reader(reader: RegistryReader) -> DocumentReader:
    """Reads the JSON document of an entry with a role; None if it is missing or cannot be read."""

    def read(entry: RegistryEntry, role: str) -> Mapping[str, Any] | None:
        blob = entry.blobs.get(role)
        if blob is None or blob.size > _LARGEST_DOCUMENT:
            return None
        try:
            with reader.open_blob(blob) as file:
                # A publisher chose this text: deeply nested JSON exceeds Python's recursion limit.
                document = read_json(file.read())
        except (TfaotError, ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    return read


def pages_of(entries: Sequence[RegistryEntry]) -> list[RegistryEntry]:
    """The versions that have pages of their own: the newest ones, but not the one that the package's page describes."""
    shown = shown_entry(entries).version
    return [entry for entry in entries[-_ROWS:] if entry.version != shown]


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
    place = [entry.version for entry in entries].index(shown.version)
    before = entries[place - 1] if place else None
    report, info = read(shown, VALIDATION) or {}, read(shown, INFO) or {}
    latency, engines = latency_of(read(shown, LATENCY) or {}), engines_of(read(shown, BENCH) or {})
    return {
        "package": package,
        "entry": shown,
        "offered": offered.version,
        "pages": {entry.version for entry in pages_of(entries)},
        "before": before.version if before else "",
        "changes": difference(_version(before, read), _version(shown, read)) if before else (),
        "description": _text(shown.description, _TEXT),
        "deprecation": deprecation,
        "reason": _text(deprecation.reason, 300) if deprecation else "",
        "use": deprecation.use if deprecation else "",
        "all_yanked": offered.yanked is not None,
        "versions": list(reversed(entries))[:_ROWS],
        "more_versions": max(0, len(entries) - _ROWS),
        "archive": PREFIX,
        "parts": _parts(shown, info),
        "more_parts": max(0, len(called_of(shown, info)) - _NOTES),
        "snippets": snippets(
            shown, registry, info, _dict(report.get("example")), reference=_text(report.get("reference"))
        ),
        "card": card_of(shown, info),
        "framework": _framework(info) if info else "",
        "keywords": _keywords(info),
        "badges": badges_of(shown, info, is_signed=bool(registry.fingerprint)),
        "registry": registry,
        "unknown": UNKNOWN_ADDRESS,
        "blobs": [(role, blob, link(blob)) for role, blob in sorted(shown.blobs.items())],
        "validation": _validation(report),
        "provenance": _provenance(read(shown, PROVENANCE)),
        "sbom": _sbom(read(shown, SBOM)),
        "drawing": _drawing(shown, read(shown, GRAPH)),
        "latency": latency,
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
    validation, latency, graph = (read(entry, role) or {} for role in (VALIDATION, LATENCY, GRAPH))
    return Version(entry=entry, validation=validation, latency=latency, graph=graph)


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
            nodes = nodes_of_document(document)
        except (ValueError, OverflowError):
            nodes = ()
    drawing = draw(nodes) if nodes else None
    if drawing is None or sum(map(len, drawing.edges)) > _LONGEST_EDGES:
        return draw(nodes_of_signature(entry.signature, entry.model))
    return drawing


def _validation(document: Mapping[str, Any]) -> dict[str, object] | None:
    if not document:
        return None
    rows = [row for row in _list(document.get("comparisons")) if isinstance(row, dict)]
    numbers = ("batch_size", "elements", "failures", "max_absolute", "max_relative")
    rows = [row for row in rows if all(isinstance(row.get(name), int | float) for name in numbers)]
    return {
        "passed": document.get("passed") is True,
        "reference": _text(document.get("reference")),
        "rtol": _text(document.get("rtol")),
        "atol": _text(document.get("atol")),
        "rows": [
            {
                **{name: _number(row[name]) for name in numbers},
                "target": _text(row.get("target")),
                "output": _text(row.get("output")),
            }
            for row in rows[:_ROWS]
        ],
        "count": len(rows),
        "targets": [(_text(name), _text(how)) for name, how in [*_dict(document.get("targets")).items()][:_NOTES]],
        "not_run": [_text(item) for item in _list(document.get("not_run"))[:_NOTES]],
        "warnings": [_text(item, 160) for item in _list(document.get("warnings"))[:_NOTES]],
    }


def _provenance(document: Mapping[str, Any] | None) -> dict[str, object] | None:
    """The lines of a SLSA statement that people ask for."""
    if document is None:
        return None
    definition = _dict(_dict(document.get("predicate")).get("buildDefinition"))
    details = _dict(_dict(document.get("predicate")).get("runDetails"))
    internal = _dict(definition.get("internalParameters"))
    toolchain, compiler = _dict(internal.get("toolchain")), _dict(internal.get("compiler"))
    rows = {
        "Builder": _dict(details.get("builder")).get("id"),
        "TensorFlow": toolchain.get("tensorflow"),
        "XLA flags": " ".join(map(_text, _list(toolchain.get("xlaFlags"))[:_NOTES])),
        "Compiler": compiler.get("version"),
        "Machine": compiler.get("machine"),
    }
    command = internal.get("command")
    return {
        "rows": [(name, _text(value, 300)) for name, value in rows.items() if value],
        "command": _text(" ".join(map(_text, command[:_ROWS])) if isinstance(command, list) else command, 1000),
        "sources": [
            (
                _text(item.get("name") or item.get("uri")),
                _text(" ".join(f"{k}:{v}" for k, v in _dict(item.get("digest")).items()), 100),
            )
            for item in _list(definition.get("resolvedDependencies"))[:8]
            if isinstance(item, dict)
        ],
        "source_count": len(_list(definition.get("resolvedDependencies"))),
    }


def _sbom(document: Mapping[str, Any] | None) -> dict[str, object] | None:
    if document is None:
        return None
    found = [item for item in _list(document.get("components")) if isinstance(item, dict)]
    rows = [
        {
            "name": _text(item.get("name")),
            "version": _text(item.get("version")),
            "type": _text(item.get("type")),
            "licenses": ", ".join(filter(None, map(_licence, _list(item.get("licenses"))[:3]))),
        }
        for item in found[:_ROWS]
    ]
    return {"rows": rows, "count": len(found)}


def _licence(item: object) -> str:
    """Of a CycloneDX `licenses` item."""
    one = _dict(item)
    inner = _dict(one.get("license"))
    return _text(one.get("expression") or inner.get("id") or inner.get("name"))


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
    rows = [row for row in _list(document.get("measurements"))[:_ROWS] if isinstance(row, dict)]
    spreads = sorted(row["spread"] for row in rows if is_number(row.get("spread")))
    load, cpus = document.get("load"), document.get("cpus")
    return Measured(
        rows=tuple(
            (_text(row.get("target"), 40), round(row["batch_size"]), float(row["nanoseconds"]))
            for row in rows
            if _is_measurement(row)
        ),
        processor=_text(document.get("processor")),
        date=_text(document.get("date"), 10),
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
    """The measurements beside other engines that a package was published with (bench/results.py)."""
    found = []
    for each in map(_dict, _list(document.get("engines"))[:_NOTES]):
        rows = _times(each)
        if rows:
            title, version = _text(each.get("title"), 40), _text(each.get("version"), 40)
            found.append(Engine(title=title, version=version, is_ours=each.get("is_ours") is True, times=rows))
    sizes = sorted({size for one in found for size in one.times})[:_CELLS]
    # The mean of logarithms: no batch size counts more than another one.
    common = [size for size in sizes if all(size in one.times for one in found)]
    found.sort(key=lambda one: sum(math.log(one.times[size]) for size in common))
    load = document.get("load")
    return Engines(
        found=tuple(found),
        sizes=tuple(sizes),
        processor=_text(document.get("processor")),
        date=_text(document.get("date"), 10),
        load=float(load) if is_number(load) else None,
    )


def _times(document: Mapping[str, Any]) -> dict[int, float]:
    """Nanoseconds of a call by batch size."""
    rows = map(_dict, _list(document.get("measurements"))[:_ROWS])
    return {round(row["batch_size"]): float(row["nanoseconds"]) for row in rows if _is_measurement(row)}


def _is_measurement(row: Mapping[str, Any]) -> bool:
    """The bounds exclude what overflows the axis of a plot."""
    return (
        all(is_number(row.get(name)) and row[name] < 1e15 for name in ("batch_size", "nanoseconds"))
        and row["batch_size"] >= 1
        and row["nanoseconds"] > 1e-3
    )


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _text(value: object, length: int = _LINE) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= length else text[: length - 1] + "…"
