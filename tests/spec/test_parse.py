from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.parse import load_spec, parse_spec
from tfaot_pkg.spec.types import (
    ArchiveSource,
    Compilation,
    FolderSource,
    GitSource,
    ModelSpec,
    PackageOptions,
    Validation,
)
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.sources import TreesCall

FaultsOf = Callable[..., list[str]]

# In the form that cms-tfaot documents: comments, nulls, empty lists.
CMS_TFAOT = """\
model:
  # name of the model, required
  name: test_simple
  version: "1.0.0"
  saved_model: ./saved_model
  serving_key: serving_default
  author: Some One
  description: A model for tests.

compilation:
  # list of batch sizes to compile, required
  batch_sizes: [4, 1, 2]
  # defaults to "tfaot_model"
  namespace: null
  tf_xla_flags: []
  xla_flags: []
"""

SHA256 = "0123456789abcdef" * 4
REVISION = "0123456789" * 4


def parsed(text: str, path: str = "/srv/models/spec.yaml", **defines: str) -> ModelSpec:
    return parse_spec(text.encode(), Path(path), defines)


def changed(good: str, **values: object) -> str:
    """The good spec with `model_name="x"` and so on."""
    data: dict[str, Any] = yaml.safe_load(good)
    data["model"]["version"] = "1.0.0"
    for name, value in values.items():
        section, _, key = name.partition("_")
        data.setdefault(section, {})[key] = value
    return yaml.safe_dump(data)


# ---- what is accepted -------------------------------------------------------------------------------------------


def test_a_file_of_cms_tfaot_works_unchanged() -> None:
    spec = parsed(CMS_TFAOT)
    assert spec.model.name == "test_simple"
    assert spec.model.files.path == "saved_model"
    assert spec.model.author == "Some One"
    assert spec.source == FolderSource(path=Path("/srv/models"))
    assert spec.compilation == Compilation(batch_sizes=(1, 2, 4))
    assert spec.validation == Validation()


def test_a_file_of_cms_tfaot_may_be_json() -> None:
    text = json.dumps(yaml.safe_load(CMS_TFAOT), indent="\t")
    assert parsed(text, "/m/aot_config.json").model == parsed(CMS_TFAOT).model


def test_the_smallest_spec_gets_every_default(good: str) -> None:
    spec = parsed(good)
    assert (spec.model.serving_key, spec.model.tags, spec.model.files.path) == (
        "serving_default",
        ("serve",),
        "saved_model",
    )
    assert spec.compilation.namespace == "tfaot_model"
    assert spec.compilation.tensorflow == "2.17.1"
    assert spec.compilation.targets == ("x86-64-v2", "x86-64-v3", "x86-64-v4")
    assert spec.compilation.weights == "shared"


@pytest.mark.parametrize("flags", ["null", "[]", "''"])
def test_flags_may_be_left_empty_in_every_way(good: str, flags: str) -> None:
    assert parsed(good + f"  xla_flags: {flags}\n").compilation.xla_flags == ()


def test_flags_may_be_one_string(good: str) -> None:
    spec = parsed(good + "  tf_xla_flags: --tf_xla_a=4 --tf_xla_b\n  xla_flags: [--xla_c=]\n")
    assert spec.compilation.tf_xla_flags == ("--tf_xla_a=4", "--tf_xla_b")
    assert spec.compilation.xla_flags == ("--xla_c=",)


@pytest.mark.parametrize(
    ("text", "version"), [("1.10", "1.10"), ("10", "10"), ("1.0", "1.0"), ("'2.0.0rc1'", "2.0.0rc1")]
)
def test_a_version_is_kept_as_it_is_written(good: str, text: str, version: str) -> None:
    assert parsed(good.replace("1.0.0", text)).model.version == version


def test_batch_sizes_are_sorted_and_targets_go_from_low_to_high(good: str) -> None:
    text = changed(good, compilation_batch_sizes=[8, 1, 8, 2], compilation_targets=["x86-64-v4", "x86-64"])
    compilation = parsed(text).compilation
    assert compilation.batch_sizes == (1, 2, 8)
    assert compilation.targets == ("x86-64", "x86-64-v4")


def test_shapes_fix_unknown_axes(good: str) -> None:
    spec = parsed(changed(good, model_shapes={"x:0": [None, 20, 4], "a": []}))
    assert spec.model.shapes == {"a": (), "x:0": (None, 20, 4)}


