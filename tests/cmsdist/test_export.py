"""export-cmsdist, and that import-cmsdist gives back what was exported."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.wording import reported
from tfaot_pkg.cmsdist.exporting import DataPackage, export_spec
from tfaot_pkg.cmsdist.importing import ModelFiles, import_spec
from tfaot_pkg.errors import SpecError
from tfaot_pkg.spec.rules import name_fault
from tfaot_pkg.spec.types import (
    ArchiveSource,
    Compilation,
    FolderSource,
    GitSource,
    ModelInfo,
    ModelSpec,
    PackageOptions,
    SavedModelFiles,
    Tuning,
    Validation,
)

REVISION = "0123456789abcdef0123456789abcdef01234567"
DATA = DataPackage(name="data-PhysicsTools-Taggers")


def spec_of(folder: Path, **more: object) -> ModelSpec:
    spec = ModelSpec(
        path=folder / "spec.yaml",
        model=ModelInfo(name="my_tagger", version="1.10"),
        source=GitSource(url="https://example.org/taggers.git", revision=REVISION, subdir="models/best"),
        compilation=Compilation(batch_sizes=(1, 8)),
    )
    return replace(spec, **more)  # type: ignore[arg-type]


def test_a_git_source_is_fetched_at_its_commit(tmp_path: Path) -> None:
    exported = export_spec(spec_of(tmp_path), branch="main")
    text = exported.texts["tfaot-model-my-tagger.spec"]
    assert text.splitlines()[0] == "### RPM external tfaot-model-my-tagger 1.10"
    assert f"%define tag {REVISION}\n" in text
    assert (
        "Source: git+https://example.org/taggers.git?obj=%{branch}/%{tag}"
        "&export=%{n}-%{realversion}&output=/%{n}-%{realversion}.tgz\n"
    ) in text
    assert "%define aot_source %{n}-%{realversion}\n%define aot_config models/best/aot_config.yaml\n" in text
    assert text.endswith("\n## INCLUDE tfaot-compile\n")
    assert exported.models_lines == ("Requires: tfaot-model-my-tagger",)
    assert yaml.safe_load(exported.texts["tfaot-model-my-tagger/aot_config.yaml"]) == {
        "model": {"name": "my_tagger", "version": "1.10", "saved_model": "saved_model"},
        "compilation": {"batch_sizes": [1, 8]},
    }


def test_files_of_a_folder_come_with_a_data_package(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, source=FolderSource(path=tmp_path / "files"))
    text = export_spec(spec, data=DATA).texts["tfaot-model-my-tagger.spec"]
    assert "BuildRequires: data-PhysicsTools-Taggers\n" in text
    place = "$DATA_PHYSICSTOOLS_TAGGERS_ROOT/PhysicsTools/Taggers/data/my_tagger/aot_config.yaml"
    assert f"%define aot_config {place}\n" in text
    other = export_spec(spec, data=replace(DATA, path="v2")).texts["tfaot-model-my-tagger.spec"]
    assert "%define aot_config $DATA_PHYSICSTOOLS_TAGGERS_ROOT/v2/aot_config.yaml\n" in other


def test_what_cmsdist_or_cms_tfaot_do_not_take_is_said(tmp_path: Path) -> None:
    spec = spec_of(
        tmp_path,
        compilation=Compilation(batch_sizes=(1,), targets=("x86-64-v3",), weights="embedded"),
        validation=Validation(inputs=tmp_path / "rows.npz"),
        tuning=Tuning(model="my_tagger"),
    )
    exported = export_spec(spec)
    place, inputs, tuning, keys = exported.notes
    assert place.startswith("put aot_config.yaml where the build finds it: models/best/aot_config.yaml in https://")
    assert inputs == "validation.inputs is left out: rows.npz is not among the model's files"
    assert tuning == "the tuning file is not exported"
    assert keys.startswith("cms-tfaot does not know compilation.targets, compilation.weights;")
    assert "rows.npz" not in "".join(exported.texts.values())


@pytest.mark.parametrize(
    ("source", "data"),
    [
        (FolderSource(path=Path("/files")), None),
        (FolderSource(path=Path("/files")), DataPackage(name="PhysicsTools")),
        (FolderSource(path=Path("/files")), replace(DATA, path="$(rm -rf /)")),
        (GitSource(url="git@example.org:x.git", revision=REVISION), None),
        (GitSource(url="https://example.org/x?a=%", revision=REVISION), None),
        (GitSource(url="https://example.org/x", revision=REVISION, subdir="a;b"), None),
        (ArchiveSource(url="https://example.org/x.tgz", sha256="ab" * 32), None),
    ],
)
def test_what_cmsdist_cannot_express_is_refused(
    source: GitSource | FolderSource | ArchiveSource, data: DataPackage | None, tmp_path: Path
) -> None:
    with reported(SpecError):
        export_spec(spec_of(tmp_path, source=source), data=data)


PATHS = st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", fullmatch=True), min_size=1, max_size=3).map("/".join)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=30)
LINES = st.one_of(TEXTS, st.sampled_from(["{{ env.x }}", "{% if a %}%{n}", "a {# b", "'\"%\\"]))
NAMES = st.from_regex(r"[a-z][a-z0-9]{0,6}(_[a-z0-9]{1,5}){0,2}", fullmatch=True).filter(
    lambda name: not name_fault(name)
)
VERSIONS = st.lists(st.integers(0, 99), min_size=2, max_size=4).map(lambda parts: ".".join(map(str, parts)))
FLAGS = st.lists(st.from_regex(r"--[a-z][a-z0-9_]{0,10}(=[a-z0-9.,{%-]{1,8})?", fullmatch=True), max_size=3).map(tuple)
TENSORS = st.lists(LINES.filter(str.strip), max_size=3, unique=True).map(tuple)
HEX = st.text("0123456789abcdef", min_size=40, max_size=40)

MODELS = st.builds(
    ModelInfo,
    name=NAMES,
    version=VERSIONS,
    files=st.builds(
        SavedModelFiles,
        path=PATHS,
        serving_key=LINES.filter(str.strip),
        tags=st.lists(LINES.filter(str.strip), min_size=1, max_size=2, unique=True).map(tuple),
    ),
    author=LINES,
    description=LINES,
    license=LINES,
    homepage=st.sampled_from(["", "https://example.org/model?a=1&b=%20"]),
    shapes=st.dictionaries(NAMES, st.just((None, 3)), max_size=2).map(lambda shapes: dict(sorted(shapes.items()))),
    inputs=TENSORS,
    outputs=TENSORS,
)
COMPILATIONS = st.builds(
    Compilation,
    batch_sizes=st.sets(st.integers(1, 4096), min_size=1, max_size=4).map(lambda sizes: tuple(sorted(sizes))),
    namespace=st.sampled_from(["tfaot_model", "my::models"]),
    tf_xla_flags=FLAGS,
    xla_flags=FLAGS,
    tensorflow=st.sampled_from(["2.17.1", "2.21.0"]),
    targets=st.sampled_from([("x86-64-v2", "x86-64-v3"), ("x86-64",), ("x86-64-v2", "x86-64-v4")]),
    weights=st.sampled_from(["shared", "embedded"]),
)
SOURCES = st.one_of(
    st.builds(
        GitSource,
        url=PATHS.map("https://example.org/{}.git".format),
        revision=HEX,
        subdir=st.one_of(st.just(""), PATHS),
    ),
    st.builds(
        ArchiveSource,
        url=PATHS.map("https://example.org/%c3%20b/{}.tgz".format),
        sha256=HEX.map(lambda text: text + "a" * 24),
        subdir=PATHS,
    ),
    st.just(None),
)
VALIDATIONS = st.builds(
    Validation,
    seed=st.integers(0, 2**32 - 1),
    samples=st.integers(1, 500),
    rtol=st.floats(0, 0.5),
    atol=st.floats(0, 9),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    model=MODELS,
    source=SOURCES,
    compilation=COMPILATIONS,
    validation=VALIDATIONS,
    package=st.builds(PackageOptions, tools=st.booleans(), objects=st.booleans()),
)
def test_what_is_exported_is_imported_as_it_was(
    model: ModelInfo,
    source: GitSource | ArchiveSource | None,
    compilation: Compilation,
    validation: Validation,
    package: PackageOptions,
    tmp_path: Path,
) -> None:
    spec = ModelSpec(
        path=tmp_path / "spec.yaml",
        model=model,
        source=source or FolderSource(path=tmp_path / "files"),
        compilation=compilation,
        validation=validation,
        package=package,
    )
    exported = export_spec(spec, data=DATA)
    for name, text in exported.texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = ModelFiles()
    if source is None:  # the data package is where its files were
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / "aot_config.yaml").write_text(exported.texts[exported.config])
        files = ModelFiles(folder=tmp_path / "files")
    again = import_spec(tmp_path / exported.spec_file, tmp_path / "spec.yaml", files=files)
    assert again.notes == ()
    assert again.spec == spec


@pytest.mark.slow
def test_the_command_writes_the_files_and_says_what_to_add_to_the_list(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("model: {name: my_tagger, version: '1.0'}\ncompilation: {batch_sizes: [1]}\n")
    argv = [sys.executable, "-m", "tfaot_pkg", "export-cmsdist", "spec.yaml", "--data-package", DATA.name]

    def call(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*argv, *more], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    done = call("-o", "out")
    assert done.returncode == 0
    assert done.stdout.endswith("for tfaot-models.file:\n  Requires: tfaot-model-my-tagger\n")
    files = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"tfaot-model-my-tagger.spec", "tfaot-model-my-tagger/aot_config.yaml"}
    assert json.loads(call("--json").stdout)["models"] == ["Requires: tfaot-model-my-tagger"]
