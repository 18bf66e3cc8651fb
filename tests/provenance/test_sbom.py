from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.provenance.materials import MATMUL, SORT, make_made, make_materials, make_spec
from tfaot_pkg.native.compiled.program import Engine, SegmentOfXla
from tfaot_pkg.native.cxx.compiler import ArchiveMember
from tfaot_pkg.native.xla_runtime import LinkedPart
from tfaot_pkg.provenance.materials import Materials
from tfaot_pkg.provenance.sbom import sbom
from tfaot_pkg.spec.types import OperationFiles


def components(document: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in document["components"]}


def assert_valid(document: dict[str, Any]) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None


def with_model(**changes: str) -> Materials:
    spec = make_spec()
    return make_materials(replace(spec, model=replace(spec.model, **changes)))  # type: ignore[arg-type]


def test_it_is_valid_cyclonedx_1_6() -> None:
    document: Any = sbom(make_materials(), make_made(MATMUL, SORT, warnings=("asserts vanish",)))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert_valid(document)


def test_the_same_materials_give_the_same_bytes_without_a_time() -> None:
    first, second = (json.dumps(sbom(make_materials(), make_made(MATMUL, SORT))) for _ in range(2))
    assert first == second
    assert "timestamp" not in first


def test_the_model_is_a_machine_learning_model_with_a_card() -> None:
    model = components(dict(sbom(make_materials(), make_made(warnings=("asserts vanish",)))))["tagger"]
    assert model["type"] == "machine-learning-model"
    assert model["licenses"] == [{"license": {"id": "MIT"}}]
    card = model["modelCard"]
    assert card["modelParameters"]["inputs"] == [{"format": "x: float32[N, 3]"}]
    assert card["quantitativeAnalysis"]["performanceMetrics"][0]["value"] == "1e-07"
    assert card["considerations"]["technicalLimitations"] == ["asserts vanish"]


def test_parts_are_listed_with_whoever_they_are_from() -> None:
    found = components(dict(sbom(make_materials(), make_made(MATMUL, SORT))))
    assert found["tfaot"]["properties"] == [{"name": "tfaot:linked-part", "value": "runtime/matmul.cc (x86-64-v3)"}]
    assert found["tensorflow"]["properties"] == [{"name": "tfaot:linked-part", "value": "xla/sort.cc (x86-64-v3)"}]
    assert found["tensorflow"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]


def test_a_program_without_code_of_xla_does_not_list_tensorflow() -> None:
    found = components(dict(sbom(make_materials(), make_made(MATMUL))))
    assert "tensorflow" not in found
    assert "XLA" not in json.dumps(found)


@pytest.mark.parametrize(
    ("engine", "parts", "told"),
    [
        (Engine(reason="it has a sort"), (), "The code that XLA generated"),
        (
            Engine(reason="it has a sort"),
            (SORT,),
            "The code that XLA generated and parts of XLA's CPU runtime",
        ),
        (Engine(), (SORT,), "Parts of XLA's CPU runtime"),
        (
            Engine(segments=(SegmentOfXla(name="s0", reason="fft"), SegmentOfXla(name="s1", reason="eigh"))),
            (),
            "The code that XLA generated for parts of the model (fft, eigh)",
        ),
    ],
)
def test_tensorflow_is_listed_with_what_of_it_is_in_the_library(engine: Engine, parts: Any, told: str) -> None:
    document = dict(sbom(make_materials(), make_made(*parts, engine=engine)))
    assert components(document)["tensorflow"]["description"] == told
    assert_valid(document)


def test_operations_of_the_author_are_listed_with_the_models_licence() -> None:
    spec = make_spec()
    operations = {name: OperationFiles(source=f"{name}.cpp", reference=f"{name}.py") for name in ("Cone", "Other")}
    spec = replace(spec, model=replace(spec.model, operations=operations))
    document = dict(sbom(make_materials(spec), make_made(engine=Engine(called=("Cone",)))))
    found = components(document)
    assert found["Cone"]["properties"] == [{"name": "tfaot:source", "value": "Cone.cpp"}]
    assert found["Cone"]["licenses"] == [{"license": {"id": "MIT"}}]
    assert "Other" not in found  # no output needs it
    assert_valid(document)