def test_an_archive_needs_its_digest(good: str) -> None:
    text = good + f"source: {{url: 'https://example.org/m.tar.gz', sha256: {SHA256.upper()}, subdir: a/./b/}}\n"
    assert parsed(text).source == ArchiveSource(url="https://example.org/m.tar.gz", sha256=SHA256, subdir="a/b")


@pytest.mark.parametrize("key", ["git", "url"])
@pytest.mark.parametrize("url", ["https://example.org/m.git", "ssh://git@example.org/m", "file:///srv/m.git"])
def test_a_repository_needs_a_full_revision_even_one_without_letters(good: str, key: str, url: str) -> None:
    text = good + f"source: {{{key}: '{url}', revision: {REVISION}}}\n"
    assert parsed(text).source == GitSource(url=url, revision=REVISION)


@pytest.mark.parametrize("source", ["../data", "{path: ../data}", "{path: .., subdir: data}", "/srv/data"])
def test_a_folder_is_relative_to_the_spec(good: str, source: str) -> None:
    assert parsed(good + f"source: {source}\n").source == FolderSource(path=Path("/srv/data"))


@pytest.mark.parametrize("saved_model", ["../data/sm", "/srv/data/sm", "../data/./x/../sm/"])
def test_a_saved_model_outside_the_folder_makes_its_folder_the_source(good: str, saved_model: str) -> None:
    spec = parsed(changed(good, model_saved_model=saved_model))
    assert spec.source == FolderSource(path=Path("/srv/data"))
    assert spec.model.files.path == "sm"


def test_a_keras_file_takes_the_place_of_the_saved_model(good: str) -> None:
    text = changed(changed(good, model_saved_model=None, model_serving_key=None), model_keras="../data/tagger.keras")
    spec = parsed(text)
    assert spec.source == FolderSource(path=Path("/srv/data"))
    assert (spec.model.files.format, spec.model.files.path) == ("keras", "tagger.keras")
    # What packages record reads as the same spec.
    again = parse_spec(json.dumps(spec_document(spec) | {"source": {"path": "/srv/data"}}).encode(), spec.path)
    assert again.model == spec.model


def test_a_graph_has_files_beside_it_and_constants(good: str) -> None:
    text = changed(changed(good, model_saved_model=None, model_serving_key=None), model_graph="../data/a/graph.pb")
    text = changed(text, model_checkpoint="./ckpt/model.ckpt-7", model_feeds=["top/kernel"])
    spec = parsed(changed(text, model_constants={"is_training": False, "mean": [[1, 2.5], [3, 4]]}))
    # The lowest folder above all files.
    assert spec.source == FolderSource(path=Path("/srv"))
    assert spec.model.all_files == ("data/a/graph.pb", "models/ckpt/model.ckpt-7")
    assert spec.model.constants["is_training"] == Values(shape=(), values=(False,))
    assert spec.model.constants["mean"] == Values(shape=(2, 2), values=(1.0, 2.5, 3.0, 4.0))
    again = parse_spec(json.dumps(spec_document(spec) | {"source": {"path": "/srv"}}).encode(), spec.path)
    assert again.model == spec.model


def test_the_spec_may_lie_in_the_saved_model_itself(good: str) -> None:
    spec = parsed(changed(good, model_saved_model="."))
    assert (spec.source, spec.model.files.path) == (FolderSource(path=Path("/srv/models")), ".")


def test_paths_of_a_spec_do_not_depend_on_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: str
) -> None:
    (tmp_path / "spec.yaml").write_text(changed(good, validation_inputs="in/x.npz"))
    monkeypatch.chdir(tmp_path)
    spec = load_spec(Path("spec.yaml"))
    assert spec.path == tmp_path / "spec.yaml"
    assert spec.validation.inputs == tmp_path / "in/x.npz"
    assert spec == load_spec(tmp_path / "spec.yaml")


def test_the_order_of_inputs_and_outputs_is_kept_as_it_is_written(good: str) -> None:
    model = parsed(changed(good, model_inputs=["b", "a"], model_outputs=["z", "y:0"])).model
    assert (model.inputs, model.outputs) == (("b", "a"), ("z", "y:0"))
    assert (model.input_keys, model.output_keys) == ((), ())


