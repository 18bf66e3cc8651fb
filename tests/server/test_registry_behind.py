"""A signed registry behind each of the servers, read by the real command line: what all of it is for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tests.remote.conftest import SignedFolder, signed_folder
from tests.samples import Published, tfaot
from tests.server.conftest import REPOSITORY, nginx_program, nginx_server, tfaot_server
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = pytest.mark.slow


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
        done = run_command(arguments, cwd=REPOSITORY, timeout=60)
        assert done.returncode == 0, done.stderr
        return done

    cli("registry", "add", "r", url, "--fingerprint", signed.made.fingerprint)
    assert cli("search", "--registry", "r").stdout.count("@") == 2
    assert "tagger@2.0" in cli("show", "tagger", "--registry", "r").stdout
    installed = cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "prefix")
    assert "download from 127.0.0.1" in installed.stderr
    cli("verify-install", tmp_path / "prefix")
    verified = cli("registry", "verify", "r").stdout
    assert "no faults (2 packages, 2 versions, 2 blobs" in verified and verified.rstrip().endswith("signed)")


def test_an_unsigned_registry_is_verified_by_its_name_as_far_as_digests_go(tmp_path: Path, tfaot_home: Path) -> None:
    def cli(*arguments: str | Path, code: int = 0) -> str:
        done = run_command(arguments, cwd=REPOSITORY, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    registry = FolderRegistry.create(tmp_path / "registry")
    package = package_of(tmp_path, "digits", "1.0", tiny_files("digits", "1.0"))
    registry.publish(package.entry, package.blobs)
    with tfaot_server(registry.root) as (_, address):
        cli("registry", "add", "u", address, "--unsigned")
        text = cli("registry", "verify", "u")
        assert "no faults (1 package, 1 version, 1 blob," in text
        assert "unsigned: damage is detected, forgery is not" in text
        assert json.loads(cli("registry", "verify", "u", "--json"))["signed"] is False
        shutil.rmtree(tfaot_home / "cache")
        (blob,) = (path for path in (registry.root / "blobs").rglob("*") if path.is_file())
        blob.chmod(0o644)
        blob.write_bytes(b"x" + blob.read_bytes()[1:])
        damaged = cli("registry", "verify", "u", code=18)
    assert "faults" in damaged and f"{blob.parent.name}/{blob.name} was changed" in damaged


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_a_package_from_a_server_shows_where_it_comes_from_and_what_is_in_it(
    published: Published, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with tfaot_server(published.registry) as (_, address):
        tfaot(home, "registry", "add", "u", address, "--unsigned")
        tfaot(home, "install", "digits", "--registry", "u", "--prefix", tmp_path / "prefix")
        provenance = tfaot(home, "show", "digits", "--provenance", "--registry", "u")
        sbom = tfaot(home, "show", "digits", "--sbom", "--registry", "u")
    share = tmp_path / "prefix" / "share" / "tfaot-model-digits"
    assert json.loads(provenance) == json.loads((share / "provenance.json").read_bytes())
    assert json.loads(sbom) == json.loads((share / "sbom.cdx.json").read_bytes())
    statement = json.loads(provenance)
    library = tmp_path / "prefix" / "lib" / "libtfaot-model-digits.a"
    said = {one["name"]: one["digest"]["sha256"] for one in statement["subject"][1:]}
    assert said["lib/libtfaot-model-digits.a"] == sha256_file(library)
    kinds = {component["type"] for component in json.loads(sbom)["components"]}
    assert "machine-learning-model" in kinds
