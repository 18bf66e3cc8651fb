"""Read files of decision trees and of scikit-learn, and run their libraries; the first bytes tell who wrote a file."""

from __future__ import annotations

import dataclasses
import os
import re
from types import ModuleType
from typing import TYPE_CHECKING, Any

from from_trees import fitted, from_lightgbm, from_xgboost, pipelines, rows, tmva
from from_trees.categories import Column
from messages import elements
from messages.requests import ModelFault, Reference
from messages.sources import INPUT, CategoryColumn, ReadTrees, SourceModel, SourceTensor, TreesCall, TreesFacts

if TYPE_CHECKING:
    from framework_types import Array, Report


_KNOWN = (
    "supported are XGBoost's models as JSON or UBJSON, LightGBM's as text, scikit-learn's as skops files, and TMVA's "
    ".weights.xml files"
)


def read(request: ReadTrees, report: Report) -> SourceModel:
    """Describe the model in the file, and write its parts to `request.out`."""
    made = model_of(request.path, request.call)
    if request.out:
        fitted.write(made, request.out)
        elements.write_arrays(os.path.join(request.out, rows.FILE), {INPUT: _rows(request, made)})
    outputs = {"probabilities": len(made.classes), "label": 1}.get(made.output, 0) or made.outputs
    return SourceModel(
        file=request.path,
        origin=_described(made),
        inputs=(SourceTensor(name=INPUT, key=INPUT, dtype=made.input, shape=(None, made.width)),),
        outputs=(
            SourceTensor(
                name=made.output, key=made.output, dtype=made.dtype, shape=(None,) if made.is_flat else (None, outputs)
            ),
            *(
                SourceTensor(name=each, key=each, dtype=made.trees.total, shape=(None, made.outputs))
                for each in (made.margin,)
                if each
            ),
        ),
        by_row=False,
        library=made.library,
        notes=tuple(_printable(each) for each in made.notes),
        trees=_facts(made, reader_of(request.path).TAKES),
    )


def _rows(request: ReadTrees, made: fitted.Fitted) -> Array:
    if made.before is None:
        return rows.rows_of(made)
    return rows.rows_of_steps(made, made.before.steps, pipelines.Answers(request.path, request.call).run)


def model_of(path: str, call: TreesCall) -> fitted.Fitted:
    """The model in the file as data, as `call` calls it."""
    module = reader_of(path)
    for name in ("iterations", "missing", "categories"):
        if getattr(call, name) and name not in module.TAKES:
            raise ModelFault(
                f"trees.{name} is set, and calls of the library that wrote {path} have no such choice",
                f"remove {name} from `trees` in the spec: the file says it",
            )
    made: fitted.Fitted = module.fitted_of(path, call)
    return dataclasses.replace(made, origin=f"{made.origin}, x of {call.dtype}") if call.dtype else made


def reader_of(path: str) -> ModuleType:
    """The module that reads the file: it has `fitted_of(path, call)` and `Answers(path, call)` (TreesModel), and names
    in TAKES the fields of TreesCall, beside dtype, that its library's calls have.
    """
    if os.path.isdir(path):
        raise ModelFault(f"{path} is a folder, and no file of decision trees", "name the file itself")
    with open(path, "rb") as file:
        head = file.read(512)
    if head[:2] == b"PK":
        return pipelines
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


def _facts(made: fitted.Fitted, takes: frozenset[str]) -> TreesFacts:
    categories = [
        *(each.described() for each in made.columns),
        *(
            dataclasses.replace(each.described(), given="codes")
            if isinstance(each, Column)
            else CategoryColumn(
                column=each, name=made.features[each] if made.features else "", given="codes", values=()
            )
            for each in made.coded
        ),
    ]
    return TreesFacts(
        library=made.library,
        iterations=made.iterations[0],
        iterations_in_file=made.iterations[1],
        missing="" if "missing" not in takes else "nan" if made.missing is None else repr(made.missing),
        columns=made.features,
        classes=made.classes,
        categories=tuple(categories),
    )


def _described(made: fitted.Fitted) -> str:
    text = made.origin
    if made.columns:
        by_value = [each.name or f"column {each.place}" for each in made.columns if not each.is_text]
        by_place = [each.name or f"column {each.place}" for each in made.columns if each.is_text]
        text += f", categories by their values: {' '.join(by_value)}" if by_value else ""
        text += f", categories by their positions: {' '.join(by_place)}" if by_place else ""
    if made.missing is not None:
        text += f", {made.missing:g} counts as missing"
    for what, names in (("classes", made.classes), ("columns of x", made.features)):
        text += f", {what}: {' '.join(names)}" if names else ""
    return _printable(text)[:200]


def _printable(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)


_loaded: dict[str, Any] = {}
"""The last model that was requested: one validation asks for it many times."""


class TreesModel:
    """The model in `request.folder`, a file.

    The module that reads it has `Answers(path, call)`, with `version`, `dtype` of x, `rejections` and `run(x)`,
    which returns the result, or several by name; those of pipelines.py also have `is_continuous` and `compared`.
    """

    def __init__(self, request: Reference) -> None:
        wanted = (request.folder, request.call)
        if _loaded.get("wanted") != wanted:
            _loaded.clear()
            _loaded["answers"] = reader_of(request.folder).Answers(request.folder, request.call)
            _loaded["wanted"] = wanted
        self._answers = _loaded["answers"]
        self._input = next(name for name, key in request.feeds.items() if key == INPUT)
        self._outputs = dict(request.fetches)
        self.version, self.rejections = self._answers.version, self._answers.rejections
        self.dtypes = {self._input: self._answers.dtype}
        self.is_continuous = getattr(self._answers, "is_continuous", False)
        self.compared = {self._input: getattr(self._answers, "compared", ())}
        self.operations = ["trees"]

    def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
        made = self._answers.run(feeds[self._input])
        given = {name: made[key] if isinstance(made, dict) else made for name, key in self._outputs.items()}
        return {name: elements.numbers(values, values.dtype.name) for name, values in given.items()}
