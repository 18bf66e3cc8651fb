"""Read files of decision trees, and run their libraries; the first bytes tell which library wrote a file."""

import os
import re

from from_trees import fitted, from_lightgbm, from_xgboost, scikit, tmva
from messages import elements
from messages.requests import ModelFault, Reference
from messages.sources import ReadTrees, SourceModel, SourceTensor

INPUT = "x"
"""The name of the one input, [batch, features]."""

_KNOWN = (
    "supported are XGBoost's models as JSON or UBJSON, LightGBM's as text, scikit-learn's as skops files, and TMVA's "
    ".weights.xml files"
)


def read(request: ReadTrees, report) -> SourceModel:
    """Describe the model in the file, and write its parts to `request.out`."""
    made = model_of(request.path)
    if request.out:
        fitted.write(made, request.out)
    forest = made.forest
    outputs = {"probabilities": len(made.classes), "label": 1}.get(made.output, 0) or forest.outputs
    return SourceModel(
        file=request.path,
        origin=_described(made),
        inputs=(SourceTensor(name=INPUT, key=INPUT, dtype=forest.dtype, shape=(None, forest.features)),),
        outputs=(
            SourceTensor(
                name=made.output, key=made.output, dtype=made.dtype, shape=(None,) if made.is_flat else (None, outputs)
            ),
            *(
                SourceTensor(name=each, key=each, dtype=forest.total, shape=(None, forest.outputs))
                for each in (made.margin,)
                if each
            ),
        ),
        by_row=False,
        library=made.library,
    )


def model_of(path: str) -> fitted.Fitted:
    """The model in the file as data."""
    return reader_of(path).fitted_of(path)


def reader_of(path: str):
    """The module that reads the file: it has `fitted_of(path)` and `Answers(path)` (TreesModel)."""
    if os.path.isdir(path):
        raise ModelFault(f"{path} is a folder, and no file of decision trees", "name the file itself")
    with open(path, "rb") as file:
        head = file.read(512)
    if head[:2] == b"PK":
        return scikit
    if head[:2] == b"\x1f\x8b" or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return tmva
    if head.lstrip()[:1] == b"{":
        return from_xgboost
    if head.startswith((b"tree\n", b"tree\r\n")):
        return from_lightgbm
    # The first byte of all pickles since protocol 2. They are never loaded, here or elsewhere.
    if head[:1] == b"\x80":
        raise ModelFault(
            f"{path} is a pickle, or was made by joblib: a program that would run when it is loaded",
            'write the model as data: skops.io.dump(model, "model.skops")',
        )
    raise ModelFault(f"{path} is not a supported file of decision trees", _KNOWN)


def _described(made: fitted.Fitted) -> str:
    text = made.origin
    for what, names in (("classes", made.classes), ("columns of x", made.features)):
        text += f", {what}: {' '.join(names)}" if names else ""
    return re.sub(r"[^\x20-\x7e]", "?", text)[:200]


_loaded: dict = {}
"""The last model that was requested: one validation asks for it many times."""


class TreesModel:
    """The model in `request.folder`, a file.

    The module that reads it has `Answers(path)`, with `version`, `dtype` of x, `rejections` and `run(x)`,
    which returns the result, or several by name.
    """

    def __init__(self, request: Reference) -> None:
        if _loaded.get("file") != request.folder:
            _loaded.clear()
            _loaded["answers"] = reader_of(request.folder).Answers(request.folder)
            _loaded["file"] = request.folder
        self._answers = _loaded["answers"]
        self._input = next(name for name, key in request.feeds.items() if key == INPUT)
        self._outputs = dict(request.fetches)
        self.version, self.rejections = self._answers.version, self._answers.rejections
        self.dtypes = {self._input: self._answers.dtype}
        self.operations = ["trees"]

    def run(self, feeds: dict) -> dict:
        made = self._answers.run(feeds[self._input])
        given = {name: made[key] if isinstance(made, dict) else made for name, key in self._outputs.items()}
        return {name: elements.numbers(values, values.dtype.name) for name, values in given.items()}

    def exactly(self) -> None:
        return None
