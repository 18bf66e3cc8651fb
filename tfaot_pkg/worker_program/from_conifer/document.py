"""The file that conifer's `save` and `write` make of decision trees: JSON. It is not trusted, and read as data."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from messages.fixed_network import FixedType
from messages.requests import ModelFault, one_line
from messages.wire import decoded

_MOST_BYTES = 1 << 30
_MOST_NODES = 1 << 24
_TYPE = re.compile(
    r"\s*ap_(?P<unsigned>u?)(?P<kind>fixed|int)\s*<\s*(?P<width>\d{1,4})\s*(?:,\s*(?P<integer>-?\d{1,4})\s*)?"
    r"(?:,\s*AP_(?P<rounding>[A-Z_]+)\s*)?(?:,\s*AP_(?P<overflow>[A-Z_]+)\s*)?(?:,\s*0\s*)?>\s*"
)
_BACKENDS = ("xilinxhls", "cpp")
_FIELDS = ("feature", "weight", "threshold", "value", "children_left", "children_right")
_LEAF = -2
"""In place of the feature of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precisions:
    """The types of inputs and what is compared, of thresholds, of weights of features, and of leaves and sums."""

    input: FixedType
    threshold: FixedType
    weight: FixedType
    score: FixedType


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Nodes by their fields in conifer; those of leaves have -1 in `left` and `right`."""

    weights: np.ndarray
    threshold: np.ndarray
    value: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @property
    def is_leaf(self) -> np.ndarray:
        return self.left < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """`trees` [tree][class], and what is done to their sums; those are made in a tree of additions if `is_unrolled`."""

    backend: str
    features: int
    classes: int
    is_strict: bool
    is_unrolled: bool
    initial: tuple[float, ...]
    norm: float
    precisions: Precisions
    texts: dict[str, str]
    trees: tuple[tuple[Tree, ...], ...]
    version: str


def opened(path: str) -> dict[str, Any]:
    """The document in the file. Raises ModelFault for anything else than JSON of conifer."""
    with open(path, "rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise _fault("it has more than 1 GiB")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _fault(one_line(error)) from error
    if not isinstance(found, dict) or "trees" not in found:
        raise _fault("it has no trees")
    return found


def ensemble_of(document: dict[str, Any]) -> Ensemble:
    """Raises ModelFault."""
    try:
        return _ensemble(document)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _fault(f"{type(error).__name__}: {error}") from error


def _ensemble(document: dict[str, Any]) -> Ensemble:
    config: dict[str, Any] = document.get("config") or {}
    backend = str(_first(config, "backend", "Backend") or "")
    if backend not in _BACKENDS:
        raise ModelFault(
            f"the trees are those of conifer's backend {_printable(backend)!r}",
            "convert them with the backend 'xilinxhls' or 'cpp', and save them: others have no C++ with AP types",
        )
    features, given = int(document["n_features"]), int(document["n_classes"])
    classes = 1 if given == 2 else given
    if not 1 <= features <= 1 << 16 or not 1 <= classes <= 1 << 12:
        raise ValueError(f"{features} features and {classes} classes")
    split = document["splitting_convention"]
    if split not in ("<", "<="):
        raise ValueError("a splitting convention that is neither < nor <=")
    initial = [_number(each) for each in _list(document["init_predict"])]
    trees = tuple(tuple(_tree(each, features) for each in _list(row)) for row in _list(document["trees"]))
    if not trees or any(len(row) != classes for row in trees) or len(initial) < classes:
        raise ValueError(f"not one tree and one initial prediction for each of {classes} classes")
    texts, precisions = _precisions(config)
    unrolled = _first(config, "unroll", "Unroll")
    metadata = document.get("metadata")
    return Ensemble(
        backend=backend, features=features, classes=classes, is_strict=split == "<",
        is_unrolled=backend == "xilinxhls" and (unrolled is None or bool(unrolled)),
        initial=tuple(initial[:classes]), norm=_number(document["norm"]), precisions=precisions, texts=texts,
        trees=trees,
        version=_printable(metadata[-1].get("version", "") if isinstance(metadata, list) and metadata else ""),
    )  # fmt: skip


def _tree(document: dict[str, Any], features: int) -> Tree:
    feature, weight, threshold, value, left, right = (_list(document[name]) for name in _FIELDS)
    count = len(feature)
    if not 1 <= count <= _MOST_NODES or any(len(each) != count for each in (threshold, value, left, right)):
        raise ValueError("a tree whose lists are of different lengths")
    # To fill trees up, conifer appends leaves without weights, below leaves of the same value.
    weight = weight + [[0] * features] * (count - len(weight))
    is_leaf = np.array([int(each) == _LEAF for each in feature])
    links = [np.where(is_leaf, -1, [_place(each, count) for each in side]) for side in (left, right)]
    if any((each[~is_leaf] < 0).any() for each in links):
        raise ValueError("a node without children that is no leaf")
    weights = np.array([[_number(each) for each in _list(row)] for row in weight], np.float64)
    if weights.shape != (count, features):
        raise ValueError("nodes without a weight for each feature")
    return Tree(
        weights=weights, threshold=np.array(list(map(_number, threshold))), value=np.array(list(map(_number, value))),
        left=links[0], right=links[1],
    )  # fmt: skip


def _precisions(config: dict[str, Any]) -> tuple[dict[str, str], Precisions]:
    """As MultiPrecisionConfig of conifer: what is missing is the precision of another one."""
    common = _first(config, "precision", "Precision")
    given = _first(config, "input_precision", "InputPrecision") or common
    threshold = _first(config, "threshold_precision", "ThresholdPrecision") or given
    texts = {
        "input": given,
        "threshold": threshold,
        "weight": _first(config, "weight_precision", "WeightPrecision") or threshold,
        "score": _first(config, "score_precision", "ScorePrecision") or common,
    }
    return {k: str(v) for k, v in texts.items()}, Precisions(**{k: _type(v) for k, v in texts.items()})


def _type(text: object) -> FixedType:
    found = _TYPE.fullmatch(str(text))
    if found is None or (found["kind"] == "fixed") != bool(found["integer"]):
        raise ModelFault(
            f"the trees have numbers of the type {_printable(text)!r}",
            "choose ap_fixed<...> for all precisions of conifer's configuration; trees of floats are read from the "
            "file of the library that made them",
        )
    width, is_whole = int(found["width"]), found["kind"] == "int"
    if is_whole and (found["rounding"] or found["overflow"]):
        raise ValueError(f"the type {_printable(text)}")
    made = {
        "width": width, "integer": width if is_whole else int(found["integer"]), "signed": not found["unsigned"],
        "rounding": "TRN_ZERO" if is_whole else found["rounding"] or "TRN", "overflow": found["overflow"] or "WRAP",
        "binary": False, "whole": is_whole,
    }  # fmt: skip
    return decoded(FixedType, made, "type")


def _first(config: dict[str, Any], *names: str) -> object:
    return next((config[name] for name in names if config.get(name) is not None), None)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a value in place of a list")
    return value


def _place(value: object, count: int) -> int:
    if type(value) is not int or not -1 <= value < count:
        raise ValueError("a child that does not exist")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("a number that is none")
    return float(value)


def _printable(text: object) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", str(text))[:40]


def _fault(why: str) -> ModelFault:
    return ModelFault(
        "the file of conifer cannot be read: " + " ".join(why.split())[:300], "write it again: model.save(FILE)"
    )
