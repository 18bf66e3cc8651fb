"""Rules of a spec that concern several fields; forms check each field alone, with the rules of rules.py.

A document is checked before its form is made, so that all faults are reported at once; so its values may have any type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tfaot_pkg.ground.forms.document import Document, Path
from tfaot_pkg.spec import rules
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL
from tfaot_pkg.spec.rules import archive_url_fault, git_url_fault, inner_path_fault

_PINS = {"revision": "the full id of a commit", "sha256": "the digest of the archive"}


def check_together(document: Document, failed: Collection[Path]) -> None:
    """Report the faults of fields that exclude each other. `failed` are the paths whose expressions have faults."""
    _check_model(document)
    _check_trees(document)
    _check_source(document, failed)
    _check_validation(document)
    _check_precision(document)
    _check_package(document)


def _check_source(document: Document, failed: Collection[Path]) -> None:
    """Check the keys of `source` together; the form has checked each alone."""
    source = document.data.get("source")
    # Without a source, paths may lead out of the spec's folder, as in cms-tfaot (from_form.py).
    if source is None:
        return
    _check_files(document)
    if not isinstance(source, dict) or any(path[0] == "source" for path in failed):
        return
    places = [key for key in ("path", "url", "git") if key in source]
    if len(places) != 1:
        got = " and ".join(places) or "none"
        document.report(("source",), f"must have exactly one of path (folder), url (archive) and git, got {got}")
        return
    if places == ["path"]:
        _refuse(document, source, ("sha256", "revision"), "a folder")
    elif places == ["git"] or "revision" in source:
        _refuse(document, source, ("sha256",), "a git repository: its revision is a digest already")
        _check_place(document, places[0], "revision", git_url_fault)
    else:
        _check_place(document, "url", "sha256", archive_url_fault)


def _check_files(document: Document) -> None:
    places: list[Path] = [("model", key) for key in (SAVED_MODEL, *FILE_FORMATS, "config", "checkpoint")]
    operations = _at(document.data, ("compilation", "operations"))
    places += [
        ("compilation", "operations", name, kind)
        for name in (operations if isinstance(operations, dict) else {})
        for kind in ("source", "reference")
    ]
    for path in places:
        files = _at(document.data, path)
        # The form has reported faults of the path by itself; a second one would say the same.
        reported = any(found == path for found, _ in document.faults)
        if isinstance(files, str) and not reported and (fault := inner_path_fault(files)):
            document.report(path, fault)


def _at(data: object, path: Path) -> object:
    """The value at `path`; None if there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _check_model(document: Document) -> None:
    model = document.data.get("model")
    if not isinstance(model, dict):
        return
    named = [field for field in FILE_FORMATS if field in model]
    for field in named[:1]:
        for key in ("saved_model", "serving_key", "tags"):
            if key in model:
                document.report(
                    ("model", key), f"is for a SavedModel, and model.{field} names {FILE_FORMATS[field].title}"
                )
    for field in named[1:]:
        document.report(("model", field), f"names another file than model.{named[0]}: give one of them")
    for key in ("config", "checkpoint"):
        if key in model and "graph" not in model:
            document.report(("model", key), "is for a graph, which model.graph names")
    if "answers" in model and "keras" not in model:
        document.report(("model", "answers"), "is for a Keras file, which model.keras names")
    _check_values(document, model)
    if "signatures" in model:
        _check_signatures(document, model)


def _check_signatures(document: Document, model: Mapping[str, Any]) -> None:
    """Check the fields that several signatures exclude."""
    for field in [field for field in FILE_FORMATS if field in model]:
        document.report(
            ("model", "signatures"), f"is for a SavedModel, and model.{field} names {FILE_FORMATS[field].title}"
        )
    for key in ("serving_key", "inputs", "outputs"):
        if key in model:
            document.report(("model", key), "is for one signature: give it to each of model.signatures")
    if model["signatures"] == {}:
        document.report(("model", "signatures"), "must have at least one signature")
    compilation = document.data.get("compilation")
    if isinstance(compilation, dict) and "variables" in compilation:
        document.report(("compilation", "variables"), "goes with one signature, and model.signatures names several")
    if isinstance(compilation, dict) and compilation.get("engine") == "xla":
        document.report(
            ("compilation", "engine"), "XLA's code computes all outputs at once: several signatures need a program"
        )


def _check_trees(document: Document) -> None:
    model = document.data.get("model")
    if "trees" in document.data and isinstance(model, dict) and "trees" not in model:
        document.report(("trees",), "says how decision trees are called, and the model is none: model.trees names them")


_INSTEAD = {
    "counts": "let the model give all rows, and a mask",
    "feeds": "make it an input of the model (in ONNX: move the initializer to the graph's inputs)",
    "seed": "make the random numbers, or the seed of a stateless function, an input of the model",
}
"""What to do for fields of `model` that only TensorFlow's models have."""


def _check_values(document: Document, model: Mapping[str, Any]) -> None:
    """Check constants and feeds together, which need a model that TensorFlow reads."""
    for field in [field for field in FILE_FORMATS if field in model and not FILE_FORMATS[field].is_tensorflows]:
        given = FILE_FORMATS[field]
        takes = {"constants": given.takes_constants, "feeds": False, "seed": False, "counts": given.takes_counts}
        for key in (key for key, is_taken in takes.items() if key in model and not is_taken):
            instead = _INSTEAD.get(key, "change the model itself")
            document.report(("model", key), f"is not for {given.title}: {instead}")
    constants, feeds = model.get("constants"), model.get("feeds")
    fixed = constants if isinstance(constants, dict) else {}
    for name in feeds if isinstance(feeds, list) else ():
        if isinstance(name, str) and name in fixed:
            document.report(("model", "feeds"), f"{name!r} is one of model.constants, which no call supplies")


