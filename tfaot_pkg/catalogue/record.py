"""A package's record in the catalogue's lists, and the words by which search finds it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfaot_pkg.catalogue.reading import DocumentReader, listed
from tfaot_pkg.ground.documents import convert
from tfaot_pkg.package.name import model_of
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry, newest
from tfaot_pkg.registry.reader import GRAPH, INFO
from tfaot_pkg.spec.rules import package_name

# Characters, and numbers of items: with these a leaf of 100 records stays small (tree.LEAF).
_DESCRIPTION, _LICENSE, _TARGETS, _WORDS, _WORD, _MORE = 160, 40, 8, 40, 24, 200
# So many descriptions have these words that they would find nothing, and take the place of others.
_STOP = frozenset("a an and are as at by for from in is it its of on or that the this to was with".split())


class Record(NamedTuple):
    """A package in a list: its best version (the newest if all are yanked), texts cut to the length of a row.

    As JSON it is a list of these fields, which site.js reads: names would double its size. `deprecated` and `yanked`
    are 0 or 1. `more` are further words by which it is found: shapes such as 28x28, kinds of layers, keywords.
    """

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

    @property
    def package(self) -> str:
        return package_name(self.model)

    @classmethod
    def parse(cls, value: object) -> Record:
        """The record in a JSON list. Raises ValueError."""
        return convert(cls, value)

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
        deprecated=int(deprecation is not None),
        yanked=int(shown.yanked is not None),
        framework=framework_of(info),
        more=_cut(" ".join([*_shapes(shown), *keywords_of(info), *_kin(info), *_layers(graph), *_names(shown)]), _MORE),
    )


_FRAMEWORKS = {
    "keras": "Keras",
    "onnx": "ONNX",
    "qonnx": "QONNX",
    "hls4ml": "hls4ml",
    "conifer": "conifer",
    "jax": "JAX",
    "mlir": "MLIR",
    "torch": "PyTorch",
    "aten": "PyTorch",
    "trees": "Trees",
}
"""By the field of a spec that names the model's files; all others are TensorFlow's."""
_TREES = ("XGBoost", "LightGBM", "scikit-learn", "TMVA")
_PRODUCERS = ("pytorch", "keras", "tf2onnx", "sklearn")
_LAYERS = re.compile(
    "lstm|gru|rnn|conv1d|conv2d|conv3d|attention|transformer|embedding|einsum|softmax|topk|gather|fft|while|"
    "layernormalization|batchnormalization",
    re.ASCII,
)


def framework_of(info: Mapping[str, Any]) -> str:
    """What made the model: of trees their library, which the package's origin names."""
    found = _FRAMEWORKS.get(str(info.get("model_format")), "TensorFlow")
    origin = str(info.get("origin"))
    return next((one for one in _TREES if one in origin), found) if found == "Trees" else found


def _kin(info: Mapping[str, Any]) -> list[str]:
    """Other words for what made the model, and the program that wrote its ONNX file."""
    kind, origin = str(info.get("model_format")), str(info.get("origin"))
    found = {
        "trees": ["trees", "bdt", "boosted"],
        "torch": ["torch"],
        "aten": ["torch"],
        "jax": ["stablehlo"],
        "qonnx": ["quantized"],
        "hls4ml": ["quantized", "fpga"],
        "conifer": ["trees", "bdt", "boosted", "quantized", "fpga"],
    }.get(kind, [])
    return found + [word for word in _PRODUCERS if kind == "onnx" and word in origin]


def _names(entry: RegistryEntry) -> list[str]:
    """Names of inputs and outputs that are words."""
    return [tensor.name for tensor in entry.signature.tensors[:_TARGETS] if re.fullmatch(r"[^\W\d]{4,24}", tensor.name)]


def _shapes(entry: RegistryEntry) -> list[str]:
    """The shapes of one row of each input and output, as people search for them: 1x28x28, and 28x28."""
    rows = [tensor.row_shape for tensor in entry.signature.tensors[:_TARGETS]]
    found = ("x".join(map(str, sizes)) for row in rows for sizes in (row, [size for size in row if size != 1]))
    return list(dict.fromkeys(filter(None, found)))


def keywords_of(info: Mapping[str, Any]) -> list[str]:
    return [str(word)[:_WORD] for word in listed(info.get("keywords"))[:_TARGETS]]


def _layers(document: Mapping[str, Any]) -> list[str]:
    """Kinds of layers that the graph's operations, or their names, tell of."""
    nodes = (node for node in listed(document.get("nodes")) if isinstance(node, dict))
    # Bounded: a publisher chose the names, and the pattern looks at every place of the text.
    text = " ".join(f"{node.get('name')} {node.get('op')}" for node in nodes)[:100_000]
    return sorted(set(_LAYERS.findall(text.casefold())))


def shown_entry(entries: Sequence[RegistryEntry]) -> RegistryEntry:
    """The version that a package's page describes: the best that is offered, or the last if all are yanked."""
    return newest([entry for entry in entries if entry.offered]) or newest(entries) or entries[-1]


def _cut(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"
