"""TMVA's weight files of boosted decision trees (MethodBDT): XML, also compressed with gzip.

The formulas are those of ROOT's tmva/src/MethodBDT.cxx and DecisionTreeNode.cxx: variables, cuts, responses and
purities are floats, sums are doubles.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers import expat

import numpy as np
from from_trees.fitted import Fitted
from messages import forest as trees
from messages.requests import ModelFault
from messages.sources import TreesCall

if TYPE_CHECKING:
    import numpy.typing as npt
    from framework_types import Array


TAKES: frozenset[str] = frozenset()
"""A call of TMVA::Reader chooses nothing beside the file."""

# The file is untrusted, and a small one may be decompressed to any size.
_MOST_BYTES = 1 << 30
_MOST_NODES = 1 << 24
_MOST_DEPTH = 1000
_BLOCK = 1 << 20

_TRAIN = "keep the method in TMVA, or train it without this option"


@dataclass(kw_only=True)
class Bdt:
    """A method as its file describes it.

    Nodes of all trees are numbered as in the file; `left` and `right` are -1 if a node has no such child. A tree has
    a root and a weight.
    """

    version: str = ""
    analysis: str = "Classification"
    options: dict[str, str] = field(default_factory=dict)
    variables: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    transformations: list[str] = field(default_factory=list)
    regression_trees: bool = False
    roots: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    selector: list[int] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    cut_type: list[bool] = field(default_factory=list)
    node_type: list[int] = field(default_factory=list)
    response: list[float] = field(default_factory=list)
    purity: list[float] = field(default_factory=list)

    @property
    def boost(self) -> str:
        return self.options.get("BoostType", "AdaBoost")

    @property
    def uses_types(self) -> bool:
        """Whether a leaf counts as 1 or -1 (UseYesNoLeaf), and not by its purity."""
        if self.regression_trees or self.analysis != "Classification" or self.boost in ("RealAdaBoost", "AdaCost"):
            return False
        return self.options.get("UseYesNoLeaf", "True") in ("True", "1")

    def leaf_values(self) -> np.ndarray:
        """The value of a tree for rows that end at each node, float64."""
        if self.regression_trees:
            return _floats(self.response)
        return np.array(self.node_type, np.float64) if self.uses_types else _floats(self.purity)

    def tree_weights(self) -> np.ndarray:
        return _floats(self.weights)


def _floats(values: npt.ArrayLike) -> np.ndarray:
    # Files have decimal numbers; TMVA reads each into a float.
    return np.array(values, np.float64).astype(np.float32).astype(np.float64)


def read_file(path: str) -> Bdt:
    """The method in the file `path`. Raises ModelFault for other files, and for options that are not supported."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _no_declarations
    try:
        for block in _blocks(path):
            parser.Parse(block, False)
        parser.Parse(b"", True)
    except (expat.ExpatError, OSError, EOFError, zlib.error, ValueError, KeyError, OverflowError) as error:
        why = f"no attribute {error}" if isinstance(error, KeyError) else str(error)
        raise ModelFault(
            f"{path} is damaged, or no weight file of TMVA: {why}", "take the .weights.xml file"
        ) from error
    _check(reader.found, path)
    return reader.found


def _no_declarations(*_: object) -> None:
    raise ValueError("it declares a document type or entities, which weight files of TMVA do not")


def _blocks(path: str) -> Iterator[bytes]:
    """The content of the file, a block at a time."""
    with open(path, "rb") as file:
        # By content: the name of a file may be wrong.
        is_compressed = file.read(2) == b"\x1f\x8b"
    total = 0
    with gzip.open(path) if is_compressed else open(path, "rb") as file:
        while block := file.read(_BLOCK):
            total += len(block)
            if total > _MOST_BYTES:
                raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
            yield block


