from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.package.conftest import cmake
from tfaot_pkg.ground import rendering
from tfaot_pkg.ground.process import run

NASTY = [
    'a"b',
    "back\\slash",
    "??/ ??=",
    "new\nline",
    "tab\t1",
    "é∂",
    "\x7f1",
    "${HOME} @X@ $ENV{HOME}",
    "]=] ]]",
    "a;b",
    "]=",
]


def test_c_strings_hold_what_they_were_made_from(tmp_path: Path) -> None:
    literals = ",\n".join(map(rendering.c_string, NASTY))
    source = tmp_path / "strings.cpp"
    source.write_text(
        f'#include <cstdio>\n#include <initializer_list>\nint main() {{ for (const char* s : {{{literals}}}) {{ std::puts(s); std::puts("--"); }} }}\n'
    )
    run(
        [
            "g++",
            "-std=c++17",
            "-trigraphs",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            source,
            "-o",
            tmp_path / "strings",
        ]
    )
    printed = subprocess.run([tmp_path / "strings"], capture_output=True, check=True).stdout
    assert printed.decode() == "".join(f"{text}\n--\n" for text in NASTY)


def test_cmake_arguments_hold_what_they_were_made_from(tmp_path: Path) -> None:
    calls = [
        f"file(APPEND out {quote(text)} [[|]])"
        for text in NASTY
        for quote in (rendering.cmake_string, rendering.cmake_bracket)
    ]
    (tmp_path / "strings.cmake").write_text("\n".join(calls))
    run([Path(sys.executable).parent / "cmake", "-P", "strings.cmake"], cwd=tmp_path)
    assert (tmp_path / "out").read_text() == "".join(f"{text}|" for text in NASTY for _ in range(2))


@given(st.text())
def test_a_comment_stays_on_its_line(text: str) -> None:
    line = rendering.comment(text)
    assert line == "" or line.splitlines() == [line]
    assert not line.endswith(("\\", "??/"))
    assert line.isprintable()


@given(st.text())
def test_a_pkgconfig_value_has_no_variable_and_no_comment(text: str) -> None:
    value = rendering.pc_value(text)
    assert "\n" not in value
    assert "$" not in value.replace("$$", "")
    assert "#" not in value.replace(r"\#", "")


def test_a_name_that_the_context_lacks_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        rendering.render("package/lib/pkgconfig/tfaot-model-NAME.pc.j2", {})


def test_cmake_of_this_python_is_found() -> None:
    assert "cmake version" in cmake("--version")
