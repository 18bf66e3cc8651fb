"""Read a spec file into a `ModelSpec`, or report all its faults in the file's order, with line and path."""

from __future__ import annotations

import difflib
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tfaot_pkg.errors import SpecError
from tfaot_pkg.forms import document as yaml_document
from tfaot_pkg.forms.document import MAX_BYTES, Document, read_document
from tfaot_pkg.forms.form import Form, faults_error, read_content, unknown_among, validated
from tfaot_pkg.signature import Symbol
from tfaot_pkg.spec import rules
from tfaot_pkg.spec.expand import expand
from tfaot_pkg.spec.form import (
    REFERENCE,
    CompilationForm,
    ModelForm,
    PackageForm,
    SignatureForm,
    SourceForm,
    SpecForm,
    ValidationForm,
)
from tfaot_pkg.spec.formats import FILE_FORMATS, SAVED_MODEL, Format, format_of
from tfaot_pkg.spec.rules import (
    INPUT_CLASSES,
    archive_url_fault,
    git_url_fault,
    inner_path_fault,
    name_fault,
    tensorflow_fault,
)
from tfaot_pkg.spec.tuning import read_tuning, tuning_path
from tfaot_pkg.spec.types import (
    DEFAULT_SAVED_MODEL,
    ArchiveSource,
    Compilation,
    FolderSource,
    GitSource,
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
from tfaot_pkg.wording import described, shown

_SECTIONS: dict[str, type[Form]] = {
    "model": ModelForm,
    "source": SourceForm,
    "compilation": CompilationForm,
    "validation": ValidationForm,
    "package": PackageForm,
}
# Strings that YAML may read as numbers: 1.10 is not 1.1, and a digest may have no letter in it.
_VERBATIM = (("model", "version"), ("compilation", "tensorflow"), ("source", "sha256"), ("source", "revision"))
_PINS = {"revision": "the full id of a commit", "sha256": "the digest of the archive"}
JOINED = "tfaot-pkg signatures"
"""The key of the signature that all of `model.signatures` are joined to."""
_INIT_HINT = "`tfaot-pkg init MODEL` writes a first spec"


def load_spec(path: Path, defines: Mapping[str, str] | None = None) -> ModelSpec:
    """Read the spec at `path`; `defines` are the values of `env.*` in its expressions.

    The tuning file beside it and the file of its model card are read too; other files that the spec names are not
    opened. Raises SpecError with every fault of the spec, or of the tuning file; faults show the path as it was given.
    """
    spec = parse_spec(_content(path), path, defines, reads_card=True)
    return replace(spec, tuning=read_tuning(tuning_path(path), spec.model.name))


def parse_spec(
    content: bytes, path: Path, defines: Mapping[str, str] | None = None, *, reads_card: bool = False
) -> ModelSpec:
    """As `load_spec`, for the `content` of the file at `path`, which is not read and need not exist.

    Only if it `reads_card` is a file opened, that of the model card: a spec may come from elsewhere.
    """
    document = read_document(content, str(path))
    if not isinstance(document.data, dict):
        _report_no_mapping(document)
        raise faults_error(document, REFERENCE)
    given = _Defines(defines or {})
    # Expressions first: the form checks their results, with the lines of the expressions.
    failed = expand(document, given)
    _prepare(document)
    absolute = Path(os.path.abspath(path))
    card = _take_card(document, absolute.parent) if reads_card else None
    form = validated(SpecForm, document.data, document, unknown_key=_unknown_key, failed=failed, special=_special)
    # Also if the form has faults, so that all are reported at once.
    _check_model(document)
    _check_source(document, failed)
    _check_validation(document)
    _check_package(document)
    if form is not None:
        _check_symbols(document, form)
    if document.faults or form is None:
        raise faults_error(document, REFERENCE)
    return replace(_spec(form, absolute), defines=given.used, card_file=card)


class _Defines(dict[str, str]):
    """Values of `env.*`; `used` has those that expressions used."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.used: dict[str, str] = {}

    def __getitem__(self, key: str) -> str:
        # Only these belong to the provenance: a registry gives all specs the same defines.
        self.used[key] = value = super().__getitem__(key)
        return value


def _content(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise SpecError(f"{path}: is a folder: name the spec file in it", hint=_INIT_HINT)
        if found := format_of(path):
            raise SpecError(
                f"{path}: is {found.title}, not a spec", hint=f"`tfaot-pkg init {path}` writes a first spec for it"
            )
        # Reading a pipe would wait for a writer.
        if path.exists() and not path.is_file():
            raise SpecError(f"{path}: is not a regular file", hint=_INIT_HINT)
    except (OSError, ValueError) as error:  # a name may be too long, or hold what no name can
        reason = getattr(error, "strerror", None) or str(error)
        raise SpecError(f"{path}: cannot read the spec: {reason}", hint=_INIT_HINT) from error
    return read_content(path, "spec", hint=_INIT_HINT)


def _report_no_mapping(document: Document) -> None:
    if document.faults:
        return
    if document.data is None:
        document.report((), "is empty: a spec needs at least model.name, model.version and compilation.batch_sizes")
    else:
        document.report((), f"must be a mapping with model and compilation, got {described(document.data)}")


def _prepare(document: Document) -> None:
    """Normalise the data for the form: no nulls for "not given", versions as written, a folder source as mapping."""
    data = document.data
    # An address alone has no digest, so only a folder may be a plain string.
    if isinstance(data.get("source"), str) and "://" not in data["source"]:
        data["source"] = {"path": data["source"]}
    for section, key in _VERBATIM:
        holder = data.get(section)
        if isinstance(holder, dict) and isinstance(holder.get(key), (int, float)):
            holder[key] = document.texts[section, key]
    document.data = {
        # Nulls of unknown keys stay: the form reports these keys.
        section: {key: value for key, value in values.items() if value is not None or key not in _known(section)}
        if isinstance(values, dict)
        else values
        for section, values in data.items()
        if values is not None or section not in _SECTIONS
    }


def _take_card(document: Document, folder: Path) -> Path | None:
    """Put the text of a model card's file, if `model.card` names one, in the place of its name. Returns its path."""
    model = document.data.get("model")
    card = model.get("card") if isinstance(model, dict) else None
    if not isinstance(card, str) or "\n" in card or not card.endswith(".md"):
        return None
    file = _absolute(card, folder)
    try:
        if not file.is_file():  # reading a pipe would wait for a writer
            raise FileNotFoundError(0, "no such file")
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES).decode("utf-8-sig").replace("\r\n", "\n").strip("\n")
    except UnicodeDecodeError:
        document.report(("model", "card"), f"{shown(card)} is not UTF-8 text")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        document.report(
            ("model", "card"), f"cannot read {shown(card)}: {reason} (one line that ends in .md is the path of a file)"
        )
    else:
        model["card"] = text + "\n" if text else ""
        return file
    del model["card"]
    return None


