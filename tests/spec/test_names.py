from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compilers import EVERY
from tests.spec.macros import macros_of
from tfaot_pkg.spec.macros import MACROS
from tfaot_pkg.spec.rules import (
    CPP_KEYWORDS,
    class_name_fault,
    cpp_identifiers,
    model_name_fault,
    name_fault,
    namespace_fault,
    package_name,
    tensorflow_fault,
    version_fault,
)

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@pytest.mark.parametrize("name", ["digits", "test_simple", "x", "deep_tau_v2", "a" * 64])
def test_plain_names_are_accepted(name: str) -> None:
    assert name_fault(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x; rm -rf /",
        'a"b',
        "${ENV}",
        "a\nb",
        "digits\n",
        "$(id)",
        "../x",
        "a/b",
        "a.b",
        "my-model",
        "1st",
        "_x",
        "Upper",
        "größe",
        "a b",
        "a__b",
        "a" * 65,
        "<xml>",
        "a\0b",
    ],
)
def test_names_that_are_no_identifier_or_no_package_name_are_refused_on_one_line(name: str) -> None:
    fault = name_fault(name)
    assert fault
    assert "\n" not in fault and "\0" not in fault


@pytest.mark.parametrize("name", ["int", "class", "co_await", "xor_eq", "char8_t", "requires"])
def test_cpp_keywords_are_refused_as_such(name: str) -> None:
    assert name_fault(name) == f"'{name}' is a C++ keyword"


def test_macros_that_compilers_define_are_refused() -> None:
    assert "macro" in name_fault("linux")
    assert "macro" in name_fault("errno")


def test_a_name_with_an_obvious_repair_is_told_it() -> None:
    assert name_fault("My-Model").endswith(": 'my_model' is valid")
    assert "is valid" not in name_fault("x; rm -rf")


@pytest.mark.parametrize("namespace", ["tfaot_model", "CMS", "my::models", "a::b::c"])
def test_namespaces_may_be_nested(namespace: str) -> None:
    assert namespace_fault(namespace) == ""


@pytest.mark.parametrize("namespace", ["", "std", "std::x", "a::int", "a::", "::a", "a b", "a;b", "_a", "a__b", "a-b"])
def test_namespaces_of_others_and_bad_ones_are_refused(namespace: str) -> None:
    assert namespace_fault(namespace)


def test_a_models_name_with_capitals_is_told_where_they_belong() -> None:
    assert model_name_fault("MatMulComp").endswith(
        ": 'matmulcomp' is valid; the C++ class may have capitals: compilation.class_name: MatMulComp"
    )
    assert model_name_fault("My-Model") == name_fault("My-Model")
    assert model_name_fault("matmul_comp") == ""


@pytest.mark.parametrize("name", ["", "MatMulComp", "matmul", "X", "Tagger_v2", "A" * 64])
def test_a_class_may_have_capitals(name: str) -> None:
    assert class_name_fault(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "ns::Name", "::Name", "Name ", "Name\n", "1Name", "_Name", "A__B", "Größe", "class", "INT_MAX", "TFAOT_NAMESPACE",
        "A" * 65, "X {}; int main() {} class Y", 'X"', "X<int>", "X\\", "X/*",
    ],
)  # fmt: skip
def test_what_is_no_class_of_cpp_names_none(name: str) -> None:
    fault = class_name_fault(name)
    assert fault
    assert "\n" not in fault


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "10", "1.0.0rc1", "1.0.0+cms2", "2024.1.5", "1.0.0-rc.1"])
def test_versions_of_both_python_and_conan_are_accepted(version: str) -> None:
    assert version_fault(version) == ""


@pytest.mark.parametrize(
    "version", ["", "x", "1.0 ", "1.0\n", "v1.0", "1!2.0", "1.0RC1", "1.x", "1.0;ls", "1_0", "1..0"]
)
def test_versions_that_one_of_them_refuses_are_refused(version: str) -> None:
    assert version_fault(version)


def test_a_version_of_one_character_is_told_what_to_write() -> None:
    assert version_fault("1").endswith("write 1.0")


def test_a_tensorflow_version_is_full() -> None:
    assert tensorflow_fault("2.17.1") == ""
    assert tensorflow_fault("2.17")
    assert tensorflow_fault("2.17.1; x")


def test_the_package_name_has_the_common_prefix() -> None:
    assert package_name("digits") == "tfaot-model-digits"


def test_tensor_names_become_distinct_identifiers() -> None:
    names = ["dense/out:0", "my-input", "int", "a_b", "a/b", "a-b", "", "0x", "é", "linux"]
    result = cpp_identifiers(names)
    assert result["dense/out:0"] == "dense_out"
    assert result["my-input"] == "my_input"
    assert result["int"] == "int_"
    assert result["a_b"] == "a_b"
    assert {result["a/b"], result["a-b"]} == {"a_b_2", "a_b_3"}
    assert len(set(result.values())) == len(names)


@pytest.mark.sweep("g++", "clang++")
@pytest.mark.parametrize("compiler", EVERY)
def test_no_identifier_is_a_macro_of_a_header_of_c(compiler: str, require_program: Callable[[str], str]) -> None:
    require_program(compiler)
    assert not macros_of(compiler) - MACROS - CPP_KEYWORDS
    assert cpp_identifiers(["I", "B0", "M_PI"]) == {"I": "I_", "B0": "B0_", "M_PI": "M_PI_"}
    assert cpp_identifiers(["DAY", "DAY:0"]) == {"DAY": "DAY", "DAY:0": "DAY_8"}  # DAY_2 to DAY_7 are in <langinfo.h>


def test_taken_identifiers_are_not_given() -> None:
    assert cpp_identifiers(["run"], taken={"run"}) == {"run": "run_2"}


@given(st.lists(st.text(max_size=30) | st.sampled_from(["a:0", "a", "a_2", "a/", "int", "int_", "int/", "tensor"])))
def test_every_tensor_name_gets_an_identifier_of_its_own_whatever_the_order(names: list[str]) -> None:
    result = cpp_identifiers(names)
    assert result == cpp_identifiers(reversed(names))
    assert len(set(result.values())) == len(set(names)) == len(result)
    for identifier in result.values():
        assert IDENTIFIER.fullmatch(identifier)
        assert "__" not in identifier
        assert identifier not in CPP_KEYWORDS
        assert len(identifier) < 140


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
def test_the_compiler_agrees_about_keywords(tmp_path: Path) -> None:
    """Each keyword of ours fails as a class name in C++20: none is listed by mistake."""
    for index, word in enumerate(sorted(CPP_KEYWORDS)):
        (tmp_path / f"{index}.cpp").write_text(f"namespace n {{ struct {word} {{ int x; }}; }} n::{word} value{{}};\n")
    command = ["g++", "-std=c++20", "-fsyntax-only", "-fmax-errors=1"]
    accepted = [
        word
        for index, word in enumerate(sorted(CPP_KEYWORDS))
        if subprocess.run([*command, str(tmp_path / f"{index}.cpp")], capture_output=True, check=False).returncode == 0
    ]
    assert accepted == []
