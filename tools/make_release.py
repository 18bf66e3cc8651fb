"""Build a release into dist/, check it in clean environments, and sign it: `make release REPOSITORY=... KEY=...`.

    REPOSITORY   the address of the repository, https://HOST/OWNER/NAME, for project URLs and links in the README
    KEY          the OpenPGP key that signs SHA256SUMS

The sources are those of HEAD, whose changelog has a dated section for the version; the wheel is built from the source
distribution. Files are the same bytes whoever builds them: times in them are that of the commit. Each Python from 3.10
to 3.13 that this machine has (on the PATH, or installed by pyenv or uv) installs the wheel with the versions of
requirements/run.txt, and starts it in an empty home.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
_BIN = Path(sys.executable).parent


def run(*argv: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """What a program prints. Exits if it fails."""
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))}\n{done.stdout}{done.stderr}")
    return done.stdout


def version() -> str:
    """The version of HEAD, which has a dated section in the changelog."""
    (found,) = re.findall(r'^__version__ = "(.+)"$', run("git", "show", "HEAD:tfaot_pkg/_version.py"), re.MULTILINE)
    if not re.search(
        rf"^## {re.escape(found)} - \d{{4}}-\d\d-\d\d$", run("git", "show", "HEAD:CHANGELOG.md"), re.MULTILINE
    ):
        sys.exit(f"CHANGELOG.md has no section `## {found} - YYYY-MM-DD`")
    return str(found)


def build(repository: str, name: str) -> list[Path]:
    """The source distribution of HEAD, and the wheel that it gives."""
    shutil.rmtree(DIST, ignore_errors=True)
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    environment = {**os.environ, "TFAOT_REPOSITORY": repository, "SOURCE_DATE_EPOCH": epoch}
    with tempfile.TemporaryDirectory() as scratch:
        head, unpacked = Path(scratch) / "head", Path(scratch) / "unpacked"
        run("git", "worktree", "add", "--detach", head, "HEAD")
        try:
            run(_BIN / "hatchling", "build", "-t", "sdist", "-d", DIST, cwd=head, env=environment)
        finally:
            run("git", "worktree", "remove", "--force", head)
        (source,) = DIST.iterdir()
        with tarfile.open(source) as archive:
            archive.extractall(unpacked, filter="data")
        run(_BIN / "hatchling", "build", "-t", "wheel", "-d", DIST, cwd=unpacked / name, env=environment)
    return sorted(DIST.iterdir())


def interpreter(python: str) -> Path | None:
    """The interpreter `pythonX.Y` of this machine, which can make environments; None if there is none."""
    name, home, data = f"python{python}", Path.home(), os.environ.get("XDG_DATA_HOME")
    managed = (
        Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path(data or home / ".local" / "share") / "uv" / "python"),
    )
    on_path = [Path(folder) / name for folder in os.get_exec_path()]
    installed = [file for folder in managed for file in sorted(folder.glob(f"*/bin/{name}"))]
    # It must run: version managers put names on the PATH that do not.
    question = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != {tuple(map(int, python.split('.')))})"
    for file in (*on_path, *installed):
        if file.is_file() and not subprocess.run([file, "-c", question], capture_output=True, check=False).returncode:
            return file
    return None


def check(wheel: Path, found: str) -> list[str]:
    """The Pythons that install and start the wheel in an empty home."""
    checked = []
    for each in PYTHONS:
        python = interpreter(each)
        if python is None:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            home = Path(scratch)
            run(python, "-m", "venv", home / "venv")
            pip = (home / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet")
            run(*pip, "--require-hashes", "--only-binary", ":all:", "-r", ROOT / "requirements" / "run.txt")
            run(*pip, "--no-deps", wheel)
            tool, environment = home / "venv" / "bin" / "tfaot-pkg", {"HOME": scratch, "PATH": "/usr/bin:/bin"}
            if run(tool, "--version", cwd=home, env=environment) != f"tfaot-pkg {found}\n":
                sys.exit(f"Python {each}: the wheel has another version")
            for words in (
                ["sample", "digits"],
                ["schema"],
                ["registry", "init", "models", "--keys", "keys", "--no-passphrase"],
            ):
                run(tool, *words, cwd=home, env=environment)
        checked.append(each)
    return checked


def main() -> None:
    repository, key = os.environ.get("TFAOT_REPOSITORY", ""), os.environ.get("KEY", "")
    if not repository or not key:
        sys.exit(
            "make release REPOSITORY=https://HOST/OWNER/NAME KEY=OPENPGP-KEY (project URLs and the signature need them)"
        )
    found = version()
    files = build(repository, f"tfaot_pkg-{found}")
    print(run(_BIN / "twine", "check", "--strict", *files), end="")
    checked = check(next(file for file in files if file.suffix == ".whl"), found)
    print(f"installed and started in an empty home by Python {', '.join(checked)}")
    if missing := [each for each in PYTHONS if each not in checked]:
        print(f"not checked, because not on this machine: {', '.join(missing)}")
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (DIST / "SHA256SUMS").write_text(sums)
    run("gpg", "--batch", "--yes", "--armor", "--local-user", key, "--detach-sign", DIST / "SHA256SUMS")
    commit = run("git", "rev-parse", "HEAD").strip()
    print(
        f"{sums}signed by {key}; then:\n"
        f'  git tag --sign --local-user {key} --message "tfaot-pkg {found}" v{found} {commit}\n'
        f"  git tag --verify v{found} && git push origin v{found}\n"
        "  twine upload dist/*.whl dist/*.tar.gz"
    )


if __name__ == "__main__":
    main()
