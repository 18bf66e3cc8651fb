from __future__ import annotations

import xml.etree.ElementTree as ET

from tfaot_pkg.package.scram import tool_file


def parsed(data: bytes) -> ET.Element:
    return ET.fromstring(data)


def test_a_tool_file_has_what_scram_reads() -> None:
    tool = parsed(tool_file(package="tfaot-model-my_net", version="1.2.0", homepage="https://example.org"))
    assert (tool.tag, tool.attrib) == ("tool", {"name": "tfaot-model-my_net", "version": "1.2.0"})
    assert [lib.get("name") for lib in tool.findall("lib")] == ["tfaot-model-my_net"]
    environment = {e.get("name"): e.get("default") for e in tool.findall("client/environment")}
    assert environment == {
        "TFAOT_MODEL_MY_NET_BASE": "@TOOL_ROOT@",
        "LIBDIR": "$TFAOT_MODEL_MY_NET_BASE/lib",
        "INCLUDE": "$TFAOT_MODEL_MY_NET_BASE/include",
    }


def test_text_of_users_stays_text() -> None:
    homepage = 'https://example.org/?a=1&b="<x>"\'é'
    info = parsed(tool_file(package="tfaot-model-x", version="1.0", homepage=homepage)).find("info")
    assert info is not None and info.get("url") == homepage


def test_the_base_can_be_chosen() -> None:
    tool = parsed(tool_file(package="tfaot-model-x", version="1.0", base="$CMSSW_BASE/tfaot"))
    base = tool.find("client/environment")
    assert base is not None and base.get("default") == "$CMSSW_BASE/tfaot"


def test_a_model_without_homepage_has_no_info() -> None:
    assert parsed(tool_file(package="tfaot-model-x", version="1.0")).find("info") is None
