"""What pip's failures mean. The texts are pip's own, from failures that were provoked."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import NetworkError, StorageError, TfaotError, ToolchainError, TrustError
from tfaot_pkg.frontends.toolchain import pinned
from tfaot_pkg.frontends.toolchain.pinned import Interpreter, clean_environment, failure, inspect, install
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Silent

_LOG = Path("/logs/pip.log")


def _failure(output: str, wheelhouse: Path | None = None) -> TfaotError:
    error = CommandFailed(["pip", "install"], None, "exit code 1", output)
    return failure(error, what="TensorFlow 2.17.1", log=_LOG, wheelhouse=wheelhouse)


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", StorageError),
        ("OSError: [Errno 122] Disk quota exceeded: '/home/u/x'", StorageError),
        (
            "WARNING: Retrying: NewConnectionError('Name or service not known')\nERROR: No matching distribution found for a==1",
            NetworkError,
        ),
        ("ERROR: Could not find a version that satisfies the requirement a==1 (from versions: none)", NetworkError),
        ("ERROR: HTTP error 503 while getting something", NetworkError),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    a==1 from x:\n", TrustError),
        ("ERROR: No matching distribution found for a==1", ToolchainError),
        ("Segmentation fault", ToolchainError),
    ],
)
def test_the_error_tells_whose_fault_it_is_and_names_the_log(output: str, kind: type[TfaotError]) -> None:
    error = _failure(output)
    assert type(error) is kind
    assert error.log == _LOG
    assert error.hint


def test_a_wheelhouse_that_lacks_a_package_is_named_with_it() -> None:
    error = _failure("ERROR: No matching distribution found for absl-py==2.5.1 (from -r x)", Path("/wheels"))
    assert isinstance(error, ToolchainError)
    assert "absl-py==2.5.1" in error.message and "/wheels" in error.message


def test_an_unreachable_index_leads_to_the_wheelhouse_option() -> None:
    assert "--wheelhouse" in _failure("Temporary failure in name resolution").hint


def test_pip_sees_the_users_network_settings_but_none_that_move_the_packages() -> None:
    cleaned = clean_environment({"PIP_INDEX_URL": "i", "PIP_CERT": "c", "PIP_TARGET": "t", "PYTHONPATH": "p", "A": "a"})
    assert cleaned == {"PIP_INDEX_URL": "i", "PIP_CERT": "c", "A": "a"}


def without_ensurepip(folder: Path) -> Path:
    """A real Python with a copy of the standard library that has no ensurepip, as Debian's without python3-venv."""
    library = Path(sysconfig.get_path("stdlib"))
    copy = folder / "lib" / library.name
    copy.mkdir(parents=True)
    for each in library.iterdir():
        if each.name not in ("ensurepip", "site-packages"):
            (copy / each.name).symlink_to(each)
    # Python looks for its library from its own path on.
    program = folder / "bin" / f"python3.{sys.version_info.minor}"
    program.parent.mkdir()
    shutil.copy(os.path.realpath(sys.executable), program)
    return program


def test_a_python_without_ensurepip_makes_environments_with_the_running_pip(tmp_path: Path) -> None:
    python = without_ensurepip(tmp_path / "bare")
    found = inspect(python)
    assert (found.venv, found.ensurepip, found.makes_environments) == (True, False, True)
    made = installed_tiny(found, tmp_path)
    assert run([made / "bin" / "python", "-I", "-c", "import tiny; print(tiny.NAME)"]).stdout == "tiny\n"
    # The environment is that Python's.
    with pytest.raises(CommandFailed):
        run([made / "bin" / "python", "-I", "-c", "import ensurepip"])


def test_a_checkouts_environment_is_made_without_ensurepip(tmp_path: Path) -> None:
    python = without_ensurepip(tmp_path / "bare")
    script = Path(__file__).parents[2] / "tools" / "make_venv.py"
    with pytest.raises(CommandFailed):  # neither ensurepip nor pip
        run([python, script])
    (pip,) = {Path(str(distribution("pip").locate_file("")))}
    site = tmp_path / "bare" / "lib" / python.name / "site-packages"
    site.mkdir()
    for found in pip.glob("pip*"):
        (site / found.name).symlink_to(found)
    run([python, script, tmp_path / "venv"])
    told = run([tmp_path / "venv" / "bin" / "python", "-I", "-m", "pip", "--version"]).stdout
    assert str(tmp_path / "venv") in told


@pytest.mark.parametrize("version", ["26.1", "22.2", ""])
def test_packages_come_from_the_running_pip_if_it_can(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the option --python of pip 22.3; otherwise, and without a pip, from the environment's own."""

    def found(_: str) -> str:
        if not version:
            raise PackageNotFoundError
        return version

    monkeypatch.setattr(pinned, "version", found)
    made = installed_tiny(inspect(Path(sys.executable)), tmp_path)
    assert run([made / "bin" / "python", "-I", "-c", "import tiny; print(tiny.NAME)"]).stdout == "tiny\n"
    assert bool(list(made.glob("lib/python3*/site-packages/pip"))) == (version != "26.1")
    # Compiled, but not the packages' own tests.
    assert [path.name.partition(".")[0] for path in made.rglob("*tiny*.pyc")] == ["tiny"]


def installed_tiny(interpreter: Interpreter, tmp_path: Path) -> Path:
    """An environment of `interpreter` with a package of one module."""
    wheel = tmp_path / "wheels" / "tiny-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", "NAME = 'tiny'\n")
        archive.writestr("tests/test_tiny.py", "raise AssertionError\n")
        archive.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("tiny-1.0.dist-info/RECORD", "")
    (tmp_path / "lock.txt").write_text(f"tiny==1.0 --hash=sha256:{sha256_file(wheel)}\n")
    made = tmp_path / "made"
    install(
        interpreter=interpreter, folder=made, requirements=tmp_path / "lock.txt", wheelhouse=wheel.parent,
        what="a peer", log=tmp_path / "log", progress=Silent(),
    )  # fmt: skip
    return made


def test_a_python_that_makes_no_virtual_environments_is_refused_with_what_to_install(tmp_path: Path) -> None:
    bare = Interpreter(
        path=Path("/usr/bin/python3"), python="3.11.2", venv=False, ensurepip=False, tensorflow="", site_packages=""
    )
    with reported(ToolchainError, varies=(r"/\S+ \(Python [\d.]+\)", r"python3\.\d+-venv")):
        install(
            interpreter=bare, folder=tmp_path / "made", requirements=tmp_path / "none", wheelhouse=None, what="a peer",
            log=tmp_path / "log", progress=Silent(),
        )  # fmt: skip
    assert not (tmp_path / "made").exists()
