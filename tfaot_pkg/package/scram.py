"""SCRAM tool files: how CMSSW's build system finds a model."""

from __future__ import annotations

import xml.etree.ElementTree as ET

TOOL_ROOT = "@TOOL_ROOT@"
"""What CMS's tool installation replaces by the folder that the package is installed in."""


def tool_file(*, package: str, version: str, homepage: str = "", base: str = TOOL_ROOT) -> bytes:
    """The tool file of `package`, installed in `base` (a path, `TOOL_ROOT`, or something like `$CMSSW_BASE/x`)."""
    variable = package.upper().replace("-", "_") + "_BASE"
    tool = ET.Element("tool", {"name": package, "version": version})
    if homepage:
        ET.SubElement(tool, "info", {"url": homepage})
    ET.SubElement(tool, "lib", {"name": package})
    client = ET.SubElement(tool, "client")
    for name, default in ((variable, base), ("LIBDIR", f"${variable}/lib"), ("INCLUDE", f"${variable}/include")):
        ET.SubElement(client, "environment", {"name": name, "default": default})
    ET.indent(tool)
    text: bytes = ET.tostring(tool, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
