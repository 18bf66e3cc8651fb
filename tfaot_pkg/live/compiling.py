"""`tfaot_pkg.compile`: from a live object to a verified, loaded model. Results are kept by content."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import re
import sys
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground.progress import Progress, Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import locked
from tfaot_pkg.live.model import ABOUT, SPEC, CompiledModel
from tfaot_pkg.live.source import Adaptor, LiveSource, OwnAnswers

_ADAPTORS: Mapping[str, str] = {
    "onnx": "onnx", "sklearn": "sklearn", "xgboost": "boosters", "lightgbm": "boosters", "catboost": "boosters",
    "torch": "torch", "flax": "jax", "equinox": "jax", "jax": "jax", "jaxlib": "jax", "keras": "keras",
    "tf_keras": "keras", "tensorflow": "tensorflow",
}  # fmt: skip
"""Modules of adaptors, by the package that the class of an object, or one of its bases, comes from."""
_TITLES = (
    "models of Keras, PyTorch, Flax, Equinox, scikit-learn, XGBoost, LightGBM and CatBoost, modules and functions of "
    "TensorFlow, functions of JAX, onnx.ModelProto, and paths of SavedModels, of files of models and of specs"
)
_COMPLETE = ".complete"


def compile(  # noqa: A001 (the word of the field; users write tfaot_pkg.compile)
    net: Any,
    example: Any = None,
    *,
    name: str | None = None,
    version: str = "1.0.0",
    target: str | None = None,
    threads: int = 1,
    quiet: bool = False,
    spec: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> CompiledModel:
    """Compile a live model, verify it against its framework, and load it.

        model = tfaot_pkg.compile(forest, rows[:100])
        model(rows)["probabilities"]

    `net` is a model of Keras, PyTorch, Flax, Equinox, scikit-learn, XGBoost, LightGBM or CatBoost, a module or function
    of TensorFlow, a function of JAX, an onnx.ModelProto, or the path of a SavedModel, of a model's file, or of a spec.
    `example` is what it is called with: an array of some rows, or a tuple or mapping of arrays. Frameworks whose models
    have no sizes of their own need it.

    `spec` has further sections of the spec, such as {"validation": {"rtol": 1e-3}}; `name` and `version` are those of
    the package. `target` and `threads` are as in `load`. `quiet` shows no progress. `options` are those of the
    framework's exporter: see the documentation of Python.

    The package is kept in the user's cache: a second call with the same content builds nothing. Raises TfaotError, with
    the messages and hints of the command line.
    """
    from tfaot_pkg.live.progress import progress_of

    folders, progress = Folders.of_user(), Silent() if quiet else progress_of()
    if _is_spec(net):
        _require_none(options)
        return _of_spec(Path(net), folders, progress, target=target, threads=threads)
    source = _source_of(net, example, options)
    _require_none(options)
    title = name or _name_of(net)
    wanted = {"model": {"name": title, "version": version}}
    sections = _merged(_merged(source.sections, spec or {}), wanted)
    place = folders.cache / "live" / _key(source, sections)
    if not (place / _COMPLETE).exists():
        with locked(place.with_suffix(".lock"), what="this model", timeout=3600):
            if not (place / _COMPLETE).exists():
                _build(source, sections, place, folders, progress)
    return CompiledModel(place, target, threads, progress=progress)


def _is_spec(net: Any) -> bool:
    return isinstance(net, str | os.PathLike) and Path(net).suffix in (".yaml", ".yml")


def _require_none(options: Mapping[str, Any]) -> None:
    if options:
        raise TypeError(f"compile() got unexpected options for this model: {', '.join(sorted(options))}")


def _source_of(net: Any, example: Any, options: dict[str, Any]) -> LiveSource:
    if isinstance(net, str | os.PathLike):
        from tfaot_pkg.live.adaptors import files

        found = files.source_of(net, example, options)
        assert found is not None
        return found
    for package in _packages_of(net, example):
        if package in _ADAPTORS:
            adaptor: Adaptor = importlib.import_module(f"tfaot_pkg.live.adaptors.{_ADAPTORS[package]}")
            if (source := adaptor.source_of(net, example, options)) is not None:
                return source
    kind = f"{type(net).__module__}.{type(net).__qualname__}"
    raise ModelError(f"a {kind} is no model that tfaot-pkg knows", hint=f"compile takes {_TITLES}")


def _packages_of(net: Any, example: Any) -> list[str]:
    """The packages that `net` may be a model of: those of its class and bases; of a function, those that are loaded."""
    found = [base.__module__.partition(".")[0] for base in type(net).__mro__]
    if isinstance(net, types.FunctionType | types.MethodType | functools.partial):
        # The type of the example decides if both are there.
        of_example = type(example).__module__.partition(".")[0]
        loaded = [each for each in ("jax", "tensorflow") if each in sys.modules]
        found = sorted(loaded, key=lambda each: each != of_example.replace("jaxlib", "jax"))
    return [*dict.fromkeys(found)]


def _name_of(net: Any) -> str:
    """`RandomForestClassifier` becomes random_forest_classifier, a path the name of its file."""
    from tfaot_pkg.spec.rules import name_fault

    if isinstance(net, str | os.PathLike):
        from tfaot_pkg.pipeline.check import name_from

        return name_from(Path(net))
    name = getattr(net, "__name__", None) or type(net).__name__
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|\W+", "_", str(name)).lower().strip("_")
    return words if words and not name_fault(words) else "model"


def _merged(first: Mapping[str, Mapping[str, Any]], second: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    sections = [*first, *(each for each in second if each not in first)]
    return {each: {**first.get(each, {}), **second.get(each, {})} for each in sections}


@cache
def _tool() -> str:
    """The state of the tool's own files: results of another version are not taken for those of this one."""
    from tfaot_pkg.ground import resources

    roots = (Path(__file__).resolve().parents[1], resources.templates(), resources.headers().parent)
    found = hashlib.sha256(__version__.encode())
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(each for each in folders if each != "__pycache__")
            for file in sorted(files):
                status = os.stat(os.path.join(folder, file))
                found.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _key(source: LiveSource, sections: Mapping[str, Any]) -> str:
    found = hashlib.sha256(_tool().encode())
    settings = json.dumps([source.framework, source.order, sections], sort_keys=True, default=str).encode()
    for part in (settings, *source.content):
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()[:32]


