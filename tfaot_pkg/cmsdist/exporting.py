"""From a spec to a `tfaot-model-*.spec` of CMSDIST and the aot_config.yaml that it refers to."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.forms.document import Dumper
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.wording import shown
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.expand import without_expressions
from tfaot_pkg.spec.types import (
    FULL,
    ArchiveSource,
    Compilation,
    FolderSource,
    GitSource,
    ModelInfo,
    ModelSpec,
    PackageOptions,
    Source,
    Validation,
)

_ALWAYS = {("model", "name"), ("model", "version"), ("model", "saved_model"), ("compilation", "batch_sizes")}


class _Dumper(Dumper):
    """Mappings line by line, lists in one line."""


_Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)
)


def spec_text(spec: ModelSpec, *, comment: str = "", with_source: bool = True) -> str:
    """The text of a file at `spec.path` that `load_spec` reads as `spec` (except its tuning and defines)."""
    document = shortened(spec)
    if with_source and spec.source != FolderSource(path=spec.folder):
        document["source"] = _source(spec.source, spec.folder)
    if spec.validation.inputs is not None:
        document.setdefault("validation", {})["inputs"] = _relative(spec.validation.inputs, spec.folder)
    if spec.validation.labels is not None:
        document.setdefault("validation", {})["labels"] = _relative(spec.validation.labels, spec.folder)
    if (calibration := spec.compilation.precision.calibration) is not None:
        document["compilation"]["precision"]["calibration"] = _relative(calibration, spec.folder)
    order = [section for section in ("model", "source", "compilation", "validation", "package") if section in document]
    plain = {section: without_expressions(document[section]) for section in order}
    text = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return "".join(f"# {line}\n" for line in comment.splitlines()) + text


def shortened(spec: ModelSpec) -> dict[str, Any]:
    """The sections of `spec` without default values and without paths of files."""
    default = ModelSpec(
        path=spec.path,
        model=ModelInfo(name="", version=""),
        source=spec.source,
        compilation=Compilation(batch_sizes=()),
        validation=Validation(),
        package=PackageOptions(),
    )
    bare = replace(spec, validation=replace(spec.validation, inputs=None, labels=None))
    defaults: Any = spec_document(default)
    given: Any = spec_document(bare)
    if spec.validation.inputs is not None:
        # They draw inputs: the parser rejects them beside a file of inputs.
        del given["validation"]["seed"], given["validation"]["samples"]
    short = {
        section: {
            key: value
            for key, value in values.items()
            if (section, key) in _ALWAYS or value != defaults[section].get(key)
        }
        for section, values in given.items()
        if section != "source"
    }
    return {section: values for section, values in short.items() if values}


def _source(source: Source, folder: Path) -> dict[str, str]:
    match source:
        case FolderSource():
            return {"path": _relative(source.path, folder)}
        case ArchiveSource():
            said = {"url": source.url, "sha256": source.sha256}
        case GitSource():
            said = {"git": source.url, "revision": source.revision}
    return {**said, **({"subdir": source.subdir} if source.subdir else {})}


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


CONFIG = "aot_config.yaml"
MODELS_FILE = "tfaot-models.file"

# The keys of an aot_config.yaml that cms-tfaot reads; it ignores others.
_KNOWN = {
    "model": {"name", "version", "saved_model", "serving_key", "author", "description"},
    "compilation": {"batch_sizes", "namespace", "tf_xla_flags", "xla_flags"},
}
_PLAIN = re.compile(r"[A-Za-z0-9._/+@-]+")  # needs no quotes in a shell
_DATA_PACKAGE = re.compile(r"data-[A-Za-z0-9][A-Za-z0-9-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPackage:
    """A data package of CMSDIST that holds the model's files, in its folder `path` ("": the usual folder)."""

    name: str
    path: str = ""

    def folder(self, model: str) -> str:
        """The folder of the files, as a path in a build script. Raises SpecError."""
        if not _DATA_PACKAGE.fullmatch(self.name):
            raise SpecError(
                f"{shown(self.name)} is not a data package of CMSDIST", hint="write it as data-PhysicsTools-Taggers"
            )
        # Packages of CMSSW are SUBSYSTEM/PACKAGE, which the first dash divides: data-PhysicsTools-Taggers.
        subsystem = self.name.removeprefix("data-").replace("-", "/", 1)
        path = _plain(self.path or f"{subsystem}/data/{model}", "the folder in the data package")
        return f"${self.name.upper().replace('-', '_')}_ROOT/{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """`spec_file` and `config` by their names in the output folder, with their texts.

    `models_lines` go into the list of models; `notes` tell the user what to do, and what CMSDIST cannot express.
    """

    spec_file: str
    config: str
    texts: dict[str, str]
    models_lines: tuple[str, ...]
    notes: tuple[str, ...]


def export_spec(spec: ModelSpec, *, data: DataPackage | None = None, branch: str = "master") -> Exported:
    """The files of CMSDIST for `spec`. A folder as source needs a data package; `branch` is that of a git source.

    Raises SpecError if CMSDIST cannot express the spec.
    """
    package = spec.model.package_name
    context, where = _source_context(spec, data, branch)
    text = render("cmsdist/tfaot-model-NAME.spec.j2", {"package": package, "version": spec.model.version, **context})
    config = f"{package}/{CONFIG}"
    config_text, notes = _config(spec, where)
    return Exported(
        spec_file=f"{package}.spec",
        config=config,
        texts={f"{package}.spec": text, config: config_text},
        models_lines=(f"Requires: {package}",),
        notes=(f"put {CONFIG} where the build finds it: {where}", *notes),
    )


def _source_context(spec: ModelSpec, data: DataPackage | None, branch: str) -> tuple[dict[str, object], str]:
    """The template's variables for the source, and a description of where aot_config.yaml goes."""
    none: dict[str, object] = {"git": None, "archive": None, "branch": _plain(branch, "the branch")}
    match spec.source:
        case GitSource(url=url, subdir=subdir):
            # CMSDIST appends its own options to the address: ?obj=BRANCH/COMMIT&export=...
            if "://" not in url or re.search(r"[?#%&\s]", url):
                raise SpecError(f"source.git: CMSDIST cannot fetch from {shown(url)}", hint="use an https:// address")
            inner = _plain(posixpath.join(subdir, CONFIG), "source.subdir")
            return {**none, "git": spec.source, "aot_config": inner}, f"{inner} in {url} (a new revision)"
        case ArchiveSource(url=url, subdir=subdir):
            unpacked, _, rest = subdir.partition("/")
            if not unpacked:
                raise SpecError(
                    "source.subdir: CMSDIST unpacks archives whose files are in one folder", hint="set source.subdir"
                )
            inner = _plain(posixpath.join(rest, CONFIG), "source.subdir")
            # RPM takes a single % for a macro.
            archive = {"url": url.replace("%", "%%"), "sha256": spec.source.sha256}
            context = {**none, "archive": archive, "unpacked": _plain(unpacked, "source.subdir"), "aot_config": inner}
            return context, f"{subdir}/{CONFIG} in {url}"
        case FolderSource():
            if data is None:
                raise SpecError(
                    f"{spec.path.name}: the model's files are in a folder of this machine, where CMSDIST finds none",
                    hint="name the data package that brings them: --data-package data-PhysicsTools-Taggers",
                )
            inner = f"{data.folder(spec.model.name)}/{CONFIG}"
            return {**none, "data_package": data.name, "aot_config": inner}, f"{inner} of {data.name}"


