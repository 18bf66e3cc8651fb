"""SCRAM tool files, read as SCRAM reads them: as text inside of a root element, variables from the file, then the shell."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.package.conftest import make_contents
from tests.wording import reported
from tfaot_pkg.errors import PrefixError
from tfaot_pkg.ground.process import run
from tfaot_pkg.package.cmssw import CmsswArea, cmssw_area, tool_files
from tfaot_pkg.package.tree import PackageTree, render

NAME = "tfaot-model-my-net"
OBJECTS = ("my_net_bs1.o", "my_net_bs4.o", "my_net_common.o")
# Elements and attributes that SCRAM knows in a tool file (SCRAM/BuildSystem/SimpleDoc.py); any attribute of flags.
KNOWN = {
    "tool": {"name", "version", "type", "revision", "path"},
    "info": {"url"},
    "client": set(),
    "environment": {"name", "default", "value"},
    "lib": {"name", "type"},
    "flags": {"LDFLAGS"},
}


def parsed(text: bytes) -> ET.Element:
    (tool,) = ET.fromstringlist(["<root>", text.decode("ascii"), "</root>"])
    for element in tool.iter():
        assert set(element.attrib) <= KNOWN[element.tag]
    return tool


def expanded(text: bytes, environ: Mapping[str, str]) -> dict[str, list[str]]:
    """What SCRAM makes of the tool: its variables, libraries and flags."""
    tool = parsed(text)
    own = {str(e.get("name")): str(e.get("default")) for e in tool.iter("environment")}

    def value(text: str) -> str:
        return re.sub(r"\$(\w+)", lambda m: value(own[m[1]] if m[1] in own else environ[m[1]]), text)

    return {
        **{name: [value(default)] for name, default in own.items()},
        "LIB": [str(lib.get("name")) for lib in tool.iter("lib")],
        "LDFLAGS": [value(str(flags.get("LDFLAGS"))) for flags in tool.iter("flags")],
    }


def test_a_tool_file_names_the_library_and_its_folders() -> None:
    (text,) = tool_files(package=NAME, version="1.2.0", homepage="https://example.org").values()
    tool = parsed(text)
    assert (tool.tag, tool.attrib) == ("tool", {"name": NAME, "version": "1.2.0"})
    installed = expanded(text.replace(b"@TOOL_ROOT@", b"/opt/cms/my_net"), {})
    assert installed == {
        "TFAOT_MODEL_MY_NET_BASE": ["/opt/cms/my_net"],
        "LIBDIR": ["/opt/cms/my_net/lib"],
        "INCLUDE": ["/opt/cms/my_net/include"],
        "LIB": [NAME],
        "LDFLAGS": [],
    }


def test_the_tool_of_objects_links_these_and_no_library() -> None:
    files = tool_files(package=NAME, version="1.2.0", base="$CMSSW_BASE/tfaot", objects=OBJECTS)
    assert list(files) == [f"{NAME}.xml", f"{NAME}-objects.xml"]
    tool = expanded(files[f"{NAME}-objects.xml"], {"CMSSW_BASE": "/home/me/CMSSW_15_0_0"})
    assert tool["TFAOT_MODEL_MY_NET_OBJECTS_BASE"] == ["/home/me/CMSSW_15_0_0/tfaot"]
    assert tool["LDFLAGS"] == [f"/home/me/CMSSW_15_0_0/tfaot/lib/{name}" for name in OBJECTS]
    assert tool["LIB"] == []
    assert expanded(files[f"{NAME}.xml"], {"CMSSW_BASE": "/x"})["LIB"] == [NAME]


def test_text_of_users_stays_text_and_the_file_is_ascii_without_a_declaration() -> None:
    homepage = 'https://example.org/?a=1&b="<x>"\'é'
    (text,) = tool_files(package=NAME, version="1.0", homepage=homepage).values()
    info = parsed(text).find("info")
    assert info is not None and info.get("url") == homepage
    assert text.startswith(b"<tool ")


def test_a_model_without_homepage_has_no_info() -> None:
    (text,) = tool_files(package=NAME, version="1.0").values()
    assert parsed(text).find("info") is None


def test_xmllint_takes_every_tool_file_of_a_package(require_program: Callable[[str], str], tmp_path: Path) -> None:
    xmllint = require_program("xmllint")
    objects = tuple(tmp_path / name for name in OBJECTS)
    for path in (*objects, tmp_path / "lib.a", tmp_path / "lib.so"):
        path.write_bytes(b"code")
    files = render(make_contents(libraries=tmp_path))
    tools = {path: text for path, text in files.items() if path.startswith("etc/scram.d/")}
    assert list(tools) == ["etc/scram.d/tfaot-model-affine.xml"]
    for name, text in (*tools.items(), *tool_files(package=NAME, version="1.0", objects=OBJECTS).items()):
        file = tmp_path / Path(name).name
        file.write_bytes(text)
        assert run([xmllint, "--noout", "--pedantic", file]).stderr == ""


def test_a_program_builds_with_what_scram_would_pass_to_the_compiler(
    make_tree: Callable[..., PackageTree], tmp_path: Path
) -> None:
    prefix = tmp_path / "CMSSW_15_0_0" / "tfaot"
    make_tree(prefix)
    (text,) = tool_files(package="tfaot-model-affine", version="1.2.0", base="$CMSSW_BASE/tfaot").values()
    tool = expanded(text, {"CMSSW_BASE": str(prefix.parent)})
    (tmp_path / "main.cc").write_text(
        '#include <cstdio>\n#include "tfaot-model-affine/model.h"\n'
        "int main() { std::puts(tfaot_model::affine::version); }\n"
    )
    flags = [
        *(f"-I{d}" for d in tool["INCLUDE"]),
        *(f"-L{d}" for d in tool["LIBDIR"]),
        *(f"-l{n}" for n in tool["LIB"]),
    ]
    run(["g++", "-std=c++17", tmp_path / "main.cc", *flags, "-o", tmp_path / "main"])
    assert run([tmp_path / "main"], env={"LD_LIBRARY_PATH": tool["LIBDIR"][0]}).stdout == "1.2.0\n"


def test_the_place_in_a_cmssw_area_is_told_by_its_variable(tmp_path: Path) -> None:
    area = tmp_path / "CMSSW_15_0_0"
    area.mkdir()
    assert cmssw_area(str(area), None) == CmsswArea(root=area, place="tfaot")
    assert cmssw_area(str(area), area / "src" / "models").base == "$CMSSW_BASE/src/models"
    assert cmssw_area(str(area), area).base == "$CMSSW_BASE"
    # Home folders are often links.
    (tmp_path / "home").symlink_to(area)
    linked = cmssw_area(str(tmp_path / "home"), area / "models")
    assert (linked.base, linked.prefix) == ("$CMSSW_BASE/models", tmp_path / "home" / "models")


@pytest.mark.parametrize(
    ("base", "output"),
    [
        ("", "CMSSW/x"),
        ("nowhere", "nowhere/x"),
        ("CMSSW", "elsewhere"),
        ("CMSSW", "CMSSW/../CMSSW_2/x"),
        ("CMSSW", "CMSSW/my models"),
        ("CMSSW", "CMSSW/$HOME"),
    ],
)
def test_a_place_that_no_tool_file_can_name_is_refused(base: str, output: str, tmp_path: Path) -> None:
    (tmp_path / "CMSSW").mkdir()
    with reported(PrefixError):
        cmssw_area(str(tmp_path / base) if base else "", tmp_path / output)