def test_the_kernel_library_is_listed_where_it_was_linked() -> None:
    kernels = LinkedPart(target="x86-64-v3", source="runtime/kernels/products.cc", ours=True, eigen=False)
    found = components(dict(sbom(make_materials(), make_made(MATMUL, kernels))))
    part = {"name": "tfaot:linked-part", "value": "runtime/kernels/products.cc (x86-64-v3)"}
    assert found["tfaot-kernels"]["properties"] == [part] and part not in found["tfaot"]["properties"]
    assert "tfaot-kernels" not in components(dict(sbom(make_materials(), make_made(MATMUL))))


@pytest.mark.parametrize(("parts", "listed"), [((MATMUL,), True), ((SORT,), False), ((), False)])
def test_eigen_is_listed_where_a_part_carries_its_code(parts: Any, listed: bool) -> None:
    found = components(dict(sbom(make_materials(), make_made(*parts))))
    assert ("eigen" in found) == listed
    if listed:
        assert found["eigen"]["licenses"] == [{"license": {"id": "MPL-2.0"}}]


def test_what_was_linked_of_the_compilers_library_is_listed_with_its_exception_and_version() -> None:
    member = ArchiveMember(archive="libgcc.a", member="_mulsc3.o")
    made = make_made(archives={"lib/libtagger.so": (member,), "bin/tagger_test": (member,)})
    found = components(dict(sbom(make_materials(), made)))
    for name in ("libstdc++", "libgcc"):
        assert found[name]["licenses"] == [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}]
        assert found[name]["version"] == "12.2.0"
    linked = [each["value"] for each in found["libgcc"]["properties"] if each["name"] == "tfaot:linked-member"]
    assert linked == ["_mulsc3.o (bin/tagger_test)", "_mulsc3.o (lib/libtagger.so)"]
    assert_valid(dict(sbom(make_materials(), made)))


def test_a_compilers_library_of_which_nothing_was_linked_is_not_listed() -> None:
    found = components(dict(sbom(make_materials(), make_made(archives={"lib/libtagger.so": ()}))))
    assert "libgcc" not in found
    assert "headers only" in found["libstdc++"]["description"]


def test_an_archive_of_another_kind_is_listed_without_a_licence() -> None:
    other = ArchiveMember(archive="libother.a", member="x.o")
    document = dict(sbom(make_materials(), make_made(archives={"lib/libtagger.so": (other,)})))
    assert "licenses" not in components(document)["libother.a"]
    assert_valid(document)


def test_the_version_of_a_gcc_that_clang_uses_is_not_known() -> None:
    clang = components(dict(sbom(make_materials(compiler="Debian clang version 14.0.6"), make_made())))
    assert "version" not in clang["libstdc++"]  # Clang's own version says nothing of it


@pytest.mark.parametrize(
    "changes",
    [
        {"license": "Apache-2.0 OR MIT"},
        {"license": "ask the author <a@b.c>"},
        {"license": "", "author": "", "description": "", "homepage": ""},
        {"homepage": "https://example.org/a b<c>"},
        {"homepage": "https://example.org/å?a=1&b=2#x"},
        {"homepage": "not an address"},
        {"description": "quotes \" ' \\ and ünïcode \u202e"},
        {"version": "1!2.0rc1.post3+local.1"},
    ],
)
def test_it_is_valid_whatever_the_model_is_called_and_licensed(changes: dict[str, str]) -> None:
    assert_valid(dict(sbom(with_model(**changes), make_made(MATMUL))))


def test_the_serial_number_changes_with_the_packages_key() -> None:
    one, other = make_materials(), replace(make_materials(), key="ab" * 32)  # type: ignore[arg-type]
    assert sbom(one, make_made())["serialNumber"] != sbom(other, make_made())["serialNumber"]
