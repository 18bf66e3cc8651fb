"""`python -m tfaot_pkg` is `tfaot-pkg`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit. Imports take a moment, in which Ctrl-C must not print a traceback."""
    try:
        from tfaot_pkg.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


def cms_tfaot_compile() -> None:
    """The program `cms_tfaot_compile`."""
    try:
        from tfaot_pkg.cli.cmsdist import compile_main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
