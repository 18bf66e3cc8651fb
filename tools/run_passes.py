"""Run passes of the compiler on a program as text: python tools/run_passes.py [--emit] FILE [PASS ...].

FILE is what `tfaot-pkg inspect SPEC --what program --constants` prints, or "-" for standard input. The program after
the passes is printed, or its C++ with --emit. Without passes, it is only read, verified and printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.passes.pipeline import UnknownPass, named, run
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.compiler.text import TextError, parse, text_of
from tfaot_pkg.compiler.verifier import InvalidProgram, verified


def main(arguments: list[str]) -> str:
    """Raises what reading, verifying and passes raise."""
    is_emitted = arguments[:1] == ["--emit"]
    file, *names = arguments[1:] if is_emitted else arguments
    passes = [named(name) for name in names]
    program = parse(sys.stdin.read() if file == "-" else Path(file).read_text())
    program = run(verified(program, "reading"), passes)
    return emit(program, "program").source if is_emitted else text_of(program)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    try:
        sys.stdout.write(main(sys.argv[1:]))
    except (TextError, InvalidProgram, UnknownPass, Unsupported, OSError) as error:
        sys.exit(f"error: {error}")
