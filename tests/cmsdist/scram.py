"""What SCRAM makes of a tool file: variables from the file, then from the shell, and flags of the compiler."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path


def compiler_flags(tool_file: Path, environ: Mapping[str, str]) -> list[str]:
    """The flags with which SCRAM compiles and links what uses the tool."""
    (tool,) = ET.fromstringlist(["<root>", tool_file.read_text(encoding="ascii"), "</root>"])
    own = {str(e.get("name")): str(e.get("default")) for e in tool.iter("environment")}

    def value(text: str) -> str:
        return re.sub(r"\$(\w+)", lambda m: value(own[m[1]] if m[1] in own else environ[m[1]]), text)

    return [
        f"-I{value('$INCLUDE')}",
        *[value(str(flags.get("LDFLAGS"))) for flags in tool.iter("flags")],
        f"-L{value('$LIBDIR')}",
        *[f"-l{lib.get('name')}" for lib in tool.iter("lib")],
    ]
