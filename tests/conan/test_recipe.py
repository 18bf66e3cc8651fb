"""Recipes are rendered from specs; those that are committed are what is rendered."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.conan.conftest import Packaged
from tests.provenance.materials import TREE, make_materials
from tests.wording import reported
from tfaot_pkg.errors import ConanError, SourceError
from tfaot_pkg.ground.keys import files_below
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.pipeline.conan.recipe import render_recipe, require_built_from, require_no_other_recipe, stage_recipe
from tfaot_pkg.pipeline.publish import into_conan
from tfaot_pkg.provenance.statement import statement
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.spec.source.tree import source_tree
from tfaot_pkg.spec.types import ArchiveSource, FolderSource, Tuning
from tfaot_pkg.verify.validate import inputs_document

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.mark.parametrize("name", ["tfaot-model-digits", "tfaot-model-wine"])
def test_the_committed_recipe_is_what_the_spec_renders(name: str) -> None:
    for path, data in render_recipe(load_spec(RECIPES / name / "all" / "spec.yaml")).items():
        assert (RECIPES / name / path).read_bytes() == data, path


def test_a_recipe_beside_the_spec_may_be_the_rendered_one_only(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    shutil.copytree(RECIPES / "tfaot-model-digits" / "all", folder)
    spec = load_spec(folder / "spec.yaml")
    require_no_other_recipe(spec)
    with (folder / "conanfile.py").open("a") as recipe:
        recipe.write("    settings = []\n")
    with reported(ConanError):
        require_no_other_recipe(spec)
    # Conan looks for a recipe beside `spec.yaml` only.
    require_no_other_recipe(dataclasses.replace(spec, path=folder / "other.yaml"))


def test_nothing_is_published_beside_a_recipe_of_the_author_and_nothing_of_it_runs(tmp_path: Path) -> None:
    folder, mark = tmp_path / "all", tmp_path / "mark"
    shutil.copytree(RECIPES / "tfaot-model-digits" / "all", folder)
    with (folder / "conanfile.py").open("a") as recipe:
        recipe.write(f"open({str(mark)!r}, 'a').write('x')\n")
    environment = {**os.environ, "TFAOT_HOME": str(tmp_path / "home")}
    refused = run_command(["publish", folder / "spec.yaml", "--registry", tmp_path / "registry"], env=environment)
    assert refused.returncode == ConanError.exit_code
    assert not mark.exists()
    assert not (tmp_path / "registry").exists()


@pytest.mark.slow
def test_only_the_rendered_recipe_and_its_test_run(make_model: Callable[..., Packaged], tmp_path: Path) -> None:
    model, mark = make_model("beside"), tmp_path / "mark"
    beside, folders = model.spec.path.parent, Folders(cache=tmp_path / "cache", data=tmp_path / "data")
    for path, data in render_recipe(model.spec).items():
        place = beside / path.removeprefix("all/")
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
    cmake = beside / "test_package" / "CMakeLists.txt"
    cmake.write_text(f"file(TOUCH {mark})\n{cmake.read_text()}")
    (beside / "test_package" / "conanfile.py").write_text(f"open({str(mark)!r}, 'a').write('x')\n")
    package = into_conan(model.spec, model.prefix, folders, Silent())
    assert package.reference == "tfaot-model-beside/1.2.0"
    assert not mark.exists()


def test_a_staged_recipe_is_complete_and_its_spec_means_the_same(affine: Packaged) -> None:
    files = {path.relative_to(affine.recipe).as_posix() for path in files_below(affine.recipe)}
    assert {"conanfile.py", "spec.yaml", "saved_model/saved_model.pb", "saved_model/variables/variables.index"} <= files
    staged = load_spec(affine.recipe / "spec.yaml")
    assert staged.model == affine.spec.model
    assert staged.compilation == affine.spec.compilation
    assert staged.source == FolderSource(path=affine.recipe)


def test_a_model_and_inputs_outside_of_the_spec_s_folder_are_copied_into_the_staged_recipe(
    affine: Packaged, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "net" / "saved_model").mkdir(parents=True)
    (elsewhere / "net" / "saved_model" / "saved_model.pb").write_bytes(b"far away")
    np.savez(elsewhere / "inputs.npz", x=np.zeros(3))
    spec = dataclasses.replace(
        affine.spec,
        source=FolderSource(path=elsewhere / "net"),
        validation=dataclasses.replace(affine.spec.validation, inputs=elsewhere / "inputs.npz"),
    )
    recipe = stage_recipe(spec, tmp_path / "recipe")
    staged = load_spec(recipe / "spec.yaml")
    assert isinstance(staged.source, FolderSource)
    assert (staged.source.path / staged.model.files.path / "saved_model.pb").read_bytes() == b"far away"
    assert staged.validation.inputs == recipe / "inputs.npz"
    assert '"net/saved_model/*"' in (recipe / "conanfile.py").read_text()


def test_a_recipe_with_other_files_than_the_package_was_built_from_is_refused(
    make_model: Callable[..., Packaged], tmp_path: Path
) -> None:
    model = make_model("changing")
    inputs = model.spec.path.parent / "inputs.npz"
    inputs.write_bytes(b"as planned")
    validation = dataclasses.replace(model.spec.validation, inputs=inputs)
    spec = dataclasses.replace(model.spec, validation=validation)
    materials = dataclasses.replace(
        make_materials(spec),
        source=source_tree(model.spec.path.parent, Path("saved_model")).digest,
        validation_inputs=inputs_document(spec),
    )
    share = model.prefix / "share" / spec.model.package_name
    (share / "provenance.json").write_text(json.dumps(statement(materials, TREE)))
    require_built_from(stage_recipe(spec, tmp_path / "same"), spec, model.prefix)
    inputs.write_bytes(b"changed")
    with reported(SourceError):
        require_built_from(stage_recipe(spec, tmp_path / "inputs"), spec, model.prefix)
    inputs.write_bytes(b"as planned")
    (model.spec.path.parent / "saved_model" / "saved_model.pb").write_bytes(b"exported again")
    with reported(SourceError):
        require_built_from(stage_recipe(spec, tmp_path / "model"), spec, model.prefix)


def test_a_tuning_file_is_staged_with_the_spec(affine: Packaged, tmp_path: Path) -> None:
    tuning = Tuning(model="affine", batch_costs={"x86-64-v3": {2: 5.0}})
    recipe = stage_recipe(dataclasses.replace(affine.spec, tuning=tuning), tmp_path / "recipe")
    assert load_spec(recipe / "spec.yaml").tuning == tuning


def test_a_model_from_an_archive_exports_only_the_spec(affine: Packaged) -> None:
    spec = dataclasses.replace(affine.spec, source=ArchiveSource(url="https://example.org/x.tar.gz", sha256="0" * 64))
    assert b'exports_sources = "spec.yaml", "spec.tune.json"\n' in render_recipe(spec)["all/conanfile.py"]


@pytest.mark.parametrize(
    "text", ['"); import os; os.abort()  # "', "\\", "line\nbreak", '"""', "{{ 7 * 7 }}", "\u2028 \U0001f600"]
)
def test_a_description_cannot_leave_its_string(affine: Packaged, text: str) -> None:
    spec = dataclasses.replace(affine.spec, model=dataclasses.replace(affine.spec.model, description=text))
    tree = ast.parse(render_recipe(spec)["all/conanfile.py"])
    recipe = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in recipe.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert len(tree.body) == 2
    assert values["description"] == text


def test_text_that_looks_like_an_expression_is_staged_as_it_is(affine: Packaged, tmp_path: Path) -> None:
    text = "{{ 7 * 7 }} {% if %} {# {{{%"
    spec = dataclasses.replace(affine.spec, model=dataclasses.replace(affine.spec.model, description=text))
    assert load_spec(stage_recipe(spec, tmp_path / "recipe") / "spec.yaml").model.description == text


def test_staging_is_the_same_everywhere(make_model: Callable[..., Packaged]) -> None:
    first, second = make_model("same"), make_model("same")
    assert [p.read_bytes() for p in files_below(first.recipe)] == [p.read_bytes() for p in files_below(second.recipe)]