def test_tensors_can_have_new_names(good: str) -> None:
    names = "version: 1.0.0\n  inputs: [b, {a: early}]\n  outputs: {output_1: z, output_0: y}\n"
    spec = parsed(good.replace("version: 1.0.0\n", names))
    assert (spec.model.inputs, spec.model.input_keys) == (("b", "early"), ("b", "a"))
    assert (spec.model.outputs, spec.model.output_keys) == (("z", "y"), ("output_1", "output_0"))
    # As packages record it, with keys in the order of the alphabet.
    recorded = json.dumps(spec_document(spec) | {"source": {"path": "/srv/models"}}, sort_keys=True).encode()
    assert parse_spec(recorded, spec.path).model == spec.model


@pytest.mark.parametrize("names", ["null", "[]"])
def test_an_order_that_is_left_empty_is_that_of_the_names(good: str, names: str) -> None:
    spec = parsed(good.replace("version: 1.0.0\n", f"version: 1.0.0\n  inputs: {names}\n"))
    assert spec.model.inputs == ()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", PackageOptions()),
        ("package: null\n", PackageOptions(tools=False, objects=False)),
        ("package: {tools: true}\n", PackageOptions(tools=True)),
        ("package: {tools: null, objects: true}\n", PackageOptions(objects=True)),
        ("package: {tools: '{{ env.tools }}'}\n", PackageOptions(tools=True)),
        ("package: {source: true}\n", PackageOptions(source=True)),
    ],
)
def test_what_else_the_package_holds_is_asked_for(good: str, text: str, options: PackageOptions) -> None:
    assert parsed(good + text, tools="true").package == options


def test_expressions_give_texts_and_numbers(good: str) -> None:
    text = changed(
        good,
        model_version="{{ env.version }}",
        model_description="{{ model.name }} {{ model.version }}",
        compilation_batch_sizes=["{{ env.size }}", 2],
        validation_rtol="{{ env.rtol }}",
    )
    spec = parsed(text, version="1.10", size="16", rtol="1e-3")
    assert spec.model.description == "digits 1.10"
    assert type(spec.model.description) is str
    assert spec.compilation.batch_sizes == (2, 16)
    assert spec.validation.rtol == 1e-3


# ---- what is refused --------------------------------------------------------------------------------------------


def test_every_fault_is_reported_at_once_in_the_order_of_the_file(faults_of: FaultsOf) -> None:
    text = """\
model:
  name: int
  saved_modl: x
  author: "{{ env.who }}"
  author: twice
compilation:
  batch_sizes:
    - 4
    - -2
    - x
  targets: [x86-64-v2, aarch64]
validation: {rtol: -1, seed: 1.5}
sourc: .
"""
    assert faults_of(text) == [
        "1: model.version: is required",
        "2: model.name: 'int' is a C++ keyword",
        "3: model.saved_modl: unknown key; did you mean saved_model?",
        "4: model.author: env.who has no value: give it with -D who=... (in a registry.yaml: defines)",
        "5: model.author: is given twice (first on line 4)",
        "9: compilation.batch_sizes[1]: must be at least 1, got -2",
        "10: compilation.batch_sizes[2]: must be an integer, got the string 'x'",
        "11: compilation.targets: must all be of one architecture, got aarch64 and x86_64: build one package for each",
        "12: validation.rtol: must be at least 0, got -1.0",
        "12: validation.seed: must be an integer, got the number 1.5",
        "13: sourc: unknown key; did you mean source?",
    ]


