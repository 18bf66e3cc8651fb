"""Files of a package that its users' compilers and build systems run: are they what a release of this tool renders?

Headers, CMake files, pkg-config files and SCRAM's tool files are rendered from templates, and from values that stand in
the package. So whoever has a package can render them again (rerender.py), without building anything. The templates of
each release are kept in templates/released/, because packages outlive the tool that made them (decision 075).

The code of a source form cannot be made again without a build: only the publisher compares that (nightly/recheck.py).
"""

from __future__ import annotations

import re
from pathlib import Path

from tfaot_pkg._version import __version__
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.package.listing import Tree, source_folder

_FOLDERS = ("include/", "lib/cmake/", "lib/pkgconfig/", "etc/")
_SHARED = "include/tfaot/"
"""Headers of all packages: installations take their own (package/prefix/install.py), whatever a package has."""
_OF_SOURCE = ("CMakeLists.txt", "BUILD.bazel", "cmake/", "include/", "install/")
_CMAKE = re.compile(r"\s*(#(?!\[)[^\n]*)?")
_COMMENTS = {".h": re.compile(r"\s*(//[^\n\\?]*)?"), ".cmake": _CMAKE, ".txt": _CMAKE}
_MOST_COMMENTS = 1 << 16  # bytes


def custom_files(root: Path, tree: Tree, package: str, signature: Signature, tool: str) -> tuple[str, ...]:
    """Those files for users of `package` in `root`, whose files are `tree`, that no release of this tool renders.

    `package` is a name that files of it may have; `signature` is that of the model, `tool` the release that is said to
    have made the package: it is tried first, which saves time. Raises OSError.
    """
    folder = source_folder(package)
    left = {path: digest for path, digest in tree.files.items() if _is_for_users(path, folder)}
    # The source form has copies of headers.
    copies = {f"{folder}/{path}": digest for path, digest in left.items()}
    left = {path: digest for path, digest in left.items() if digest != copies.get(path)}
    # A file of comments does nothing.
    left = {path: digest for path, digest in left.items() if not _is_empty(root / path)}
    if not left:
        return ()
    # These read YAML and templates: nothing else waits for that.
    from tfaot_pkg.ground.rendering import releases
    from tfaot_pkg.package.rerender import Again

    again = Again(root, tree, package, signature)
    for release in sorted(releases(), key=lambda release: (release or __version__) != tool):
        made = again.digests(release) if left else {}
        left = {path: digest for path, digest in left.items() if made.get(path) != digest}
    return tuple(sorted(left))


def _is_for_users(path: str, source: str) -> bool:
    inner = path.removeprefix(f"{source}/")
    if inner != path:
        return inner.startswith(_OF_SOURCE)
    return path.startswith(_FOLDERS) and not path.startswith(_SHARED)


def _is_empty(file: Path) -> bool:
    pattern = _COMMENTS.get(file.suffix)
    if pattern is None or file.stat().st_size > _MOST_COMMENTS:
        return False
    text = file.read_text(encoding="ascii", errors="replace")
    return all(pattern.fullmatch(line) for line in text.split("\n"))
