"""From a form without faults to a `ModelSpec`: with defaults, absolute paths, and an order that no file decides."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfaot_pkg.forms.form import Form
from tfaot_pkg.signature import Symbol
from tfaot_pkg.spec import rules
from tfaot_pkg.spec.form import CompilationForm, ModelForm, SignatureForm, SpecForm, TreesForm, ValidationForm
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL, Format
from tfaot_pkg.spec.rules import INPUT_CLASSES
from tfaot_pkg.spec.types import (
    DEFAULT_SAVED_MODEL,
    ArchiveSource,
    Compilation,
    FolderSource,
    GitSource,
    Limit,
    ModelInfo,
    ModelSpec,
    OperationFiles,
    PackageOptions,
    Signature,
    Source,
    Validation,
    Variables,
)
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.worker_program.messages.sources import TreesCall

JOINED = "tfaot-pkg signatures"
"""The key of the signature that all of `model.signatures` are joined to."""


def spec_of(form: SpecForm, path: Path) -> ModelSpec:
    """The spec of the file at the absolute `path`."""
    source, files = _source(form, path.parent)
    return ModelSpec(
        path=path,
        model=_model(form, files),
        source=source,
        compilation=_compilation(form.compilation),
        validation=_validation(form.validation, path.parent),
        package=PackageOptions(**_given(form.package)) if form.package else PackageOptions(),
    )


def _model(spec: SpecForm, files: Mapping[str, str]) -> ModelInfo:
    form = spec.model
    given = {**_given(form), **{field: path for field, path in files.items() if "." not in field}}
    # A spec has operations under `compilation`, but their files are read with the model's.
    given["operations"] = {
        name: OperationFiles(source=files[f"{name}.source"], reference=files[f"{name}.reference"])
        for name in sorted(spec.compilation.operations or {})
    }
    if form.tags:
        given["tags"] = tuple(dict.fromkeys(form.tags))
    given |= _names("input", form.inputs or []) | _names("output", _outputs(form))
    # Sorted, as everything whose order in the file means nothing: it must not change the package's key.
    if form.shapes:
        given |= _shapes({name: tuple(shape) for name, shape in sorted(form.shapes.items())})
    given |= {"counts": dict(sorted((form.counts or {}).items()))}
    given |= {"feeds": tuple(form.feeds or ()), "constants": dict(form.constants or {})}
    given["keywords"] = tuple(form.keywords or ())
    if spec.trees is not None:
        given["call"] = _call(spec.trees)
    if form.signatures:
        given |= {"serving_key": JOINED, "signatures": _signatures(form.signatures)}
    return ModelInfo(**given)


def _call(form: TreesForm) -> TreesCall:
    given = _given(form)
    # As a text, because JSON has no NaN, and NaN equals nothing: specs are compared, and are parts of keys.
    return TreesCall(**{**given, **({"missing": repr(given["missing"])} if "missing" in given else {})})


def _signatures(forms: Mapping[str, SignatureForm]) -> tuple[Signature, ...]:
    """Sorted, so that the order in the file does not change the package's key."""
    return tuple(
        Signature(
            name=name,
            serving_key=form.serving_key or name,
            **_names("input", form.inputs or []),
            **_names("output", form.outputs or []),
        )
        for name, form in sorted(forms.items())
    )


def _format(form: ModelForm) -> Format:
    return next((field for field in FILE_FORMATS if getattr(form, field)), SAVED_MODEL)


def _outputs(form: ModelForm) -> list[str | Mapping[str, str]]:
    """`model.outputs`; the numbers of rows have their names already, and need not be listed."""
    listed = list(form.outputs or [])
    keys = {each if isinstance(each, str) else next(iter(each)) for each in listed}
    return [*listed, *sorted(set((form.counts or {}).values()) - keys)] if listed else []