def test_a_fault_names_the_file_as_the_user_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/spec.yaml").write_text("model: 1\n")
    monkeypatch.chdir(tmp_path)
    with reported(SpecError) as caught:
        load_spec(Path("m/spec.yaml"))
    assert caught.value.exit_code == 10


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1: is empty: a spec needs at least model.name, model.version and compilation.batch_sizes"),
        ("# nothing\n", "1: is empty: a spec needs at least model.name, model.version and compilation.batch_sizes"),
        ("- a\n- b\n", "1: must be a mapping with model and compilation, got a list"),
        ("just words", "1: must be a mapping with model and compilation, got the string 'just words'"),
        ("model: [", "1: is not YAML: "),
    ],
)
def test_a_file_that_is_no_mapping_is_one_fault(faults_of: FaultsOf, text: str, fault: str) -> None:
    (found,) = faults_of(text)
    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"model_name": "x; rm -rf"}, "model.name: must start with a lower-case letter"),
        ({"model_name": 'a"b'}, "model.name: must start"),
        ({"model_name": "${ENV}"}, "model.name: must start"),
        ({"model_name": "a\nb"}, r"model.name: must start with a lower-case letter"),
        ({"model_name": None}, "model.name: is required, but has no value"),
        ({"model_name": 5}, "model.name: must be a string, got the number 5"),
        ({"model_version": "one"}, "model.version: must be a version such as 1.0.0, got 'one'"),
        ({"model_version": "1.0;ls"}, "model.version: must be a version"),
        ({"model_version": True}, "model.version: must be a version such as 1.0.0, got 'true'"),
        ({"model_saved_model": ""}, "model.saved_model: must not be empty"),
        ({"model_saved_model": "$HOME/x"}, "model.saved_model: environment variables are not read"),
        ({"model_saved_model": ["x"]}, "model.saved_model: must be a string, got a list"),
        ({"model_serving_key": ""}, "model.serving_key: must not be empty"),
        ({"model_keras": "a.keras", "model_saved_model": "sm"}, "model.saved_model: is for a SavedModel, and model.keras names a Keras file"),
        ({"model_graph": "a.pb", "model_tags": ["x"], "model_saved_model": None}, "model.tags: is for a SavedModel, and model.graph names a graph"),
        ({"model_config": "a.pbtxt"}, "model.config: is for a graph, which model.graph names"),
        ({"model_answers": "predict"}, "model.answers: is for a Keras file, which model.keras names"),
        ({"model_keras": "a.keras", "model_answers": "both"}, "model.answers: must be call or predict, got 'both'"),
        ({"model_onnx": "a.onnx", "model_saved_model": None, "model_feeds": ["w"]}, "model.feeds: is not for an ONNX file: make it an input"),
        ({"model_constants": {"x": "a"}}, "model.constants.x: must be true, false, a number, or a list of these"),
        ({"model_constants": {"x": [1, [2]]}}, "model.constants.x: must have lists of the same length"),
        ({"model_constants": {"x": [True, 1]}}, "model.constants.x: must not mix true and false with numbers"),
        ({"model_constants": {"x": 1}, "model_feeds": ["x"]}, "model.feeds: 'x' is one of model.constants"),
        ({"model_feeds": ["a", "a"]}, "model.feeds: 'a' is given twice"),
        ({"trees_iterations": 3}, "trees: says how decision trees are called, and the model is none"),
        ({"model_serving_key": "a\nb"}, "model.serving_key: must be one line"),
        ({"model_author": "a\nb"}, "model.author: must be one line"),
        ({"model_license": {"a": 1}}, "model.license: must be a string, got a mapping"),
        ({"model_homepage": "javascript:alert(1)"}, "model.homepage: must be an http:// or https:// address"),
        ({"model_homepage": 'https://x/"><script>'}, "model.homepage: must be an http:// or https:// address"),
        ({"model_tags": []}, "model.tags: must have at least one item"),
        ({"model_shapes": {"x": [4, None]}}, "model.shapes.x: only the first axis can be null"),
        ({"model_shapes": {"x": [None, 0]}}, "model.shapes.x[1]: must be at least 1, got 0"),
        ({"model_shapes": {"x": 4}}, "model.shapes.x: must be a list of integers and null, got the number 4"),
        ({"model_inputs": "x"}, "model.inputs: must be a list of tensor names, got the string 'x'"),
        ({"model_inputs": [1]}, "model.inputs[0]: must be a string, got the number 1"),
        ({"model_inputs": ["a", "b", "a"]}, "model.inputs: 'a' is given twice"),
        ({"model_outputs": ["a", ""]}, "model.outputs[1]: must not be empty"),
        ({"model_outputs": {"a": ""}}, "model.outputs[0]: must not be empty"),
        ({"model_outputs": {"a": 1}}, "model.outputs[0]: must be a string, got the number 1"),
        ({"model_outputs": {"a": "x", "b": "x"}}, "model.outputs: 'x' is given twice"),
        ({"model_outputs": [{"a": "x", "b": "y"}]}, "model.outputs[0]: must be a name, or one name and its new one"),
        ({"model_inputs": ["a", {"a": "b"}]}, "model.inputs: 'a' is given twice"),
        ({"package_tools": "yes"}, "package.tools: must be true or false, got the string 'yes'"),
        ({"package_objects": 1}, "package.objects: must be true or false, got the number 1"),
        ({"package_object": True}, "package.object: unknown key; did you mean objects?"),
        ({"model_signatures": ["a", "b"]}, "model.signatures: must be a mapping"),
        ({"model_shapes": [1]}, "model.shapes: must be a mapping, got a list"),
        ({"compilation_batch_sizes": "x"}, "compilation.batch_sizes: must be a list of integers, got the string 'x'"),
        ({"compilation_batch_sizes": 4}, "compilation.batch_sizes: must be a list of integers, got the number 4"),
        ({"compilation_batch_sizes": []}, "compilation.batch_sizes: must have at least one item"),
        ({"compilation_batch_sizes": [0]}, "compilation.batch_sizes[0]: must be at least 1, got 0"),
        ({"compilation_batch_sizes": [10**9]}, "compilation.batch_sizes[0]: must be at most 65536 ("),
        ({"compilation_batch_sizes": [10**300]}, "compilation.batch_sizes[0]: must be at most 65536 ("),
        ({"compilation_batch_sizes": [True]}, "compilation.batch_sizes[0]: must be an integer, got true"),
        ({"compilation_batch_sizes": [None]}, "compilation.batch_sizes[0]: must be an integer, got nothing"),
        ({"compilation_batch_sizes": ["1"]}, "compilation.batch_sizes[0]: must be an integer, got the string '1'"),
        ({"compilation_batch_sizes": list(range(1, 300))}, "compilation.batch_sizes: must have at most 256 items"),
        ({"compilation_namespace": "std"}, "compilation.namespace: must not be inside 'std'"),
        ({"compilation_namespace": "a; b"}, "compilation.namespace: must be a C++ namespace"),
        ({"compilation_class_name": "ns::A"}, "compilation.class_name: must start with a letter"),
        ({"compilation_xla_flags": ["xla_a"]}, "compilation.xla_flags[0]: must be one flag"),
        ({"compilation_xla_flags": ["--a --b"]}, "compilation.xla_flags[0]: must be one flag"),
        ({"compilation_xla_flags": "--a $(id)"}, "compilation.xla_flags[1]: must be one flag"),
        ({"compilation_xla_flags": {"a": 1}}, "compilation.xla_flags: must be a list of strings, got a mapping"),
        ({"compilation_tensorflow": 2.17}, "compilation.tensorflow: must be a full TensorFlow version such as 2.17.1, got '2.17'"),
        ({"compilation_targets": ["pentium"]}, "compilation.targets[0]: unknown target 'pentium': there are x86-64,"),
        ({"compilation_targets": ["x86-64", "x86-64"]}, "compilation.targets: 'x86-64' is given twice"),
        ({"compilation_targets": "x86-64"}, "compilation.targets: must be a list of target names, got the string 'x86-64'"),
        ({"compilation_weights": "both"}, "compilation.weights: must be shared or embedded, got 'both'"),
        ({"compilation_engine": "gpu"}, "compilation.engine: must be auto, program or xla, got 'gpu'"),
        (
            {"compilation_engine": "xla", "package_source": True},
            "package.source: is for programs, and compilation.engine is xla",
        ),
        ({"compilation_version": "1"}, "compilation.version: unknown key: it belongs under model"),
        ({"compilation_zzz": 1}, "compilation.zzz: unknown key; the nearest known key is "),
        ({"model_batchsizes": [1]}, "model.batchsizes: unknown key; did you mean compilation.batch_sizes?"),
        ({"validation_seed": -1}, "validation.seed: must be at least 0, got -1"),
        ({"validation_samples": 0}, "validation.samples: must be at least 1, got 0"),
        ({"validation_rtol": 1}, "validation.rtol: must be less than 1"),
        ({"validation_atol": float("nan")}, "validation.atol: must be a finite number, got nan"),
        ({"validation_atol": "small"}, "validation.atol: must be a number, got the string 'small'"),
        ({"validation_inputs": "x.npz", "validation_seed": 1}, "validation.seed: is for random inputs"),
        ({"source_path": ".", "source_sha256": SHA256}, "source.sha256: has no meaning for a folder"),
        ({"source_url": "https://e.org/a.zip"}, "source.sha256: is required with url: the digest of the archive"),
        ({"source_url": "http://e.org/a.zip", "source_sha256": SHA256}, "source.url: must be an https:// or file:// URL"),
        ({"source_url": "https://u:p@e.org/a", "source_sha256": SHA256}, "source.url: must not contain a password"),
        ({"source_url": "https://e.org/a b", "source_sha256": SHA256}, "source.url: must be an https:// or file:// URL"),
        ({"source_url": "file://host/a", "source_sha256": SHA256}, "source.url: must be an https:// or file:// URL"),
        ({"source_url": "https://e.org/a.zip", "source_sha256": "abc"}, "source.sha256: must be a SHA-256 digest"),
        ({"source_git": "https://e.org/a"}, "source.revision: is required with git: the full id of a commit"),
        ({"source_git": "https://e.org/a", "source_revision": "main"}, "source.revision: must be a full commit id"),
        ({"source_git": "ext::sh -c id", "source_revision": REVISION}, "source.git: must be an https://, ssh:// or file://"),
        ({"source_git": "--upload-pack=id", "source_revision": REVISION}, "source.git: must be an https://"),
        ({"source_git": "ssh://-oProxyCommand=id/x", "source_revision": REVISION}, "source.git: must be an https://"),
        ({"source_subdir": "x"}, "source: must have exactly one of path (folder), url (archive) and git, got none"),
        ({"source_path": ".", "source_git": "x"}, "source: must have exactly one of path (folder), url (archive) and git"),
        ({"source_path": ".", "source_subdir": "../x"}, "source.subdir: must be a relative path inside the source"),
        ({"source_path": ".", "model_saved_model": "/sm"}, "model.saved_model: must be a relative path inside the source"),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_each_bad_value_is_one_fault_in_plain_words(
    faults_of: FaultsOf, good: str, change: dict[str, object], fault: str
) -> None:
    (found,) = faults_of(changed(good, **change))
    line, _, message = found.partition(": ")
    assert int(line) > 0
    assert message.startswith(fault)
    assert "\n" not in message and "pydantic" not in message


