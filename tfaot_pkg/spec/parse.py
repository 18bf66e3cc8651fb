"""Read a spec file into a `ModelSpec`, or report all its faults in the file's order, with line and path."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.forms import document as yaml_document
from tfaot_pkg.ground.forms.document import MAX_BYTES, Document, read_document
from tfaot_pkg.ground.forms.form import faults_error, read_content, unknown_among, validated
from tfaot_pkg.ground.wording import described, shown
from tfaot_pkg.spec.expand import expand
from tfaot_pkg.spec.form import REFERENCE, SECTIONS, SpecForm, form_of
from tfaot_pkg.spec.formats import format_of
from tfaot_pkg.spec.from_form import absolute, given, spec_of
from tfaot_pkg.spec.rules import name_fault, tensorflow_fault
from tfaot_pkg.spec.together import check_symbols, check_together
from tfaot_pkg.spec.tuning import read_tuning, tuning_path
from tfaot_pkg.spec.types import Bars, Compilation, ModelSpec, Signature

# Strings that YAML may read as numbers: 1.10 is not 1.1, and a digest may have no letter in it.
_VERBATIM = (("model", "version"), ("compilation", "tensorflow"), ("source", "sha256"), ("source", "revision"))
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

    The only file that it may open is that of the model card, and only with `reads_card`: a spec of a package or of
    CMSDIST must not choose files of this machine.
    """
    document = read_document(content, str(path))
    if not isinstance(document.data, dict):
        _report_no_mapping(document)
        raise faults_error(document, REFERENCE)
    given = _Defines(defines or {})
    # Expressions first: the form checks their results, with the lines of the expressions.
    failed = expand(document, given)
    _prepare(document)
    at = Path(os.path.abspath(path))
    card = _take_card(document, at.parent) if reads_card else None
    form = validated(SpecForm, document.data, document, unknown_key=_unknown_key, failed=failed, special=_special)
    # On the document, also if the form has faults, so that all are reported at once; symbols need a whole form.
    check_together(document, failed)
    if form is not None:
        check_symbols(document, form)
    if document.faults or form is None:
        raise faults_error(document, REFERENCE)
    return replace(spec_of(form, at), defines=given.used, card_file=card)


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
            there = path / "spec.yaml"
            raise SpecError(
                f"{path}: is a folder, not a spec",
                hint=f"name the file: {there}"
                if there.is_file()
                else f"for a model's first spec: tfaot-pkg init {path}",
            )
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
        if values is not None or section not in SECTIONS
    }


def _take_card(document: Document, folder: Path) -> Path | None:
    """Put the text of a model card's file, if `model.card` names one, in the place of its name. Returns its path."""
    model = document.data.get("model")
    card = model.get("card") if isinstance(model, dict) else None
    if not isinstance(card, str) or "\n" in card or not card.endswith(".md"):
        return None
    file = absolute(card, folder)
    try:
        if not file.is_file():  # reading a pipe would wait for a writer
            raise FileNotFoundError(0, "no such file")
        with file.open("rb") as opened:
            # The text is a part of the package's key: line ends of another system must not change it.
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
    return list(SECTIONS[section].model_fields) if section in SECTIONS else []


def _special(path: yaml_document.Path, value: object) -> str:
    if path == ("source",) and isinstance(value, str):
        return "must be a folder, or a mapping: url and sha256 for an archive, git and revision for a repository"
    return ""


def _unknown_key(path: yaml_document.Path) -> str:
    if path[:2] == ("model", "signatures"):
        return unknown_among(str(path[-1]), list(form_of(Signature).model_fields))
    if path[:2] == ("validation", "accuracy"):
        return unknown_among(str(path[-1]), list(form_of(Bars).model_fields))
    key, section = str(path[-1]), str(path[0]) if len(path) > 1 else ""
    known = _known(section) if section else list(SECTIONS)
    homes = [name for name in SECTIONS if key in _known(name)]
    if homes:
        return f"unknown key: it belongs under {' or '.join(homes)}"
    elsewhere = {field: name for name in SECTIONS for field in _known(name)}
    # A misspelled key of this section is more likely than one of another section.
    is_like_known = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    if not is_like_known and (near := difflib.get_close_matches(key, list(elsewhere), n=1, cutoff=0.75)):
        return f"unknown key; did you mean {elsewhere[near[0]]}.{near[0]}?"
    return unknown_among(key, known)


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
    # The form requires batch sizes, so the spec's own stand for those that are not given.
    options = {"batch_sizes": [*batch_sizes] or [*spec.compilation.batch_sizes], "targets": [*targets] or None}
    changed: dict[str, Any] = {"tensorflow": tensorflow} if tensorflow else {}
    try:
        # The form's rules apply to options as well, with the same messages.
        changed |= given(Compilation, SECTIONS["compilation"].model_validate(options))
    except ValidationError as error:
        faults += [f"{_OPTIONS[str(details['loc'][0])]}: {details['msg']}" for details in error.errors()]
    if faults:
        raise SpecError("\n".join(faults), hint="`tfaot-pkg build --help` describes these options")
    return replace(
        spec,
        model=replace(spec.model, name=name or spec.model.name),
        compilation=replace(spec.compilation, **changed),
        package=replace(spec.package, tools=tools or spec.package.tools),
        # `build --name`: measurements are of the files, so they stay, although the tuning file has the spec's name.
        tuning=replace(spec.tuning, model=name) if spec.tuning is not None and name is not None else spec.tuning,
    )
