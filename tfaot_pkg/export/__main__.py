"""Runs the command line, also of a copy of this folder alone: `python FOLDER ...`."""

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    if not __package__:
        # Run by its path. Only while it is imported: modules beside it are not the standard library's.
        sys.path[0] = str(folder.parent)
        command = import_module(f"{folder.name}.command")
        del sys.path[0]
    else:
        command = import_module(f"{__package__}.command")
    sys.exit(command.main())