class _Reader:
    """Collects the attributes of the file's elements; no tree of elements is kept."""

    def __init__(self) -> None:
        self.found = Bdt()
        self._open: list[str] = []
        self._nodes: list[int] = []
        self._text: list[str] = []
        self._option = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _MOST_DEPTH:
            raise ValueError(f"it is nested more than {_MOST_DEPTH} deep")
        if not self._open and tag != "MethodSetup":
            raise ValueError(f"its root is <{tag}>, and not <MethodSetup>")
        # Elements are only remembered by name: a file of a gigabyte takes the memory of its trees.
        self._open.append(tag)
        known = getattr(self, f"_start_{tag.lower()}", None)
        if known is not None:
            known(attributes)

    def end(self, tag: str) -> None:
        self._open.pop()
        if tag == "Node":
            self._nodes.pop()
        elif tag == "Option":
            self.found.options[self._option] = "".join(self._text).strip()

    def text(self, data: str) -> None:
        if self._open[-1] == "Option":
            self._text.append(data)

    def _start_methodsetup(self, attributes: dict[str, str]) -> None:
        method = attributes["Method"]
        if not method.startswith("BDT::"):
            raise ModelFault(
                f"the method {method!r} of TMVA is not supported; boosted decision trees (BDT) are",
                "export networks to ONNX",
            )

    def _start_info(self, attributes: dict[str, str]) -> None:
        if attributes["name"] == "AnalysisType":
            self.found.analysis = attributes["value"]
        elif attributes["name"] == "TMVA Release":
            self.found.version = attributes["value"].split(" ")[0][:20]

    def _start_option(self, attributes: dict[str, str]) -> None:
        self._option, self._text = attributes["name"], []

    def _start_variable(self, attributes: dict[str, str]) -> None:
        if self._open[-2] == "Variables":
            self.found.variables.append(attributes.get("Expression") or attributes["Label"])

    def _start_class(self, attributes: dict[str, str]) -> None:
        self.found.classes.append(attributes["Name"])

    def _start_transform(self, attributes: dict[str, str]) -> None:
        self.found.transformations.append(attributes.get("Name", "?"))

    def _start_weights(self, attributes: dict[str, str]) -> None:
        kind = attributes["AnalysisType"] if "AnalysisType" in attributes else attributes.get("TreeType", "0")
        self.found.regression_trees = int(kind) == 1

    def _start_binarytree(self, attributes: dict[str, str]) -> None:
        found = self.found
        found.roots.append(len(found.left))
        found.weights.append(float(attributes["boostWeight"]))

    def _start_node(self, attributes: dict[str, str]) -> None:
        found, number = self.found, len(self.found.left)
        if number >= _MOST_NODES:
            raise ValueError(f"it has more than {_MOST_NODES} nodes")
        if self._nodes:
            side = {"l": found.left, "r": found.right}[attributes["pos"]]
            if side[self._nodes[-1]] != -1:
                raise ValueError("a node has two others on one side")
            side[self._nodes[-1]] = number
        elif not found.roots or found.roots[-1] != number:
            raise ValueError("a node is outside of the trees")
        self._nodes.append(number)
        node_type = int(attributes["nType"])
        if node_type == 0 and int(attributes.get("NCoef", "0")):
            raise ModelFault("nodes with Fisher cuts (UseFisherCuts) are not supported", _TRAIN)
        found.left.append(-1)
        found.right.append(-1)
        found.selector.append(int(attributes["IVar"]))
        found.cut.append(float(attributes["Cut"]))
        found.cut_type.append(bool(int(attributes["cType"])))
        found.node_type.append(node_type)
        found.response.append(float(attributes.get("res", "0")))
        found.purity.append(_purity(attributes))


def _purity(attributes: dict[str, str]) -> float:
    if "purity" in attributes:
        return float(attributes["purity"])
    if "nS" not in attributes:
        return 0.0
    # Files without a purity have the weights of signal and background, of which it is the share.
    signal, background = float(attributes["nS"]), float(attributes["nB"])
    return signal / (signal + background) if signal + background else math.nan


