"""Describe decision trees of conifer, and write them as integers: a network of one layer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from from_conifer.document import Ensemble, ensemble_of, opened
from messages import elements
from messages.fixed_network import NETWORK, NUMBERS, FixedLayer, FixedNetwork, FixedTensor, FixedType, converted
from messages.requests import ModelFault
from messages.sources import ReadConifer, SourceModel, SourceTensor
from messages.wire import encoded

if TYPE_CHECKING:
    from framework_types import Array, Report

INPUT, OUTPUT = "x", "score"


def read(request: ReadConifer, report: Report) -> SourceModel:
    """Describe the trees in the file, and write their parts to `request.out`."""
    ensemble = ensemble_of(opened(request.path))
    arrays = _arrays(ensemble)
    if request.out:
        with open(os.path.join(request.out, NETWORK), "w", encoding="utf-8") as file:
            file.write(encoded(_network(ensemble, arrays)))
        elements.write_arrays(os.path.join(request.out, NUMBERS), arrays)
    return SourceModel(
        file=request.path,
        origin=f"conifer {ensemble.version}, {ensemble.backend}",
        inputs=(SourceTensor(name=INPUT, key=INPUT, dtype="float32", shape=(None, ensemble.features)),),
        outputs=(SourceTensor(name=OUTPUT, key=OUTPUT, dtype="float32", shape=(None, ensemble.classes)),),
        by_row=False,
    )


def _network(ensemble: Ensemble, arrays: dict[str, Array]) -> FixedNetwork:
    kinds = ensemble.precisions
    given = FixedTensor(name=INPUT, shape=(ensemble.features,), type=kinds.input)
    made = FixedTensor(name=OUTPUT, shape=(ensemble.classes,), type=kinds.score)
    layer = FixedLayer(
        name="trees", kind="DecisionTrees", function="decision_function", inputs=(INPUT,), outputs=(made,),
        numbers={"is_strict": int(ensemble.is_strict), "is_unrolled": int(ensemble.is_unrolled)}, texts={}, lists={},
        types={"weight_t": kinds.weight, "threshold_t": kinds.threshold, "score_t": kinds.score},
        arrays={name: name for name in arrays},
    )  # fmt: skip
    entry = FixedLayer(
        name=INPUT, kind="Input", function="", inputs=(), outputs=(given,), numbers={}, texts={}, lists={}, types={},
        arrays={},
    )  # fmt: skip
    return FixedNetwork(inputs=(INPUT,), outputs=(OUTPUT,), io="io_parallel", layers=(entry, layer))


def _arrays(ensemble: Ensemble) -> dict[str, Array]:
    """Nodes of all trees, by tree and class. A node compares one of `combinations`: weights of features."""
    kinds, trees = ensemble.precisions, [tree for row in ensemble.trees for tree in row]
    starts = np.cumsum([0, *(len(tree.left) for tree in trees)])
    weights = np.concatenate([tree.weights for tree in trees])
    is_leaf = np.concatenate([tree.is_leaf for tree in trees])
    combinations, which = np.unique(weights[~is_leaf], axis=0, return_inverse=True)
    column = np.full(len(weights), -1, np.int64)
    column[~is_leaf] = which.reshape(-1)
    links = {
        name: np.concatenate(
            [np.where(side < 0, -1, side + start) for side, start in zip(sides, starts[:-1], strict=True)]
        )
        for name, sides in (("left", [tree.left for tree in trees]), ("right", [tree.right for tree in trees]))
    }
    return {
        "combinations": _whole(combinations, kinds.weight),
        "column": column,
        "threshold": _whole(np.concatenate([tree.threshold for tree in trees]), kinds.threshold),
        "value": _whole(np.concatenate([tree.value for tree in trees]), kinds.score),
        "roots": starts[:-1].astype(np.int64),
        "initial": _whole(np.array(ensemble.initial), kinds.score),
        "norm": _whole(np.array([ensemble.norm]), kinds.score),
        **links,
    }


def _whole(values: Array, wanted: FixedType) -> Array:
    made = converted(values, wanted)
    if made.dtype == object:
        raise ModelFault("the trees have numbers of more than 63 bits", "choose fewer bits in conifer's configuration")
    return made
