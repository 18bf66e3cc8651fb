"""From a form without faults to a `ModelSpec`: with defaults, absolute paths, and an order that no file decides."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tfaot_pkg.ground.forms.form import Form
from tfaot_pkg.ground.signature import Symbol
from tfaot_pkg.spec import rules
from tfaot_pkg.spec.form import keys_of
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL, Format
from tfaot_pkg.spec.types import (
    DEFAULT_SAVED_MODEL,
    FILE_TYPES,
    ArchiveSource,
    Bars,
    Compilation,
    FolderSource,
    GitSource,
    ModelFiles,
    ModelInfo,
    ModelSpec,
    OperationFiles,
    PackageOptions,
    Signature,
    Source,
    Trees,
    Validation,
    files_of,
)
from tfaot_pkg.worker_program.messages.sources import TreesCall

JOINED = "tfaot-pkg signatures"
"""The key of the signature that all of `model.signatures` are joined to."""


def spec_of(form: Any, path: Path) -> ModelSpec:
    """The spec of the file at the absolute `path`, which a SpecForm has read."""
    source, files = _source(form, path.parent)
    validation = given(Validation, form.validation)
    for key in ("inputs", "labels"):
        if key in validation:
            validation[key] = absolute(validation[key], path.parent)
    accuracy = (form.validation and form.validation.accuracy) or {}
    validation["accuracy"] = {name: Bars(**given(Bars, bars)) for name, bars in sorted(accuracy.items())}
    compilation = Compilation(**given(Compilation, form.compilation))
    if (calibration := compilation.precision.calibration) is not None:
        precision = replace(compilation.precision, calibration=absolute(str(calibration), path.parent))
        compilation = replace(compilation, precision=precision)
    return ModelSpec(
        path=path,
        model=_model(form, files),
        source=source,
        compilation=compilation,
        validation=Validation(**validation),
        package=PackageOptions(**given(PackageOptions, form.package)),
    )


def given(kind: type, form: Form | None) -> dict[str, Any]:
    """The fields of `kind` that the file gives, without those that are mappings of sections (Setting.by)."""
    values = [(key, getattr(form, key.name, None)) for key in keys_of(kind) if key.setting.by is None]
    return {
        key.field: key.part(**given(key.part, value)) if key.part else _frozen(value)
        for key, value in values
        if value is not None
    }


def _frozen(value: Any) -> Any:
    """Mappings are sorted, as their order in the file means nothing: it must not change the package's key."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {str(key): _frozen(each) for key, each in sorted(value.items())}
    return str(value) if isinstance(value, str) else value  # an expression's result too (expand.Expanded)


def _model(spec: Any, files: Mapping[str, str]) -> ModelInfo:
    form = spec.model
    found = given(ModelInfo, form) | {"files": _model_files(form, files)}
    # A spec has operations under `compilation`, but their files are read with the model's.
    found["operations"] = {
        name: OperationFiles(source=files[f"{name}.source"], reference=files[f"{name}.reference"])
        for name in sorted(spec.compilation.operations or {})
    }
    found |= _names("input", form.inputs or []) | _names("output", _outputs(form))
    found |= _shapes(found.get("shapes", {}))
    if spec.trees is not None:
        call = asdict(Trees(**given(Trees, spec.trees)))
        found["call"] = TreesCall(**{name: value for name, value in call.items() if value})
    return ModelInfo(**found)


def _model_files(form: Any, files: Mapping[str, str]) -> ModelFiles:
    kind = _format(form)
    found = given(FILE_TYPES[kind], form) if kind in FILE_TYPES else {}
    beside = {name: path for name, path in files.items() if name in found}
    if form.signatures:
        found |= {"serving_key": JOINED, "signatures": _signatures(form.signatures)}
    return files_of(kind, **found | beside | {"path": files[kind]})


def _signatures(forms: Mapping[str, Any]) -> tuple[Signature, ...]:
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


def _format(form: Any) -> Format:
    return next((field for field in FILE_FORMATS if getattr(form, field)), SAVED_MODEL)


def _outputs(form: Any) -> list[str | Mapping[str, str]]:
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


def _source(form: Any, folder: Path) -> tuple[Source, Mapping[str, str]]:
    """The source, and the paths of the model's files in it by their fields."""
    files = _files(form)
    source = form.source
    if source is None:
        return _beside_the_spec(files, folder)
    subdir = posixpath.normpath(source.subdir) if source.subdir else ""
    subdir = "" if subdir == "." else subdir
    if source.revision is not None:
        url = str(source.git or source.url)
        return GitSource(url=url, revision=str(source.revision), subdir=subdir), files
    if source.sha256 is not None:
        return ArchiveSource(url=str(source.url), sha256=str(source.sha256), subdir=subdir), files
    return FolderSource(path=absolute(str(source.path), folder) / subdir), files


def _files(spec: Any) -> dict[str, str]:
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


def absolute(path: str, folder: Path) -> Path:
    """A path of a spec, which is relative to the spec's `folder`."""
    return Path(os.path.abspath(folder / os.path.expanduser(path)))