def _refuse(document: Document, source: dict[str, Any], keys: tuple[str, ...], what: str) -> None:
    for key in keys:
        if key in source:
            document.report(("source", key), f"has no meaning for {what}")


def _check_place(document: Document, place: str, pin: str, fault_of: Callable[[str], str]) -> None:
    source = document.data["source"]
    if isinstance(source[place], str) and (fault := fault_of(source[place])):
        document.report(("source", place), fault)
    if pin not in source:
        document.report(("source", pin), f"is required with {place}: {_PINS[pin]}")


def _check_validation(document: Document) -> None:
    validation = document.data.get("validation")
    if isinstance(validation, dict) and "inputs" in validation:
        for key in ("seed", "samples"):
            if key in validation:
                document.report(("validation", key), "is for random inputs: give either it or inputs")


_BARS = {"float32x3": "1.0e-3", "float32x6": "1.0e-5"}
"""Bars of largest errors that a spec may begin with, for what is closer to float32 than others."""
_OF_LABELS = ("accuracy", "auc", "rejection", "efficiency")


def _check_bars(document: Document, accuracy: Any) -> None:
    """Each output that validation.accuracy names has a bar, and those of labelled rows have labels."""
    labels = _at(document.data.get("validation"), ("labels",))
    if labels is not None and _at(document.data.get("validation"), ("inputs",)) is None:
        document.report(("validation", "labels"), "are those of the rows of validation.inputs: give that file, too")
    for name, bars in accuracy.items() if isinstance(accuracy, dict) else ():
        if not bars:
            document.report(("validation", "accuracy", name), "has no bar: give largest, mean, quantile or argmax")
        elif isinstance(bars, dict) and (tasks := [key for key in _OF_LABELS if key in bars]) and not labels:
            document.report(
                ("validation", "accuracy", name, tasks[0]), "needs the labels of rows: give validation.labels"
            )


def _check_precision(document: Document) -> None:
    """Reduced precision needs bars, and a program."""
    compilation = document.data.get("compilation")
    compute = _at(compilation, ("precision", "compute"))
    calibration = _at(compilation, ("precision", "calibration"))
    accuracy = _at(document.data.get("validation"), ("accuracy",))
    _check_bars(document, accuracy)
    if calibration is not None and compute != "int8":
        document.report(
            ("compilation", "precision", "calibration"),
            f"is for int8, whose scales are found on its rows, and compute is {compute or 'float32'}",
        )
    weights = _at(compilation, ("precision", "weights"))
    reduced = [key for key, kind in (("compute", compute), ("weights", weights)) if kind not in (None, "float32")]
    if not reduced:
        return
    place, said = ("compilation", "precision", reduced[0]), compute if reduced[0] == "compute" else weights
    if len(reduced) > 1:
        document.report(
            ("compilation", "precision", "weights"), f"is for layers that compute in float32, and compute is {compute}"
        )
    if compute == "int8" and calibration is None:
        document.report(
            ("compilation", "precision", "compute"),
            "int8 needs typical rows, on which the scales of layers are found: give `calibration: FILE.npz`, with one "
            "array for each input",
        )
    if not accuracy:
        document.report(
            place,
            f"{said} changes the model's answers, so the spec must say by how much at most: give bars, such as "
            f"`validation: {{accuracy: {{all: {{largest: {_BARS.get(str(said), '0.05')}, argmax: 0.999}}}}}}`",
        )
    if _at(compilation, ("engine",)) == "xla":
        document.report(
            place,
            "is for programs, and compilation.engine is xla, which has no such layers",
        )


def check_symbols(document: Document, form: Any) -> None:
    """Of a SpecForm, check symbols together: each has one range, which one of its axes gives, and needs a program."""
    shapes: Mapping[str, Sequence[int | str | None]] = form.model.shapes or {}
    places = [
        (("model", "shapes", name, place), rules.symbol_of(axis))
        for name, shape in shapes.items()
        for place, axis in enumerate(shape)
        if isinstance(axis, str)
    ]
    given: dict[str, tuple[int | None, int]] = {}
    for path, (name, minimum, maximum) in places:
        if maximum is not None and given.setdefault(name, (minimum, maximum)) != (minimum, maximum):
            document.report(path, f"{name} has another range elsewhere: give it once, and `{name}` in its other places")
    for path, (name, _, _) in places:
        if name not in given:
            document.report(path, f"{name} needs a maximum, such as `{name} <= 128`, in one of the shapes")
    ranges = (form.validation and form.validation.ranges) or {}
    for name, limits in ranges.items():
        for place, limit in enumerate(limits):
            if limit.symbol and limit.symbol not in given:
                document.report(("validation", "ranges", name, place), f"model.shapes has no symbol {limit.symbol}")
    if places and form.compilation.engine == "xla":
        name = places[0][1][0]
        document.report(("compilation", "engine"), f"XLA compiles for fixed sizes: give the axis {name} a number")


def _check_package(document: Document) -> None:
    compilation, package = document.data.get("compilation"), document.data.get("package")
    engine = compilation.get("engine") if isinstance(compilation, dict) else None
    if engine == "xla" and _at(compilation, ("operations",)):
        document.report(
            ("compilation", "operations"), "are for programs, and compilation.engine is xla, which cannot call them"
        )
    if isinstance(package, dict) and package.get("source") is True and engine == "xla":
        document.report(
            ("package", "source"), "is for programs, and compilation.engine is xla, which compiles to objects alone"
        )
    if isinstance(package, dict) and package.get("source") is True and package.get("profile") is True:
        document.report(("package", "profile"), "excludes package.source: sources have no code for traces")