def test_a_source_in_one_word_is_a_folder_and_no_address(faults_of: FaultsOf, good: str) -> None:
    (found,) = faults_of(good + "source: https://example.org/m.tar.gz\n")
    assert found.startswith("6: source: must be a folder, or a mapping: url and sha256")


def test_a_flood_of_faults_is_cut(faults_of: FaultsOf, good: str) -> None:
    found = faults_of(good.replace("[1, 2, 4]", str(["x"] * 5000)))
    told, more = found[:-1], found[-1]
    assert more.endswith(f"and {5000 - len(told):,} more faults") and all("batch_sizes" in each for each in told)


def test_an_undefined_variable_hides_no_other_fault(faults_of: FaultsOf, good: str) -> None:
    found = faults_of(changed(good, model_name="{{ env.n }}", compilation_weights="x"))
    assert [fault.partition(": ")[2] for fault in found] == [
        "compilation.weights: must be shared or embedded, got 'x'",
        "model.name: env.n has no value: give it with -D n=... (in a registry.yaml: defines)",
    ]


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    with reported(SpecError):
        load_spec(tmp_path / "none.yaml")
    with reported(SpecError):
        load_spec(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with reported(SpecError):
        load_spec(tmp_path / "pipe")
    with reported(SpecError):
        load_spec(Path("a\0b"))


def test_a_model_card_may_be_a_file_beside_the_spec(good: str, tmp_path: Path) -> None:
    spec, card = tmp_path / "spec.yaml", tmp_path / "card.md"
    spec.write_text(good.replace("  name:", "  card: card.md\n  name:"))
    with reported(SpecError):
        load_spec(spec)
    card.write_bytes(b"\xef\xbb\xbf# Use\r\n\r\nF\xc3\xbcr Jets.\r\n")
    loaded = load_spec(spec)
    assert (loaded.model.card, loaded.card_file) == ("# Use\n\nFür Jets.\n", card)
    # A recorded spec comes from elsewhere: it names no file of this machine.
    assert parse_spec(spec.read_bytes(), spec).model.card == "card.md"
    for content in (b"x" * 40_001, b"\xff", b"bell \a"):
        card.write_bytes(content)
        with reported(SpecError):
            load_spec(spec)


# ---- the recorded form ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "source: .\n",
        "source: {path: data, subdir: x}\n",
        f"source: {{url: 'https://e.org/a.tgz', sha256: {SHA256}, subdir: x}}\n",
        f"source: {{git: 'https://e.org/a', revision: {REVISION}}}\n",
        "validation: {inputs: x.npz}\n",
        "package: {tools: true, objects: true}\n",
    ],
)
def test_the_recorded_form_is_json_that_parses_to_the_same_spec(good: str, source: str) -> None:
    spec = parsed(good + source)
    again = parsed(canonical_json(spec_document(spec)).decode())
    assert again == spec


