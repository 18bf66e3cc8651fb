"""Keep what packages of this version are rendered from: templates/released/VERSION/. Run it when a release is made.

    python tools/keep_release.py [VERSION CHECKOUT]

Later versions render packages of this one again, to see that nobody changed their headers and build files.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from tfaot_pkg._version import __version__  # noqa: E402
from tfaot_pkg.ground.keys import sha256_file  # noqa: E402

_TEMPLATES = ("package", "former", "cmssw", "source/CMakeLists.txt.j2")


def keep(version: str, checkout: Path) -> Path:
    """Copy the templates of packages in `checkout`, and write the digests of its shared headers."""
    folder = REPOSITORY / "templates" / "released" / version
    headers = checkout / "recipes" / "tfaot" / "all" / "include"
    shutil.rmtree(folder, ignore_errors=True)
    for name in _TEMPLATES:
        source, place = checkout / "templates" / name, folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, place)
    shutil.copyfile(headers / "tfaot" / "version.h", folder / "version.h")
    digests = {path.relative_to(headers).as_posix(): sha256_file(path) for path in sorted(headers.rglob("*.h"))}
    (folder / "headers.json").write_text(json.dumps(digests, indent=1) + "\n")
    return folder


if __name__ == "__main__":
    given = sys.argv[1:]
    print(keep(given[0], Path(given[1])) if given else keep(__version__, REPOSITORY))
