from __future__ import annotations

import dataclasses
import getpass
import json
import platform
from contextlib import suppress
from typing import Any

import pytest

from tests.provenance.materials import SPEC, TREE, make_materials, make_spec
from tests.wording import reported
from tfaot_pkg._version import __version__
from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.provenance.statement import BUILD_TYPE, read_statement, statement
from tfaot_pkg.spec.tuning import tuning_bytes
from tfaot_pkg.spec.types import Tuning


def document(**changes: Any) -> dict[str, Any]:
    return dict(statement(make_materials(**changes), TREE))


def dependencies(found: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in found["predicate"]["buildDefinition"]["resolvedDependencies"]}


def test_it_is_a_slsa_provenance_in_an_in_toto_statement() -> None:
    found = document()
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://slsa.dev/provenance/v1"
    assert found["predicate"]["buildDefinition"]["buildType"] == BUILD_TYPE
    assert found["predicate"]["runDetails"]["builder"]["version"] == {"tfaot-pkg": __version__}


def test_its_subjects_are_the_tree_and_every_file_of_it() -> None:
    tree, *files = document()["subject"]
    assert tree == {"name": "tfaot-model-tagger@2.1.0", "digest": {"tfaotTree1": TREE.digest}}
    assert files == [{"name": m.path, "digest": {"sha256": m.content}} for m in TREE.members]


def test_it_holds_the_spec_as_it_was_built_and_the_defines_that_it_used() -> None:
    external = document()["predicate"]["buildDefinition"]["externalParameters"]
    assert external["spec"]["model"]["description"] == "Tags jets"
    assert external["defines"] == {"what": "Tags"}
    internal = document()["predicate"]["buildDefinition"]["internalParameters"]
    assert internal["command"] == "tfaot-pkg publish spec.yaml -Dwhat=Tags"


def test_its_dependencies_are_source_model_toolchain_and_every_pinned_package() -> None:
    found = dependencies(document())
    assert found["source"] == {
        "name": "source",
        "uri": "https://example.org/tagger.tar.gz",
        "digest": {"sha256": "00" * 31 + "ab"},
    }
    assert found["model"]["digest"] == {"tfaotTree1": "ee" * 32}
    assert found["tensorflow-2.17.1.txt"]["digest"] == {"sha256": "bb" * 32}
    assert found["numpy"]["uri"] == "pkg:pypi/numpy@1.26.4"


def test_a_tuning_file_is_told_by_the_digest_of_the_packages_copy() -> None:
    assert not [name for name in dependencies(document()) if "tune" in name]
    tuning = Tuning(model="tagger", machine={"cpu": "a CPU"}, batch_costs={"x86-64-v3": {1: 5.0}})
    found = dependencies(document(spec=dataclasses.replace(make_spec(), tuning=tuning)))
    assert found["tuning spec.tune.json"]["digest"] == {"sha256": sha256_bytes(tuning_bytes(tuning))}
    assert {"source", "model", "numpy"} < set(found)


def test_a_git_source_is_told_by_address_and_commit() -> None:
    lines = [
        f"source: {{git: https://example.org/m.git, revision: {'1' * 40}}}" if "source:" in x else x
        for x in SPEC.splitlines()
    ]
    found = dependencies(document(spec=make_spec("\n".join(lines))))["source"]
    assert found["uri"] == f"git+https://example.org/m.git@{'1' * 40}"
    assert found["digest"] == {"gitCommit": "1" * 40}


def test_a_users_own_tensorflow_is_told_by_its_version_alone() -> None:
    found = document(pinned=False)
    assert "TensorFlow" in dependencies(found)
    assert not found["predicate"]["buildDefinition"]["internalParameters"]["toolchain"]["pinned"]


def test_nothing_in_it_names_a_place_a_machine_or_a_user() -> None:
    text = json.dumps(document())
    assert "/home/" not in text
    assert "secret-project" not in text
    assert platform.node() not in text
    assert f'"{getpass.getuser()}"' not in text


def test_what_a_rebuild_needs_can_be_read_back() -> None:
    materials = make_materials()
    recorded = read_statement(json.dumps(document()).encode(), "tagger")
    assert (recorded.key, recorded.source, recorded.tool) == (materials.key, materials.source, __version__)
    assert recorded.compiler["flags"] == list(materials.compiler.all_flags)
    assert (recorded.tensorflow, recorded.toolchain, recorded.pinned) == ("2.17.1", "aa" * 32, True)
    assert recorded.files == TREE.files


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"_type": 1}',
        b"[" * 100_000,
        json.dumps(
            {"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v0.2"}
        ).encode(),
    ],
)
def test_anything_else_is_refused_with_the_packages_name(data: bytes) -> None:
    with reported(TrustError):
        read_statement(data, "tagger@1")


def test_a_statement_of_another_build_type_is_refused() -> None:
    found = document()
    found["predicate"]["buildDefinition"]["buildType"] = "urn:other"
    with reported(TrustError):
        read_statement(json.dumps(found).encode(), "tagger")


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in items for found in _paths(item, (*path, key)))]


@pytest.mark.parametrize("wrong", [None, 7, "text", [], {}, [{}], {"a": 1}], ids=repr)
def test_wherever_a_statement_is_malformed_it_is_read_or_refused(wrong: Any) -> None:
    for path in _paths(document())[1:]:
        found: Any = document()
        holder = found
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = wrong
        with suppress(TrustError):
            read_statement(json.dumps(found).encode(), "tagger")
