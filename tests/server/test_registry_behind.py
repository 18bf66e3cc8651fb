"""A signed registry behind each of the servers, read by the real command line: what all of it is for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.remote.conftest import SignedFolder, signed_folder
from tests.server.conftest import REPOSITORY, nginx_program, nginx_server, tfaot_server


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> SignedFolder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFAOT_HOME", str(tmp_path_factory.mktemp("publisher")))
        made = signed_folder(tmp_path_factory.mktemp("signed") / "registry")
        made.publish("tagger", "2.0")
        return made


@pytest.fixture(params=["tfaot-pkg", "nginx"])
def url(
    request: pytest.FixtureRequest, signed: SignedFolder, tmp_path: Path, require_program: Callable[[str], str]
) -> Iterator[str]:
    if request.param == "nginx":
        os.chmod(tmp_path, 0o755)
        with nginx_server(nginx_program(require_program), signed.root, tmp_path) as port:
            yield f"http://127.0.0.1:{port}/"
    else:
        with tfaot_server(signed.root) as (_, address):
            yield address


def test_search_show_install_and_verify_from_a_server(
    url: str, signed: SignedFolder, tmp_path: Path, tfaot_home: Path
) -> None:
    def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "tfaot_pkg", *map(str, arguments)]
        done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done

    cli("registry", "add", "r", url, "--fingerprint", signed.made.fingerprint)
    assert cli("search", "--registry", "r").stdout.count("@") == 2
    assert "tagger@2.0" in cli("show", "tagger", "--registry", "r").stdout
    installed = cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "prefix")
    assert "download from 127.0.0.1" in installed.stderr
    cli("verify-install", tmp_path / "prefix")
    cli("registry", "verify", "r")
