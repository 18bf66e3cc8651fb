"""What pip's failures mean. The texts are pip's own, from failures that were provoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import NetworkError, StorageError, TfaotError, ToolchainError, TrustError
from tfaot_pkg.frontends.toolchain.pinned import Interpreter, clean_environment, failure, install
from tfaot_pkg.ground.process import CommandFailed
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


def test_a_python_that_makes_no_virtual_environments_is_refused_with_what_to_install(tmp_path: Path) -> None:
    bare = Interpreter(path=Path("/usr/bin/python3"), python="3.11.2", pip=False, tensorflow="", site_packages="")
    with reported(ToolchainError, varies=(r"/\S+ \(Python [\d.]+\)", r"python3\.\d+-venv")):
        install(
            interpreter=bare, folder=tmp_path / "made", requirements=tmp_path / "none", wheelhouse=None, what="a peer",
            log=tmp_path / "log", progress=Silent(),
        )  # fmt: skip
    assert not (tmp_path / "made").exists()
