"""LightGBM's models: the text files of Booster.save_model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from from_trees.categories import Column, encoder, frame
from from_trees.fitted import Fitted, Trees, reason
from messages import forest as trees
from messages.requests import ModelFault
from messages.sources import TreesCall

if TYPE_CHECKING:
    from framework_types import Array


TAKES = frozenset({"iterations", "categories"})
"""What a call of LightGBM chooses beside the file."""

_AGAIN = "write the file again: booster.save_model('model.txt')"
_SIGMOID = "cross_entropy xentropy multiclassova".split()
_EXP = "poisson gamma tweedie".split()
_PLAIN = "regression regression_l1 l1 l2 huber fair quantile mape lambdarank rank_xendcg custom".split()
_MOST_LEAVES = 1 << 24  # of a tree: checked before its arrays are read


def fitted_of(path: str, call: TreesCall) -> Fitted:
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        return fitted_of_text(text, call)
    except ERRORS as error:
        raise ModelFault(f"LightGBM's model {path} is damaged: {reason(error)}", _AGAIN) from error


ERRORS = (KeyError, ValueError, IndexError, OverflowError)
"""What reading a damaged model raises."""


def fitted_of_text(text: str, call: TreesCall) -> Fitted:
    """The model that Booster.model_to_string wrote, as data. Raises ERRORS."""
    # Of the parts after the trees, the categories of data frames and the columns that have them count.
    text_of_trees, _, rest = text.partition("\nend of trees")
    head, *blocks = re.split(r"^Tree=\d+\s*$", text_of_trees, flags=re.MULTILINE)
    if "\nend of trees" not in text:
        raise ValueError("it ends before its trees do")
    fields = _fields(head)
    per_iteration = int(fields["num_tree_per_iteration"])
    if per_iteration < 1 or not blocks or len(blocks) % per_iteration:
        raise ValueError(f"{len(blocks)} trees for {per_iteration} outputs")
    rounds = len(blocks) // per_iteration
    used = _iterations(call, rounds)
    blocks = blocks[: used * per_iteration]
    made = _Arrays()
    for block in blocks:
        made.grow(_fields(block))
    output, links = _links(fields.get("objective", "custom"))
    margin = "margin" if links else ""
    if "average_output" in head.split():
        # Random forests (boosting rf) return the mean of their iterations; the objective's function comes after it.
        links = (("divide", float(used)), *links)
    features = int(fields["max_feature_idx"]) + 1
    forest = trees.forest(
        # LightGBM turns all inputs into doubles, and compares these.
        dtype=call.dtype or "float64",
        total="float64",
        features=features,
        outputs=per_iteration,
        base=np.zeros(per_iteration),
        # Trees of one iteration are in the order of the outputs.
        target=np.arange(len(blocks)) % per_iteration,
        **made.arrays(),
    )
    names = tuple(fields.get("feature_names", "").split())
    names = () if all(re.fullmatch(r"Column_\d+", each) for each in names) else names
    columns, coded = _columns(rest, names, fields["feature_infos"].split(), call)
    counted = f"{used} of {rounds} iterations, " if used < rounds else ""
    return Fitted(
        forest=forest,
        links=links,
        margin=margin,
        output=output,
        library="LightGBM",
        origin=f"LightGBM {fields.get('version', '')}, {fields.get('objective', 'custom')}, {counted}{len(blocks)} "
        "trees",
        features=names,
        encoder=encoder(columns, features=features, dtype=forest.dtype, unknown=math.nan) if columns else None,
        columns=columns,
        coded=coded,
        iterations=(used, rounds),
        notes=_notes(rest, call, rounds),
    )


def _iterations(call: TreesCall, rounds: int) -> int:
    if call.iterations == "best":
        raise ModelFault(
            "LightGBM's files do not say which iteration is the best: save_model writes those up to it",
            "leave `trees.iterations` out of the spec; if save_model(num_iteration=-1) wrote all, give the number "
            "best_iteration",
        )
    used = rounds if call.iterations in ("", "all") else int(call.iterations)
    if not 1 <= used <= rounds:
        raise ModelFault(
            f"{used} iterations of LightGBM's model were asked for, and the file has {rounds}",
            "set `trees: {iterations: all}` in the spec, or a number that the file has",
        )
    return used


def _notes(rest: str, call: TreesCall, rounds: int) -> tuple[str, ...]:
    parameters = _parameters(rest)
    # The callback early_stopping() leaves no other trace than fewer iterations than were asked for.
    asked = max(_count(parameters, "num_iterations"), rounds)
    if call.iterations or (not _count(parameters, "early_stopping_round") and rounds == asked):
        return ()
    note = (
        f"the training may have stopped early: the file has {rounds} of {asked} iterations that were asked for, which "
        "are computed: if save_model(num_iteration=-1) wrote them, predict uses fewer; then set `trees: {iterations: "
        "N}` in the spec to best_iteration, otherwise `trees: {iterations: all}`"
    )
    return (note,)


def _count(parameters: Mapping[str, str], name: str) -> int:
    text = parameters.get(name, "")
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 0


def _parameters(rest: str) -> dict[str, str]:
    """The parameters of training, which follow the trees as `[name: value]`."""
    return {name: value.strip() for name, value in re.findall(r"^\[(\w+):(.*)\]\s*$", rest, flags=re.MULTILINE)}


def _columns(
    rest: str, names: tuple[str, ...], infos: list[str], call: TreesCall
) -> tuple[tuple[Column, ...], tuple[Column | int, ...]]:
    """The columns of categories that contain values of a data frame, and those that contain codes.

    `infos` have the codes that training saw in each column of categories, as 2:0:1.
    """
    found = re.findall(r"^pandas_categorical:(.*)$", rest, flags=re.MULTILINE)
    listed = json.loads(found[-1]) if found else None
    chosen = [int(each) for each in re.findall(r"\d+", _parameters(rest).get("categorical_feature", ""))]
    if any(each >= len(infos) for each in chosen):
        raise ValueError("a column of categories is outside of the model's")
    if not listed:
        if call.categories == "values":
            raise ModelFault(
                "LightGBM's file has no values of categories: it was not trained on a data frame with columns of them",
                "leave `trees.categories` out of the spec: x contains codes",
            )
        return (), tuple(chosen)
    if not all(
        isinstance(each, list) and all(isinstance(one, (bool, int, float, str)) for one in each) for each in listed
    ):
        raise ValueError("its pandas_categorical has other values than numbers and texts")
    # The lists have no names: they are those of the frame's columns of categories, in their order. Other columns may
    # be categories for LightGBM (categorical_feature), and columns of ordered categories are none.
    pairs = [*zip(sorted(chosen), listed, strict=False)]
    fit = all(max(map(int, re.findall(r"-?\d+", infos[place])), default=-1) < len(each) for place, each in pairs)
    if len(chosen) != len(listed) or not fit:
        if call.categories == "codes":
            return (), tuple(chosen)
        raise ModelFault(
            f"LightGBM's file has the categories of {len(listed)} columns of a data frame, and does not say which: "
            f"{len(chosen)} are columns of categories of the model",
            "set `trees: {categories: codes}` in the spec, and give x the codes of all of them",
        )
    columns = tuple(
        Column(place=place, name=names[place] if names else "", values=tuple(values))
        for place, values in pairs
        if values
    )
    return ((), columns) if call.categories == "codes" else (columns, ())


def _fields(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _links(objective: str) -> tuple[str, tuple[tuple[str, float], ...]]:
    """The name of the result, and the operations on the sums."""
    name, *options = objective.split()
    given = dict(each.split(":", 1) for each in options if ":" in each)
    if name == "binary" or name in _SIGMOID:
        return "probabilities", (("multiply", float(given.get("sigmoid", 1))), ("sigmoid", 1.0))
    if name == "multiclass":
        return "probabilities", (("softmax", 1.0),)
    if name in _EXP:
        return "score", (("exp", 1.0),)
    if name == "cross_entropy_lambda":
        return "score", (("softplus", 1.0),)
    if name in _PLAIN:
        return "score", (("square with sign", 1.0),) if "sqrt" in options else ()
    raise ModelFault(
        f"LightGBM's objective {name} is not supported",
        "train with another one: regression, binary, multiclass ...",
    )


def _numbers(fields: dict[str, str], name: str, kind: Callable[[str], float], count: int) -> np.ndarray:
    found = np.array([kind(each) for each in fields[name].split()]) if count or name in fields else np.zeros(0)
    if len(found) != count:
        raise ValueError(f"{name} has {len(found)} numbers, where there are {count}")
    return found


class _Arrays(Trees):
    def grow(self, tree: dict[str, str]) -> None:
        leaves = int(tree["num_leaves"])
        if not 1 <= leaves <= _MOST_LEAVES:
            raise ValueError(f"a tree of {leaves} leaves")
        if tree.get("is_linear", "0").strip() == "1":
            raise ModelFault("LightGBM's linear trees are not supported", "train without linear_tree")
        nodes = leaves - 1
        left, right = (
            self._children(_numbers(tree, name, int, nodes), nodes, leaves) for name in ("left_child", "right_child")
        )
        decision = _numbers(tree, "decision_type", int, nodes).astype(np.int64)
        threshold = _numbers(tree, "threshold", float, nodes).astype(np.float64)
        # Bits of decision_type (tree.h): 0 is a set of categories, 1 "missing goes left", 2 and 3 what is missing.
        is_set = (decision & 1) > 0
        missing = np.select([(decision >> 2 & 3) == 1, (decision >> 2 & 3) == 2], [trees.ZERO, trees.NAN], trees.NONE)
        words = np.zeros(nodes, np.int64)
        # LightGBM takes numbers around zero for zero before it compares: such numbers are dropped when a row is read
        # (c_api.cpp, kZeroThreshold), and dropped numbers are 0. Thresholds next to zero are moved accordingly.
        near = trees.NEAR_ZERO
        threshold = np.where(~is_set & (threshold >= 0) & (threshold < near), near, threshold)
        below = np.nextafter(-near, -np.inf)
        threshold = np.where(~is_set & (threshold < 0) & (threshold >= -near), below, threshold)
        if is_set.any():
            self._sets(tree, is_set, threshold, words)
        self.add(
            roots=np.array([self.nodes if nodes else -1 - self.leaves]),
            feature=_numbers(tree, "split_feature", int, nodes), threshold=threshold, words=words,
            comparison=np.where(is_set, trees.IN_CUT, trees.LESS_EQUAL),
            # A missing value is in no set.
            missing=np.where(is_set, trees.NAN, missing), default=(decision & 2 > 0) & ~is_set,
            left=left, right=right, values=_numbers(tree, "leaf_value", float, leaves).reshape(-1, 1),
        )  # fmt: skip

    def _children(self, found: np.ndarray, nodes: int, leaves: int) -> np.ndarray:
        # A child of -1 is leaf 0, one of -leaves the last leaf.
        if len(found) and (found.min() < -leaves or found.max() >= nodes):
            raise ValueError("a child is outside of its tree")
        # In files a leaf is ~number, as in Forest.
        return np.where(found >= 0, found + self.nodes, found - self.leaves)

    def _sets(self, tree: dict[str, str], is_set: np.ndarray, threshold: np.ndarray, words: np.ndarray) -> None:
        """Replace thresholds, which are numbers of sets in LightGBM's files, by the sets' places in the forest."""
        count = int(tree["num_cat"])
        edges = _numbers(tree, "cat_boundaries", int, count + 1)
        found = np.array([int(each) for each in tree["cat_threshold"].split()], np.uint64)
        chosen = threshold[is_set].astype(np.int64)
        if (np.diff(edges) < 0).any() or edges[0] != 0 or edges[-1] != len(found) or (found >> 32).any():
            raise ValueError("its sets of categories do not fit")
        if chosen.min() < 0 or chosen.max() >= count:
            raise ValueError("a node's set of categories is missing")
        words[is_set] = edges[chosen + 1] - edges[chosen]
        threshold[is_set] = edges[chosen] + self.words
        self.add_set(found.astype(np.uint32))


class Answers:
    """The answers of LightGBM itself, on one thread."""

    def __init__(self, path: str, call: TreesCall) -> None:
        import lightgbm

        self._outputs = fitted_of(path, call)
        self.dtype = self._outputs.input
        self._booster = lightgbm.Booster(model_file=path)
        self.version = str(lightgbm.__version__)
        self.rejections = (lightgbm.basic.LightGBMError, ValueError)

    def run(self, x: Array) -> dict[str, Array]:
        """The results by name."""
        made = {self._outputs.output: self._predicted(x, is_raw=False)}
        if self._outputs.margin:
            made[self._outputs.margin] = self._predicted(x, is_raw=True)
        return made

    def _predicted(self, x: Array, *, is_raw: bool) -> Array:
        model, x = self._outputs, np.asarray(x)
        found = self._booster.predict(
            frame(x, model.columns, model.features) if model.columns else x,
            num_iteration=model.iterations[0],
            raw_score=is_raw,
            num_threads=1,
            predict_disable_shape_check=False,
        )
        return np.asarray(found, np.float64).reshape(len(x), -1)