def _config(spec: ModelSpec, where: str) -> tuple[str, list[str]]:
    """The text of aot_config.yaml, which goes into the root of the source; and notes."""
    notes = []
    root = spec.source.path if isinstance(spec.source, FolderSource) else None
    inputs = spec.validation.inputs
    if inputs is not None and (root is None or not inputs.is_relative_to(root)):
        notes.append(f"validation.inputs is left out: {inputs.name} is not among the model's files")
        spec = replace(spec, validation=replace(spec.validation, inputs=None))
    calibration = spec.compilation.precision.calibration
    if calibration is not None and (root is None or not calibration.is_relative_to(root)):
        notes.append(
            f"compilation.precision is left out, so that the package is that of float32: {calibration.name} is not "
            "among the model's files"
        )
        spec = replace(spec, compilation=replace(spec.compilation, precision=FULL))
    if spec.tuning is not None:
        notes.append("the tuning file is not exported")
    there = replace(spec, path=(root or spec.folder) / CONFIG)
    text = spec_text(there, comment=f"Place: {where}", with_source=False)
    more = _unknown_to_cms_tfaot(there)
    if more:
        notes.append(f"cms-tfaot does not know {', '.join(more)}; this tool's cms_tfaot_compile does")
    return text, notes


def _unknown_to_cms_tfaot(spec: ModelSpec) -> list[str]:
    """Keys in the spec's text that cms-tfaot does not read."""
    return [
        f"{section}.{key}"
        for section, values in shortened(spec).items()
        for key in values
        if key not in _KNOWN.get(section, ())
    ]


def _plain(text: str, what: str) -> str:
    if not _PLAIN.fullmatch(text):
        raise SpecError(
            f"{what}: {shown(text)} is not safe in the scripts of CMSDIST",
            hint="use letters, digits, and the characters . _ / + @ - only",
        )
    return text
