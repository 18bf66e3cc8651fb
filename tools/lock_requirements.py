"""Write lock files: every distribution pinned, with the hashes of all of its files, and no host named.

    python tools/lock_requirements.py                              the project's own (make lock)
    python tools/lock_requirements.py --toolchains [VERSION...]    those of TensorFlow's environments: all, or these
    python tools/lock_requirements.py --frontends                  those of the readers of other frameworks' models
    python tools/lock_requirements.py --peers                      those of the engines that bench compares with
    python tools/lock_requirements.py OUTPUT REQUIREMENT...        any other, for one Python: --python 3.11

uv resolves once for all Python versions from `--python` up, so one file serves each of them by environment markers.
The package index is the user's own setting (UV_DEFAULT_INDEX or pip's default), and is never written to a file.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLCHAINS = ROOT / "tfaot_pkg" / "frontends" / "toolchain" / "requirements"
FRONTENDS = TOOLCHAINS / "frontends"
PEERS = ROOT / "tfaot_pkg" / "measure" / "bench" / "requirements"
OLDEST_PYTHON = "3.10"
_HEADER = "# Made by tools/lock_requirements.py; do not edit.\n# Where packages come from is the user's choice.\n"

# Left out of toolchains: nothing that this tool runs imports them, and they are large downloads. uv does not look for
# them either: some releases of TensorFlow name a tensorflow-intel that was never published.
_LEFT_OUT = (
    *("tensorboard", "tensorboard-data-server", "markdown", "markupsafe", "werkzeug", "grpcio"),  # a web server
    *("libclang", "wheel"),  # for building TensorFlow
    *("tensorflow-intel", "tensorflow-io-gcs-filesystem"),  # other platforms, other file systems
    "tensorflow",  # what tf-keras asks for: it works beside tensorflow-cpu
)


def uv() -> str:
    """The uv program: beside this Python or on the PATH."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        sys.exit("uv is missing: pip install uv")
    return found


def lock(
    sources: Sequence[str],
    *,
    python: str = OLDEST_PYTHON,
    one_python: bool = False,
    requirements: str = "",
    more: Sequence[str] = (),
) -> str:
    """The text of the lock file for `sources` (names of files) and `requirements` (lines), from `python` up.

    With `one_python` for that version of Python on Linux only; `more` are further options of uv.
    """
    scope = ["--python-platform", "x86_64-manylinux_2_28"] if one_python else ["--universal"]
    options = ["--generate-hashes", "--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    argv = [uv(), "pip", "compile", "--quiet", "--python-version", python, *scope, *options, *more, *sources]
    if requirements:
        argv.append("-")
    result = subprocess.run(argv, cwd=ROOT, input=requirements, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(result.stderr)
    return _HEADER + result.stdout


def lock_project() -> None:
    """run.txt from pyproject.toml's ranges, test.txt from the same and test.in, the others from their own .in files."""
    folder = ROOT / "requirements"
    (folder / "run.txt").write_text(lock(["pyproject.toml"]))
    (folder / "test.txt").write_text(lock(["pyproject.toml", "requirements/test.in", "-c", "requirements/run.txt"]))
    (folder / "s3.txt").write_text(lock(["requirements/s3.in", "-c", "requirements/test.txt"]))
    for name in ("tools", "release", "conda"):
        (folder / f"{name}.txt").write_text(lock([f"requirements/{name}.in"]))


def lock_toolchains(versions: Sequence[str] = ()) -> None:
    """tensorflow-VERSION.txt from tensorflow-VERSION.in, with the same versions for every Python where that can be.

    Of all releases, or of `versions`.
    """
    sources = [TOOLCHAINS / f"tensorflow-{version}.in" for version in versions] or sorted(TOOLCHAINS.glob("*.in"))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as excluded:
        excluded.write("\n".join(_LEFT_OUT))
        excluded.flush()
        more = ["--fork-strategy", "fewest", "--excludes", excluded.name]
        for source in sources:
            source.with_suffix(".txt").write_text(lock([str(source)], more=more))


def lock_frontends() -> None:
    """FORMAT.txt from FORMAT.in; FORMAT.overrides has versions that replace what packages ask for."""
    for source in sorted(FRONTENDS.glob("*.in")):
        overrides = source.with_suffix(".overrides")
        more = ["--overrides", str(overrides)] if overrides.exists() else []
        source.with_suffix(".txt").write_text(lock([str(source)], more=more))


def lock_peers() -> None:
    """PEER.txt from PEER.in; tf2onnx stands beside a toolchain and brings nothing of its own."""
    for source in sorted(PEERS.glob("*.in")):
        more = ["--no-deps"] if source.stem == "tf2onnx" else []
        source.with_suffix(".txt").write_text(lock([str(source)], more=more))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path)
    parser.add_argument("requirement", nargs="*")
    parser.add_argument("--python", help="lock for this version of Python only")
    parser.add_argument("--toolchains", nargs="*", metavar="VERSION", help="lock TensorFlow's environments")
    parser.add_argument("--peers", action="store_true", help="lock the environments of bench's peers")
    parser.add_argument("--frontends", action="store_true", help="lock the environments of front-ends")
    arguments = parser.parse_args()
    if arguments.frontends:
        lock_frontends()
        return
    if arguments.peers:
        lock_peers()
        return
    if arguments.toolchains is not None:
        lock_toolchains(arguments.toolchains)
        return
    if arguments.output is None:
        lock_project()
        return
    text = lock(
        [],
        python=arguments.python or OLDEST_PYTHON,
        one_python=arguments.python is not None,
        requirements="\n".join(arguments.requirement),
    )
    arguments.output.write_text(text)


if __name__ == "__main__":
    main()