def _names(kind: str, names: Sequence[str | Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """`inputs` and `input_keys` of ModelInfo, or those of outputs."""
    pairs = [(name, name) if isinstance(name, str) else next(iter(name.items())) for name in names]
    # Not sorted: this is the order of the arguments in C++. No keys without a renaming, as if they were never given.
    keys, ours = tuple(key for key, _ in pairs), tuple(name for _, name in pairs)
    return {f"{kind}s": ours, f"{kind}_keys": () if keys == ours else keys}


def _shapes(shapes: Mapping[str, tuple[int | str | None, ...]]) -> dict[str, Any]:
    """`shapes`, `axes` and `symbols` of ModelInfo."""
    symbols = symbols_in(shapes)
    maxima = {symbol.name: symbol.maximum for symbol in symbols}
    axes = {
        name: tuple(rules.symbol_of(axis)[0] if isinstance(axis, str) else "" for axis in shape)
        for name, shape in shapes.items()
    }
    sizes = {
        name: tuple(maxima.get(symbol, size) for symbol, size in zip(axes[name], shape, strict=True))
        for name, shape in shapes.items()
    }
    return {
        "shapes": sizes,
        "axes": {name: found for name, found in axes.items() if any(found)},
        "symbols": symbols,
    }


def symbols_in(shapes: Mapping[str, tuple[int | str | None, ...]]) -> tuple[Symbol, ...]:
    """The symbols of all shapes, by name."""
    found: dict[str, Symbol] = {}
    for axis in (axis for shape in shapes.values() for axis in shape if isinstance(axis, str)):
        name, minimum, maximum = rules.symbol_of(axis)
        if maximum is not None:
            found.setdefault(name, Symbol(name=name, minimum=1 if minimum is None else minimum, maximum=maximum))
    return tuple(found[name] for name in sorted(found))


def _source(form: SpecForm, folder: Path) -> tuple[Source, Mapping[str, str]]:
    """The source, and the paths of the model's files in it by their fields."""
    files = _files(form)
    source = form.source
    if source is None:
        return _beside_the_spec(files, folder)
    subdir = posixpath.normpath(source.subdir) if source.subdir else ""
    subdir = "" if subdir == "." else subdir
    # Ids in lower case, as git and sha256sum write them: another spelling must not change the package's key.
    if source.revision is not None:
        url = str(source.git or source.url)
        return GitSource(url=url, revision=source.revision.lower(), subdir=subdir), files
    if source.sha256 is not None:
        return ArchiveSource(url=str(source.url), sha256=source.sha256.lower(), subdir=subdir), files
    return FolderSource(path=absolute(str(source.path), folder) / subdir), files


def _files(spec: SpecForm) -> dict[str, str]:
    """By the fields of `model`; those of operations by NAME.source and NAME.reference."""
    form, kind = spec.model, _format(spec.model)
    named = {kind: getattr(form, kind) or DEFAULT_SAVED_MODEL, "config": form.config, "checkpoint": form.checkpoint}
    for name, operation in (spec.compilation.operations or {}).items():
        named |= {f"{name}.source": operation.source, f"{name}.reference": operation.reference}
    # `./model` and `model` are one file, and must give one key.
    return {field: posixpath.normpath(path) for field, path in named.items() if path}


def _beside_the_spec(files: Mapping[str, str], folder: Path) -> tuple[FolderSource, Mapping[str, str]]:
    """The source of a spec without `source`: the spec's folder if it holds all files, else the lowest folder that does.

    cms-tfaot lets `saved_model` be outside the spec's folder.
    """
    places = {field: absolute(path, folder) for field, path in files.items()}
    root = folder
    if not all(place.is_relative_to(folder) for place in places.values()):
        root = Path(os.path.commonpath([place.parent for place in places.values()]))
    return FolderSource(path=root), {field: place.relative_to(root).as_posix() for field, place in places.items()}


def _compilation(form: CompilationForm) -> Compilation:
    given: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in _given(form).items()
    }
    given.pop("operations", None)  # files of the model (ModelInfo)
    # Sorted, so that the order in the file does not change the package's key.
    given["batch_sizes"] = tuple(sorted(set(form.batch_sizes)))
    if form.variables is not None:
        named = _given(form.variables)
        given["variables"] = Variables(**{kind: tuple(sorted(names)) for kind, names in named.items()})
    if form.targets:
        given["targets"] = tuple(sorted(form.targets, key=lambda name: TARGETS[name].level))
    return Compilation(**given)


def _validation(form: ValidationForm | None, folder: Path) -> Validation:
    given = _given(form) if form else {}
    if form and form.inputs:
        given["inputs"] = absolute(form.inputs, folder)
    # In the order of INPUT_CLASSES, so that the order in the file does not change the package's key.
    if form and form.classes is not None:
        given["classes"] = tuple(name for name in INPUT_CLASSES if name in form.classes)
    given["ranges"] = {
        name: (_limit(low), _limit(high)) for name, (low, high) in sorted(((form and form.ranges) or {}).items())
    }
    return Validation(**given)


def _limit(value: float | str) -> Limit:
    if not isinstance(value, str):
        return Limit(number=value)
    symbol, number = rules.limit_of(value)
    return Limit(number=number, symbol=symbol)


def _given(form: Form) -> dict[str, Any]:
    """The fields that the file gives; texts as plain `str`, whether an expression made them or not."""
    return {key: value for key, value in form.model_dump().items() if value is not None}


def absolute(path: str, folder: Path) -> Path:
    """A path of a spec, which is relative to the spec's `folder`."""
    return Path(os.path.abspath(folder / os.path.expanduser(path)))