def _known(section: str) -> list[str]:
    return list(_SECTIONS[section].model_fields) if section in _SECTIONS else []


def _special(path: yaml_document.Path, value: object) -> str:
    if path == ("source",) and isinstance(value, str):
        return "must be a folder, or a mapping: url and sha256 for an archive, git and revision for a repository"
    return ""


def _unknown_key(path: yaml_document.Path) -> str:
    if path[:2] == ("model", "signatures"):
        return unknown_among(str(path[-1]), list(SignatureForm.model_fields))
    key, section = str(path[-1]), str(path[0]) if len(path) > 1 else ""
    known = _known(section) if section else list(_SECTIONS)
    homes = [name for name in _SECTIONS if key in _known(name)]
    if homes:
        return f"unknown key: it belongs under {' or '.join(homes)}"
    elsewhere = {field: name for name in _SECTIONS for field in _known(name)}
    # A typo of a key of this section is likelier than one of another section's.
    is_like_known = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if not is_like_known and (near := difflib.get_close_matches(key, list(elsewhere), n=1, cutoff=0.75)):
        return f"unknown key; did you mean {elsewhere[near[0]]}.{near[0]}?"
    return unknown_among(key, known)


def _check_source(document: Document, failed: set[yaml_document.Path]) -> None:
    """Check the keys of `source` together; the form has checked each alone."""
    source = document.data.get("source")
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
    places: list[yaml_document.Path] = [("model", key) for key in (SAVED_MODEL, *FILE_FORMATS, "config", "checkpoint")]
    operations = _at(document.data, ("compilation", "operations"))
    places += [
        ("compilation", "operations", name, kind)
        for name in (operations if isinstance(operations, dict) else {})
        for kind in ("source", "reference")
    ]
    for path in places:
        files = _at(document.data, path)
        reported = any(found == path for found, _ in document.faults)
        if isinstance(files, str) and not reported and (fault := inner_path_fault(files)):
            document.report(path, fault)


def _at(data: object, path: yaml_document.Path) -> object:
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
    _check_values(document, model)
    if "signatures" in model:
        _check_signatures(document, model)


def _check_signatures(document: Document, model: Mapping[str, Any]) -> None:
    """Check what goes with several signatures."""
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


def _check_symbols(document: Document, form: SpecForm) -> None:
    """Check symbols together: each has one range, which one of its axes gives, and needs a program."""
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
    if places and form.compilation is not None and form.compilation.engine == "xla":
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


