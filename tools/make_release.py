"""Build a release into dist/, check it in clean environments, and sign it: `make release REPOSITORY=... KEY=...`.

    REPOSITORY   the address of the repository, https://HOST/OWNER/NAME, for project URLs and links in the README
    KEY          the OpenPGP key that signs SHA256SUMS; none: it is not signed

In the environment:

    TFAOT_CONDA_CHANNEL   where the conda package's dependencies come from (default: conda-forge; none: no package)
    TFAOT_IMAGE_BASE      the image with Python that the container image is built on (default: the Containerfile's;
                          none: no image)

The sources are those of HEAD, whose changelog has a dated section for the version; the wheel is built from the source
distribution. Files are the same bytes whoever builds them: times in them are that of the commit. Each Python from 3.10
to 3.13 that this machine has (on the PATH, or installed by pyenv or uv) installs the wheel with the versions of
requirements/run.txt, and starts it in an empty home. rattler-build makes the conda package and runs its tests in an
environment of conda packages; podman, docker or buildah builds the image and starts the tool in it; pre-commit runs the
hook in a repository. What this machine has no program for is told at the end.
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
sys.path.insert(0, str(ROOT))

from tools import release_conda, release_container  # noqa: E402

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


def conda_package(wheel: Path, source: Path) -> str:
    """Write the recipe, make the package and try it; what was done."""
    sha256 = hashlib.sha256(source.read_bytes()).hexdigest()
    path = release_conda.write_recipe(DIST / "conda", wheel, source, sha256)
    channel = os.environ.get("TFAOT_CONDA_CHANNEL", "conda-forge")
    if channel == "none":
        return "conda package: not made, because there is no channel (TFAOT_CONDA_CHANNEL)"
    with tempfile.TemporaryDirectory() as scratch:
        run(sys.executable, ROOT / "tools" / "release_conda.py", path, channel, scratch, cwd=Path(scratch))
        (made,) = Path(scratch).glob("noarch/*.conda")
        shutil.copy(made, DIST / "conda")
    return f"{made.name}: made from the recipe, its tests passed in an environment from {channel}"


def image(wheel: Path, found: str) -> str:
    """Write the folder of the container image, build it and start the tool in it; what was done."""
    release_container.write_context(DIST / "container", wheel)
    run(_BIN / "hadolint", DIST / "container" / "Containerfile")
    if os.environ.get("TFAOT_IMAGE_BASE") == "none":
        return "container image: not built, because there is no base (TFAOT_IMAGE_BASE)"
    name = release_container.program()
    if name is None:
        return "container image: not built, because this machine has none of podman, docker and buildah that works"
    tag = f"tfaot-pkg:{found}"
    said = release_container.build_and_try(DIST / "container", tag, run, name)
    if said != f"tfaot-pkg {found}\n":
        sys.exit(f"{tag}: the tool in the image says {said!r}")
    return f"{tag}: built by {name}, the tool started in it without root"


_SPEC = "model: {name: dense, version: 1.0.0, saved_model: dense}\ncompilation: {batch_sizes: [1]}\n"


def hook() -> str:
    """Run the hook of HEAD with pre-commit on a spec, and on one with a fault; what was done."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "repository"
        folder.mkdir()
        commit = run("git", "rev-parse", "HEAD").strip()
        environment = {**os.environ, "PRE_COMMIT_HOME": f"{scratch}/home"}
        (folder / ".pre-commit-config.yaml").write_text(
            f"repos: [{{repo: {ROOT}, rev: {commit}, hooks: [{{id: tfaot-spec}}]}}]\n"
        )
        (folder / "spec.yaml").write_text(_SPEC)
        run("git", "init", "--quiet", folder)
        run("git", "add", ".", cwd=folder)
        run(_BIN / "pre-commit", "run", "--all-files", cwd=folder, env=environment)
        (folder / "spec.yaml").write_text(_SPEC.replace("[1]", "[0]"))
        argv = (_BIN / "pre-commit", "run", "--all-files")
        done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not done.returncode or "spec.yaml:2: compilation.batch_sizes[0]" not in done.stdout:
            sys.exit(f"the hook found no fault in a wrong spec:\n{done.stdout}{done.stderr}")
    return "hook for pre-commit: installed, passed a spec and rejected another"


def sign(files: list[Path], key: str) -> str:
    """Write SHA256SUMS of `files` and, unless `key` is `none`, its signature; the sums."""
    sums = "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(DIST).as_posix()}\n" for file in files
    )
    (DIST / "SHA256SUMS").write_text(sums)
    if key != "none":
        run("gpg", "--batch", "--yes", "--armor", "--local-user", key, "--detach-sign", DIST / "SHA256SUMS")
    return sums


def main() -> None:
    repository, key = os.environ.get("TFAOT_REPOSITORY", ""), os.environ.get("KEY", "")
    if not repository or not key:
        sys.exit(
            "make release REPOSITORY=https://HOST/OWNER/NAME KEY=OPENPGP-KEY (for project URLs and the signature; "
            "KEY=none signs nothing)"
        )
    found = version()
    files = build(repository, f"tfaot_pkg-{found}")
    print(run(_BIN / "twine", "check", "--strict", *files), end="")
    wheel, source = (next(file for file in files if file.suffix == suffix) for suffix in (".whl", ".gz"))
    checked = check(wheel, found)
    print(f"installed and started in an empty home by Python {', '.join(checked)}")
    if missing := [each for each in PYTHONS if each not in checked]:
        print(f"not checked, because not on this machine: {', '.join(missing)}")
    print(hook(), conda_package(wheel, source), image(wheel, found), sep="\n")
    sums = sign([*files, *sorted(DIST.glob("conda/*")), DIST / "container" / "Containerfile"], key)
    if key == "none":
        print(f"{sums}not signed")
        return
    commit = run("git", "rev-parse", "HEAD").strip()
    print(
        f"{sums}signed by {key}; then:\n"
        f'  git tag --sign --local-user {key} --message "tfaot-pkg {found}" v{found} {commit}\n'
        f"  git tag --verify v{found} && git push origin v{found}\n"
        "  twine upload dist/*.whl dist/*.tar.gz"
    )


if __name__ == "__main__":
    main()