_TREES = "model: {name: x, version: 1.0.0, trees: m.json}\ncompilation: {batch_sizes: [1]}\n"


@pytest.mark.parametrize(
    ("trees", "call"),
    [
        ("{iterations: best, missing: -999}", TreesCall(iterations="best", missing="-999.0")),
        ("{iterations: 3, missing: .nan}", TreesCall(iterations="3", missing="nan")),
        ("{iterations: '{{ env.many }}', missing: nan}", TreesCall(iterations="5", missing="nan")),
        ("{categories: codes, dtype: float32}", TreesCall(categories="codes", dtype="float32")),
        ("null", TreesCall()),
    ],
)
def test_calls_of_trees_are_recorded_as_they_were_given(trees: str, call: TreesCall) -> None:
    spec = parsed(f"{_TREES}trees: {trees}\n", many="5")
    assert spec.model.call == call
    assert ("trees" in spec_document(spec)) == bool(call)
    assert parsed(canonical_json(spec_document(spec)).decode()).model == spec.model


@pytest.mark.parametrize(
    ("trees", "fault"),
    [
        (
            "{iterations: 0}",
            "trees.iterations: must be best, all, or a number of iterations from 1 on, got the number 0",
        ),
        ("{iterations: first}", "trees.iterations: must be best, all"),
        ("{iterations: true}", "trees.iterations: must be best, all"),
        ("{missing: none}", "trees.missing: must be a number, got the string 'none'"),
        ("{missing: .inf}", "trees.missing: must be a number, or .nan for none"),
        ("{categories: texts}", "trees.categories: must be values or codes"),
        ("{dtype: float16}", "trees.dtype: must be float32 or float64"),
        ("{best: true}", "trees.best: unknown key"),
    ],
)
def test_faults_of_calls_of_trees_name_the_field(faults_of: FaultsOf, trees: str, fault: str) -> None:
    (found,) = faults_of(f"{_TREES}trees: {trees}\n")
    assert found.partition(": ")[2].startswith(fault)