def _build(source: LiveSource, sections: Mapping[str, Any], place: Path, folders: Folders, progress: Progress) -> None:
    import shutil

    from tfaot_pkg.pipeline.check import scaffold_spec
    from tfaot_pkg.pipeline.pipeline import Pipeline

    # What an interrupted build left.
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    pipeline = Pipeline(folders=folders, progress=progress)
    model, told = source.write(place), sections["model"]
    first, found = scaffold_spec(
        model,
        place / "first.yaml",
        name=told["name"],
        version=told["version"],
        signature=told.get("serving_key", "serving_default"),
        tensorflow=sections.get("compilation", {}).get("tensorflow"),
        beside={},
        pipeline=pipeline,
    )
    # A section that the caller gives may be what the first spec lacks.
    if found.fault is not None and told.keys() <= {"name", "version"}:
        raise found.fault
    for note in found.notes:
        progress.note(f"note: {note}")
    taken = [each.name for each in found.signature.inputs]
    if len(source.order) > 1 and sorted(source.order) == sorted(taken) and not first.model.inputs:
        sections = _merged({"model": {"inputs": list(source.order)}}, sections)
    _write_spec(place / "first.yaml", place / SPEC, sections)
    _built(place, place / SPEC, pipeline, source.own)


def _write_spec(first: Path, target: Path, sections: Mapping[str, Any]) -> None:
    import yaml

    document = yaml.safe_load(first.read_text())
    target.write_text(yaml.safe_dump(_merged(document, sections), sort_keys=False, allow_unicode=True))


def _built(place: Path, spec: Path, pipeline: Any, own: OwnAnswers | None = None) -> None:
    """Build the package of `spec` into `place`, which is complete after this. Raises TfaotError."""
    from tfaot_pkg.live.own_answers import compared
    from tfaot_pkg.live.report import report_of
    from tfaot_pkg.package.prefix.install import install_built
    from tfaot_pkg.spec.parse import load_spec

    made = pipeline.build(pipeline.plan(load_spec(spec)))
    install_built(made.tree, made.plan.key, place / "prefix")
    package, text = made.tree.package_name, report_of(made)
    if own is not None:
        text += "\n" + compared(place / "prefix" / "lib" / f"lib{package}.so", own)
    (place / ABOUT).write_text(json.dumps({"spec": str(spec), "package": package, "report": text}))
    (place / _COMPLETE).touch()


def _of_spec(spec: Path, folders: Folders, progress: Progress, *, target: str | None, threads: int) -> CompiledModel:
    """The model of a spec, whose files stay where they are: kept by the key of its package."""
    from tfaot_pkg.pipeline.pipeline import Pipeline
    from tfaot_pkg.spec.parse import load_spec

    pipeline = Pipeline(folders=folders, progress=progress)
    plan = pipeline.plan(load_spec(spec))
    place = folders.cache / "live" / hashlib.sha256(f"{plan.key} {spec.absolute()}".encode()).hexdigest()[:32]
    if not (place / _COMPLETE).exists():
        with locked(place.with_suffix(".lock"), what="this model", timeout=3600):
            place.mkdir(parents=True, exist_ok=True)
            _built(place, spec.absolute(), pipeline)
    return CompiledModel(place, target, threads, progress=progress)
