"""Adds macros of this machine's headers to tfaot_pkg/spec/macros.py, of all compilers that tests/compilers.py finds.

Needs X11's headers, too (Debian: libx11-dev). tools/other_compilers.sh gives compilers and headers of other releases.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.compilers import EVERY
from tests.spec.macros import macros_of

_OUTPUT = Path(__file__).resolve().parents[1] / "tfaot_pkg" / "spec" / "macros.py"


def main() -> None:
    """Names are added, never removed: packages are used with other C libraries, too."""
    text = _OUTPUT.read_text(encoding="utf-8")
    head, names, tail = re.split(r'(?<=frozenset\(\n    """\n)(.*)(?=\n    """\.split)', text, flags=re.DOTALL)
    found = set(names.split())
    for compiler in filter(shutil.which, (*EVERY, "musl-gcc")):
        found |= macros_of(compiler)
    names = textwrap.fill(
        " ".join(sorted(found)), 120, initial_indent=4 * " ", subsequent_indent=4 * " ", break_on_hyphens=False
    )
    _OUTPUT.write_text(head + names + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