def _check(found: Bdt, path: str) -> None:
    """Raise ModelFault for options and trees that are not supported."""
    count = len(found.left)
    if not found.roots or not found.variables or found.roots[-1] >= count:
        raise ModelFault(f"{path} has no trees, or no variables", "take the .weights.xml file of a trained method")
    if found.transformations:
        raise ModelFault(
            f"transformations of variables ({', '.join(found.transformations)[:80]}) are not supported",
            "train the method without VarTransform: trees do not need it",
        )
    if found.options.get("DoPreselection", "False") in ("True", "1"):
        raise ModelFault("DoPreselection is not supported", _TRAIN)
    known = {"Classification": ("AdaBoost", "RealAdaBoost", "AdaCost", "Bagging", "Grad"),
             "Regression": ("AdaBoost", "Bagging", "Grad"), "Multiclass": ("Grad",)}  # fmt: skip
    if found.boost not in known.get(found.analysis, ()):
        raise ModelFault(f"{found.analysis} with BoostType={found.boost} is not supported", "BoostType=Grad is")
    if found.analysis == "Multiclass" and (len(found.classes) < 2 or len(found.roots) % len(found.classes)):
        raise ModelFault(f"{len(found.roots)} trees do not fit {len(found.classes)} classes", "")
    for number, node_type in enumerate(found.node_type):
        if node_type != 0:
            continue
        if -1 in (found.left[number], found.right[number]):
            raise ModelFault(f"node {number} of {path} has no two sides", "write the file again")
        if not 0 <= found.selector[number] < len(found.variables) or not math.isfinite(found.cut[number]):
            raise ModelFault(
                f"node {number} of {path} compares a variable that does not exist, or with a value that is not finite",
                "write the file again",
            )


def fitted_of(path: str, call: TreesCall) -> Fitted:
    """The method in the file as data."""
    found = read_file(path)
    classification, dtype = found.analysis == "Classification", "float32"
    links: tuple[tuple[str, float], ...] = ()
    if found.analysis == "Multiclass":
        links = (("softmax", 0.0),)
    # A mean with the weights of trees; gradient boosting adds the responses themselves.
    elif found.boost != "Grad":
        total = _in_order(found.tree_weights())
        # Without weights, the method gives 0.
        links = (("divide", total),) if total > np.finfo(np.float64).eps else (("multiply", 0.0),)
        dtype = "float64" if classification else dtype
    elif classification:
        links, dtype = (("gradient boost", 0.0),), "float64"
    else:
        # Of regression with gradients, the weight of the first tree is the start of the sum.
        links = (("add", float(found.tree_weights()[0])),)
    return Fitted(
        forest=forest_of(found),
        links=links,
        output={"Classification": "score", "Regression": "predictions"}.get(found.analysis, "probabilities"),
        dtype=dtype,
        is_flat=found.analysis != "Multiclass",
        library="TMVA's formulas",
        origin=f"TMVA {found.version} BDT, {found.analysis}, BoostType={found.boost}".replace("  ", " "),
        classes=tuple(found.classes) if found.analysis == "Multiclass" else (),
        features=tuple(found.variables),
        # TMVA's events hold floats, whatever the caller's variables are.
        input=call.dtype or "float32",
    )


def _in_order(values: np.ndarray) -> float:
    total = 0.0
    # One after the other, as TMVA adds them: NumPy adds in pairs, which rounds differently.
    for value in values.tolist():
        total += value
    return total


