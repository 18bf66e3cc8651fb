"""The version of the tfaot headers that a package brings along."""

from __future__ import annotations

import re

VERSION_FILE = "include/tfaot/version.h"


def headers_version(text: str) -> int:
    """TFAOT_HEADERS_VERSION in the text of tfaot/version.h; 0 where there is none."""
    found = re.search(r"^#define TFAOT_HEADERS_VERSION (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