def _spec(form: SpecForm, path: Path) -> ModelSpec:
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
    given["operations"] = {
        name: OperationFiles(source=files[f"{name}.source"], reference=files[f"{name}.reference"])
        for name in sorted(spec.compilation.operations or {})
    }
    if form.tags:
        given["tags"] = tuple(dict.fromkeys(form.tags))
    given |= _names("input", form.inputs or []) | _names("output", form.outputs or [])
    if form.shapes:
        given |= _shapes({name: tuple(shape) for name, shape in sorted(form.shapes.items())})
    given |= {"counts": dict(sorted((form.counts or {}).items()))}
    given |= {"feeds": tuple(form.feeds or ()), "constants": dict(form.constants or {})}
    given["keywords"] = tuple(form.keywords or ())
    if form.signatures:
        given |= {"serving_key": JOINED, "signatures": _signatures(form.signatures)}
    return ModelInfo(**given)


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


def _names(kind: str, names: Sequence[str | Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """`inputs` and `input_keys` of ModelInfo, or those of outputs."""
    pairs = [(name, name) if isinstance(name, str) else next(iter(name.items())) for name in names]
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
    if source.revision is not None:
        url = str(source.git or source.url)
        return GitSource(url=url, revision=source.revision.lower(), subdir=subdir), files
    if source.sha256 is not None:
        return ArchiveSource(url=str(source.url), sha256=source.sha256.lower(), subdir=subdir), files
    return FolderSource(path=_absolute(str(source.path), folder) / subdir), files


def _files(spec: SpecForm) -> dict[str, str]:
    """By the fields of `model`; those of operations by NAME.source and NAME.reference."""
    form, kind = spec.model, _format(spec.model)
    named = {kind: getattr(form, kind) or DEFAULT_SAVED_MODEL, "config": form.config, "checkpoint": form.checkpoint}
    for name, operation in (spec.compilation.operations or {}).items():
        named |= {f"{name}.source": operation.source, f"{name}.reference": operation.reference}
    return {field: posixpath.normpath(path) for field, path in named.items() if path}


def _beside_the_spec(files: Mapping[str, str], folder: Path) -> tuple[FolderSource, Mapping[str, str]]:
    """cms-tfaot lets `saved_model` be outside the spec's folder: then its parent folder is the source.

    Of several files, one of which is outside, the lowest folder above all is.
    """
    places = {field: _absolute(path, folder) for field, path in files.items()}
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
        given["inputs"] = _absolute(form.inputs, folder)
    if form and form.classes is not None:
        given["classes"] = tuple(name for name in INPUT_CLASSES if name in form.classes)
    return Validation(**given)


def _given(form: Form) -> dict[str, Any]:
    """The fields that the file gives; texts as plain `str`, whether an expression made them or not."""
    return {key: value for key, value in form.model_dump().items() if value is not None}


def _absolute(path: str, folder: Path) -> Path:
    return Path(os.path.abspath(folder / os.path.expanduser(path)))


_OPTIONS = {"batch_sizes": "--batch-size", "targets": "--target"}


def override(
    spec: ModelSpec,
    *,
    name: str | None = None,
    targets: Sequence[str] = (),
    batch_sizes: Sequence[int] = (),
    tools: bool = False,
    tensorflow: str | None = None,
) -> ModelSpec:
    """`spec` with the given name, targets, batch sizes and toolchain in place of its own; `tools` adds the programs.

    Expressions in the spec that use model.name keep the spec's own name. Raises SpecError with every fault, by option.
    """
    faults = [f"--name: {fault}"] if name is not None and (fault := name_fault(name)) else []
    if tensorflow is not None and (fault := tensorflow_fault(tensorflow)):
        faults.append(f"--tensorflow: {fault}")
    given = {"batch_sizes": [*batch_sizes] or [*spec.compilation.batch_sizes], "targets": [*targets] or None}
    try:
        # The form's rules apply to options as well, with the same messages.
        CompilationForm.model_validate(given)
    except ValidationError as error:
        faults += [f"{_OPTIONS[str(details['loc'][0])]}: {details['msg']}" for details in error.errors()]
    if faults:
        raise SpecError("\n".join(faults), hint="`tfaot-pkg build --help` describes these options")
    compilation = replace(
        spec.compilation,
        targets=tuple(sorted(targets, key=lambda target: TARGETS[target].level)) or spec.compilation.targets,
        batch_sizes=tuple(sorted(set(batch_sizes))) or spec.compilation.batch_sizes,
        tensorflow=tensorflow or spec.compilation.tensorflow,
    )
    return replace(
        spec,
        model=replace(spec.model, name=name or spec.model.name),
        compilation=compilation,
        package=replace(spec.package, tools=tools or spec.package.tools),
        tuning=replace(spec.tuning, model=name) if spec.tuning is not None and name is not None else spec.tuning,
    )