def test_the_recorded_form_holds_no_absolute_path_and_is_the_same_in_every_checkout(good: str) -> None:
    text = changed(good, validation_inputs="/data/secret/x.npz", model_saved_model="/data/secret/models/sm")
    archive = good + f"source: {{url: 'file:///data/secret/a.tgz', sha256: {SHA256}}}\n"
    for spec_text in (text, archive):
        document = canonical_json(spec_document(parsed(spec_text)))
        assert b"secret" not in document and b"/srv" not in document
        assert document == canonical_json(spec_document(parsed(spec_text, "/elsewhere/deep/er/spec.yaml")))


@pytest.mark.parametrize(
    ("url", "recorded"),
    [
        ("https://e.org/a.tgz?download=1&private_token=hunter2", "https://e.org/a.tgz?download=1"),
        ("https://e.org/a.tgz?X-Amz-Signature=hunter2", "https://e.org/a.tgz"),
    ],
)
def test_the_recorded_form_holds_no_token(good: str, url: str, recorded: str) -> None:
    document = spec_document(parsed(good + f"source: {{url: '{url}', sha256: {SHA256}}}\n"))
    assert document["source"] == {"url": recorded, "sha256": SHA256, "subdir": ""}


def test_a_spec_as_cms_tfaot_writes_it_has_the_same_record_as_ours(good: str) -> None:
    theirs = CMS_TFAOT.replace("test_simple", "digits").replace("Some One", "''").replace("A model for tests.", "''")
    assert spec_document(parsed(theirs)) == spec_document(parsed(good))
