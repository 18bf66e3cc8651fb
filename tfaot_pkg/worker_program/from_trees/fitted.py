"""A model of decision trees as data, and the files that pass it from its library's environment to TensorFlow's."""

import json
import os
from dataclasses import dataclass

import numpy as np
from messages.forest import ARRAYS, Forest, packed, unpacked

_DOCUMENT, _FOREST = "model.json", "forest.npy"


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A model as data: its trees, and the operations on their sums.

    `links` are names of functions in building.py, in the order of their calls, each with a number that it may need.
    `output` is the name of the result, of type `dtype`: [batch, outputs], or [batch] if `is_flat`; `margin` is the name
    of the sums, if they are a result too. `library` and `origin` describe what wrote the file. `classes` are labels,
    `features` names of the columns of x, both in order, and may be empty.
    Columns in `categorical` contain categories: numbers that are not whole count as missing there.
    """

    forest: Forest
    links: tuple
    output: str
    library: str
    origin: str
    margin: str = ""
    dtype: str = "float64"
    is_flat: bool = False
    classes: tuple = ()
    features: tuple = ()
    categorical: tuple = ()


class Trees:
    """Collects the arrays of a forest, tree by tree; `nodes`, `leaves` and `words` count those that were added."""

    def __init__(self) -> None:
        self._parts: dict = {name: [] for name in ARRAYS if name not in ("base", "target")}
        self.nodes = self.leaves = self.words = 0

    def add(self, **parts) -> None:
        """One tree: all arrays of Forest except `base`, `target` and `sets`; children have the forest's numbers."""
        for name, part in parts.items():
            self._parts[name].append(part)
        self.nodes += len(parts["left"])
        self.leaves += len(parts["values"])

    def add_set(self, words: np.ndarray) -> None:
        """A set of categories, whose words begin at `self.words`."""
        self._parts["sets"].append(words)
        self.words += len(words)

    def arrays(self) -> dict:
        return {name: np.concatenate(parts) if parts else np.zeros(0, np.uint32) for name, parts in self._parts.items()}


def write(fitted: Fitted, folder: str) -> None:
    document = {
        "links": fitted.links,
        "output": fitted.output,
        "margin": fitted.margin,
        "dtype": fitted.dtype,
        "is_flat": fitted.is_flat,
        "categorical": fitted.categorical,
    }
    with open(os.path.join(folder, _DOCUMENT), "w", encoding="utf-8") as file:
        json.dump(document, file)
    np.save(os.path.join(folder, _FOREST), packed(fitted.forest), allow_pickle=False)


def read(folder: str) -> Fitted:
    """What `write` wrote, without the names."""
    with open(os.path.join(folder, _DOCUMENT), encoding="utf-8") as file:
        document = json.load(file)
    forest = unpacked(np.load(os.path.join(folder, _FOREST), allow_pickle=False))
    return Fitted(forest=forest, library="", origin="", **document)
