"""Recipes: the folder from which Conan makes a model's package, in the layout of Conan's local recipes index.

    tfaot-model-NAME/config.yml
    tfaot-model-NAME/all/conanfile.py, spec.yaml, test_package/, the model's files

A recipe is Python, and its test_package/ is CMake: both run with all that the user may do. So `publish` uses the recipe
that is staged from the spec alone, and nothing that lies beside the spec (decision 074).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from tfaot_pkg.errors import ConanError, SourceError
from tfaot_pkg.ground.forms.document import Dumper
from tfaot_pkg.ground.keys import sha256_bytes, sha256_file, sha256_listing
from tfaot_pkg.ground.rendering import SUFFIX, template_names
from tfaot_pkg.ground.rendering import render as render_template
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.ground.targets import DEFAULT_TARGETS
from tfaot_pkg.provenance.statement import read_statement
from tfaot_pkg.registry.reader import FILES, PROVENANCE
from tfaot_pkg.spec.document import place_of_rows, spec_document
from tfaot_pkg.spec.expand import without_expressions
from tfaot_pkg.spec.row_files import digest_in
from tfaot_pkg.spec.source.tree import local_files, source_tree
from tfaot_pkg.spec.tuning import PACKAGED, tuning_bytes
from tfaot_pkg.spec.types import FolderSource, ModelSpec

BASE_RANGE = "[>=0.1 <1]"
"""The versions of the base that a recipe works with."""

_TEMPLATES = "recipe"
_USUAL_TARGETS = (DEFAULT_TARGETS, ("aarch64",))
"""Those that the base of the recipes builds for an architecture whose recipe names none."""


_RECIPE = "conanfile.py"


def require_no_other_recipe(spec: ModelSpec) -> None:
    """Raise ConanError if the author's recipe beside the spec differs from the one that is made from the spec.

    It would not be used; its author must know that. It is read as text, and never runs.
    """
    beside = spec.folder / _RECIPE
    if spec.path.name != "spec.yaml" or not beside.is_file():
        return
    with storage_errors(f"read {beside}"):
        if beside.read_bytes() == render_recipe(spec)[f"all/{_RECIPE}"]:
            return
    raise ConanError(
        f"{beside} is not the recipe that tfaot-pkg makes from this spec, and tfaot-pkg runs no other: "
        "a recipe is a program, which would run as you, outside the sandbox",
        hint=f"remove it; or publish with --no-conan, and run `conan create {beside.parent}` yourself if you trust it",
    )


def recipe_digest(spec: ModelSpec) -> str:
    """The digest of the recipe that is made from `spec`."""
    return sha256_listing({path: sha256_bytes(data) for path, data in render_recipe(spec).items()})


def render_recipe(spec: ModelSpec) -> dict[str, bytes]:
    """The files of the recipe that do not hold the model, by their path in the folder `tfaot-model-NAME`."""
    context = {
        "package": spec.model.package_name,
        "version": spec.model.version,
        "cpp_class": spec.cpp_class,
        "description": _python_string(spec.model.description or f"Compiled model {spec.model.name}"),
        "license": _python_string(spec.model.license) if spec.model.license else "",
        "homepage": _python_string(spec.model.homepage) if spec.model.homepage else "",
        "exports_sources": ", ".join(map(_python_string, ["spec.yaml", PACKAGED, *_exported(spec)])),
        "base_range": BASE_RANGE,
    }
    return {
        template.removeprefix(f"{_TEMPLATES}/").removesuffix(SUFFIX): render_template(template, context).encode()
        for template in template_names(_TEMPLATES)
    }


def stage_recipe(spec: ModelSpec, folder: Path) -> Path:
    """Write a complete recipe of `spec` into `folder`, and return the folder of its conanfile.py.

    The spec is written with its expressions evaluated and its defaults filled in, except for the usual targets: those
    follow from Conan's `arch`, so that a version has one recipe, with binaries for every architecture. Files of the
    model that lie on this machine are copied. Raises StorageError.
    """
    recipe = folder / "all"
    with storage_errors(f"write the recipe {folder}"):
        for path, data in render_recipe(spec).items():
            write_file(folder / path, data)
        plain = without_expressions(spec_document(spec))
        if spec.compilation.targets in _USUAL_TARGETS:
            del plain["compilation"]["targets"]
        document = yaml.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True)
        write_file(recipe / "spec.yaml", document.encode())
        if spec.tuning is not None:
            write_file(recipe / PACKAGED, tuning_bytes(spec.tuning))
        for origin, place in _local_files(spec).items():
            _copy(origin, recipe / place)
    return recipe


def require_built_from(recipe: Path, spec: ModelSpec, prefix: Path) -> None:
    """Raise SourceError if the staged `recipe` has other files than the package in `prefix` was built from.

    The files were copied after the build, and others may have written them since.
    """
    provenance = prefix / "share" / spec.model.package_name / FILES[PROVENANCE]
    # Packages that were built without provenance record nothing to compare with.
    if not provenance.is_file():
        return
    recorded = read_statement(provenance.read_bytes(), spec.model.package_name)
    keys = {path: key for key, path in spec.data_files.items()}
    for origin, place in _local_files(spec).items():
        # Rows are in one file, with a digest of its own; a model may be a folder, or several files.
        if origin in keys:
            same = sha256_file(recipe / place) == digest_in(recorded.validation_inputs, keys[origin])
        else:
            root, model = recipe / _source_place(spec), spec.model
            tree = source_tree(root, Path(model.files.path), field=model.files.format, beside=model.files_beside)
            same = tree.digest == recorded.source
        if not same:
            raise SourceError(
                f"{origin} changed after the package was built",
                hint="build again when nothing writes to it any more",
            )


def _exported(spec: ModelSpec) -> list[str]:
    """Patterns of the files that a build of `spec` reads, relative to it; a model is a folder or files."""
    return [pattern for place in _local_files(spec).values() for pattern in (place, f"{place}/*")]


def _local_files(spec: ModelSpec) -> dict[Path, str]:
    """What a build of `spec` reads from this machine, and where that lies relative to the (staged) spec."""
    files = {}
    if isinstance(spec.source, FolderSource):
        below = Path(_source_place(spec))
        for origin in local_files(spec.source.path, spec.model):
            files[origin] = (below / origin.relative_to(spec.source.path)).as_posix()
    files.update({path: place_of_rows(spec, path) for path in spec.data_files.values()})
    return files


def _source_place(spec: ModelSpec) -> str:
    """Where the folder with the model's files lies relative to the (staged) spec."""
    source = spec_document(spec)["source"]
    assert isinstance(source, dict)
    return str(source["path"])


def _copy(origin: Path, place: Path) -> None:
    if origin.is_dir():
        shutil.copytree(origin, place, dirs_exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(origin, place)


def _python_string(text: str) -> str:
    """`text` as a string literal of Python. JSON's escapes are Python's, except those of surrogate pairs."""
    return json.dumps(text, ensure_ascii=False)
