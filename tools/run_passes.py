"""Run passes of the compiler on a program as text: python tools/run_passes.py [FORM] FILE [PASS ...].

FILE is what `tfaot-pkg inspect SPEC --what program --constants` prints, or "-" for standard input. The program after
the passes is printed; or, by FORM, its C++ (--emit), its loops (--loops), those before and after a pass on loops
(--loops=vectorize), or which form its operations take in them (--selection). Without passes, it is only read,
verified and printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tfaot_pkg.compiler.emit import LOOP_PASSES, emit, loops_of
from tfaot_pkg.compiler.passes.pipeline import UnknownPass, named, run
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.compiler.text import TextError, parse, text_of
from tfaot_pkg.compiler.verifier import InvalidProgram, verified
from tools.loops_text import text_of_loop_pass, text_of_loops
from tools.selection_text import text_of_selection


def main(arguments: list[str]) -> str:
    """Raises what reading, verifying and passes raise."""
    form = arguments[0] if arguments[0].startswith("--") else ""
    if form not in ("", "--emit", "--loops", "--selection", *(f"--loops={name}" for name in LOOP_PASSES)):
        raise UnknownPass(f"there is no form {form}; passes on loops are {', '.join(LOOP_PASSES)}")
    file, *names = arguments[1:] if form else arguments
    passes = [named(name) for name in names]
    program = parse(sys.stdin.read() if file == "-" else Path(file).read_text())
    program = run(verified(program, "reading"), passes)
    if form == "--loops":
        return text_of_loops(loops_of(program))
    if form.startswith("--loops="):
        return text_of_loop_pass(program, form.partition("=")[2])
    if form == "--selection":
        return text_of_selection(program)
    return emit(program, "program").source if form else text_of(program)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    try:
        sys.stdout.write(main(sys.argv[1:]))
    except (TextError, InvalidProgram, UnknownPass, Unsupported, OSError) as error:
        sys.exit(f"error: {error}")