class Answers:
    """Answers by TMVA's formulas, computed tree by tree from the nodes of the file (reading.py).

    Python's packages of ROOT contain no TMVA (decision 052). Only the reader of files is shared with `forest_of`.
    """

    def __init__(self, path: str, call: TreesCall) -> None:
        self._bdt = read_file(path)
        self.version, self.dtype = self._bdt.version, call.dtype or "float32"
        self.rejections: tuple[type[Exception], ...] = ()

    def run(self, x: Array) -> Array:
        bdt, x = self._bdt, np.asarray(x).astype(np.float32)
        gives = [self._response(x, root) for root in bdt.roots]
        if bdt.analysis == "Multiclass":
            return self._classes(gives)
        total = np.zeros(len(x))
        if bdt.boost == "Grad":
            for response in gives:
                total += response
            if bdt.analysis == "Classification":
                with np.errstate(over="ignore"):
                    return 2.0 / (1.0 + np.exp(-2.0 * total)) - 1
            return (total + np.float64(np.float32(bdt.weights[0]))).astype(np.float32)
        norm = 0.0
        for weight, response in zip(bdt.weights, gives, strict=True):
            total += np.float64(np.float32(weight)) * response
            norm += float(np.float32(weight))
        made = total / norm if norm > np.finfo(np.float64).eps else np.zeros(len(x))
        return made if bdt.analysis == "Classification" else made.astype(np.float32)

    def _classes(self, gives: list[Array]) -> Array:
        count = len(self._bdt.classes)
        sums = np.zeros((len(gives[0]), count))
        for number, response in enumerate(gives):
            sums[:, number % count] += response
        with np.errstate(over="ignore"):
            norms = [
                sum(np.exp(sums[:, other] - sums[:, mine]) for other in range(count) if other != mine)
                for mine in range(count)
            ]
        return (1.0 / (1.0 + np.stack(norms, -1))).astype(np.float32)

    def _response(self, x: Array, root: int) -> Array:
        """The value of one tree for each row, as DecisionTree::CheckEvent computes it."""
        bdt, made = self._bdt, np.zeros(len(x))
        waiting = [(root, np.arange(len(x)))]
        while waiting:
            node, rows = waiting.pop()
            if bdt.node_type[node] != 0:
                made[rows] = self._leaf(node)
            elif rows.size:
                passes = x[rows, bdt.selector[node]] >= np.float32(bdt.cut[node])
                goes_right = passes if bdt.cut_type[node] else ~passes
                waiting += [(bdt.right[node], rows[goes_right]), (bdt.left[node], rows[~goes_right])]
        return made

    def _leaf(self, node: int) -> float:
        bdt = self._bdt
        if bdt.regression_trees:
            return float(np.float32(bdt.response[node]))
        return float(bdt.node_type[node]) if bdt.uses_types else float(np.float32(bdt.purity[node]))


def forest_of(found: Bdt) -> trees.Forest:
    """The trees; their weights are in the values of the leaves."""
    is_inner = np.array(found.node_type) == 0
    number = np.where(is_inner, np.cumsum(is_inner) - 1, -np.cumsum(~is_inner))
    left, right = (number[np.array(side)[is_inner]] for side in (found.left, found.right))
    # x >= cut goes to the right if cType is 1, to the left if not. NaN is never >= cut.
    is_right = np.array(found.cut_type, bool)[is_inner]
    outputs = len(found.classes) if found.analysis == "Multiclass" else 1
    count = len(left)
    # A tree's nodes follow its root, up to the root of the next one.
    tree = np.repeat(np.arange(len(found.roots)), np.diff([*found.roots, len(number)]))
    values = found.leaf_values()
    if found.boost != "Grad":
        values = values * found.tree_weights()[tree]
    return trees.forest(
        dtype="float32",
        total="float64",
        features=len(found.variables),
        outputs=outputs,
        roots=number[np.array(found.roots)],
        target=np.arange(len(found.roots)) % outputs,
        feature=np.array(found.selector)[is_inner],
        comparison=np.full(count, trees.GREATER_EQUAL),
        threshold=_floats(np.array(found.cut)[is_inner]),
        words=np.zeros(count, np.int32),
        missing=np.full(count, trees.NAN),
        default=np.zeros(count, bool),
        left=np.where(is_right, right, left),
        right=np.where(is_right, left, right),
        sets=np.zeros(0, np.uint32),
        values=values[~is_inner][:, None],
        base=np.zeros(outputs),
    )
