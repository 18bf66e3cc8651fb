"""Adds the macros of this system's headers to tfaot_pkg/spec/macros.py. Needs X11's, too (Debian: libx11-dev)."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.spec.macros import macros_of

_OUTPUT = Path(__file__).resolve().parents[1] / "tfaot_pkg" / "spec" / "macros.py"


def main() -> None:
    """Names are added, never removed: packages are used with other C libraries, too."""
    text = _OUTPUT.read_text(encoding="utf-8")
    head, names, tail = re.split(r'(?<=frozenset\(\n    """\n)(.*)(?=\n    """\.split)', text, flags=re.DOTALL)
    found = " ".join(sorted({*names.split(), *macros_of("gcc")}))
    names = textwrap.fill(found, 120, initial_indent=4 * " ", subsequent_indent=4 * " ", break_on_hyphens=False)
    _OUTPUT.write_text(head + names + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
