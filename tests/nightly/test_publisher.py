"""Publishing what a night built: into a signed registry and onto a real Conan server, by the command as users run it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from tests.bad_input.conftest import write_spec
from tests.conan.test_upload import PASSWORD, USER, Server
from tests.nightly.nights import REPOSITORY
from tfaot_pkg.conan.home import ConanHome
from tfaot_pkg.conan.remotes import ConanRemotes, credentials_for
from tfaot_pkg.errors import NetworkError
from tfaot_pkg.folders import Folders
from tfaot_pkg.nightly.publisher import Publisher
from tfaot_pkg.nightly.state import State
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.signed.making import Plan, initialize
from tfaot_pkg.trust.roles import Lifetimes

_PASSPHRASE = "the passphrase of the test's keys"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(folder=tmp_path / "server", port=port)
    server.start()
    yield server
    server.stop()


def tfaot(home: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TFAOT_HOME": str(home), "PYTHONPATH": str(REPOSITORY), **variables}
    return subprocess.run(
        [sys.executable, "-m", "tfaot_pkg", *map(str, arguments)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_a_night_publishes_a_reproducible_model_to_a_signed_registry_and_a_conan_server(
    shared_home: Path, models: Mapping[str, Path], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"  # its Conan home and trust are the test's own, toolchains and builds are shared
    home.mkdir()
    (home / "cache").symlink_to(shared_home / "cache")
    monkeypatch.setenv("TFAOT_HOME", str(home))  # else a registry that another run had in this place would be known
    initialize(
        tmp_path / "registry", tmp_path / "keys", Plan(bits=1, root_keys=1, threshold=1, lifetimes=Lifetimes()),
        passphrase=lambda: _PASSPHRASE, secrets=lambda _: _PASSPHRASE,
    )  # fmt: skip
    definition = tmp_path / "registry.yaml"
    document = {
        "registry": "registry",
        "models": [{"spec": str(write_spec(tmp_path / "spec.yaml", models["dense"], model={"license": "MIT"}))}],
        "toolchains": ["2.17.1"],
        "remotes": ["ours"],
        "policy": {"reproduce": True, "timeout": "10 min"},
    }
    definition.write_text(yaml.safe_dump(document))
    assert tfaot(home, "conan-remote", "add", "ours", server.remote.url, "--user", USER).returncode == 0
    command = ("nightly", "run", definition, "--no-dask", "--keys", tmp_path / "keys", "--json")

    wrong = tfaot(home, *command, CONAN_PASSWORD_OURS="wrong", TFAOT_REGISTRY_PASSPHRASE=_PASSPHRASE)
    assert wrong.returncode == 19, wrong
    assert not (tmp_path / "nightly-state" / "results").exists(), "the password is asked before anything is built"

    done = tfaot(home, *command, CONAN_PASSWORD_OURS=PASSWORD, TFAOT_REGISTRY_PASSPHRASE=_PASSPHRASE)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["counts"] == {"published": 1}
    assert PASSWORD not in done.stdout + done.stderr
    registry = FolderRegistry.open(tmp_path / "registry")
    assert registry.is_signed
    assert registry.resolve("dense@1.0.0").version == "1.0.0+tf2.17.1.b1"
    elsewhere = ConanHome(root=tmp_path / "elsewhere", log=tmp_path / "elsewhere.log")
    with elsewhere.opened() as opened:
        opened.conan("remote", "add", "theirs", server.remote.url)
        listed = json.loads(opened.conan("list", "tfaot-model-dense/*:*", "--remote", "theirs", "--format", "json"))
    assert list(listed["theirs"]) == ["tfaot-model-dense/1.0.0+tf2.17.1.b1"]
    again = tfaot(home, *command, CONAN_PASSWORD_OURS=PASSWORD, TFAOT_REGISTRY_PASSPHRASE=_PASSPHRASE)
    assert json.loads(again.stdout)["counts"] == {"up to date": 1}
    require_that_a_lost_server_leaves_work_for_the_next_night(tmp_path, home, server)


def require_that_a_lost_server_leaves_work_for_the_next_night(root: Path, home: Path, server: Server) -> None:
    """What a remote did not get is not in the registry either: else no night would upload it any more."""
    state = State(root=root / "nightly-state")
    (decision,) = state.nights()[0].decisions()
    folders = Folders(cache=home / "cache", data=home / "data")
    remote = ConanRemotes.of(folders).get("ours")
    publisher = Publisher(
        registry=root / "another", keys=Keys(), folders=folders,
        remotes=[(remote, credentials_for(remote, {"CONAN_PASSWORD_OURS": PASSWORD}))],
    )  # fmt: skip
    server.stop()
    with pytest.raises(NetworkError):
        publisher.publish(decision, state.results)
    assert FolderRegistry.find(root / "another") is None
    server.start()
    publisher.publish(decision, state.results)
    assert FolderRegistry.open(root / "another").resolve("dense").version == decision.release
