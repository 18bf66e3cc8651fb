"""Make the virtual environment of a checkout, with pip, also by a Python that has no ensurepip.

    python3 tools/make_venv.py FOLDER

Debian's Python has no ensurepip without the package python3-venv. Its own pip is copied then, because nothing is
downloaded before hashes are checked. Without a folder: it is only said whether this Python can do it.
"""

import shutil
import sys
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

OLDEST, TOO_NEW = (3, 10), (3, 14)


def main() -> str:
    """What is wrong with this Python; empty if it can do it."""
    is_suitable = OLDEST <= sys.version_info[:2] < TOO_NEW and find_spec("venv")
    if not is_suitable or not (find_spec("ensurepip") or find_spec("pip")):
        return f"{sys.executable}: not Python 3.10 to 3.13 with venv, and ensurepip or pip (Debian: python3-venv)"
    for folder in sys.argv[1:]:
        make(Path(folder))
    return ""


def make(folder: Path) -> None:
    import venv

    has_ensurepip = find_spec("ensurepip") is not None
    venv.create(folder, symlinks=True, with_pip=has_ensurepip)
    if not has_ensurepip:
        (site,) = folder.glob("lib/python3.*/site-packages")
        pip = distribution("pip")
        place = Path(str(pip.locate_file("")))
        for name in ("pip", f"pip-{pip.version}.dist-info"):
            shutil.copytree(place / name, site / name)


if __name__ == "__main__":
    sys.exit(main() or 0)
