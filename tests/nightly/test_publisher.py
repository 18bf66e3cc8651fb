"""Publishing what a night built: into a signed registry and onto a real Conan server, by the command as users run it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.bad_input.conftest import write_spec
from tests.commands import run_command
from tests.conan.test_upload import PASSWORD, USER, Server
from tests.nightly.nights import REPOSITORY, believed, coordinator, home_of, stub_decision
from tests.ports import free_port
from tests.registry.conftest import package_of
from tests.registry.signing import clock_at, keys_in, make_signed, open_signed
from tests.registry.tiny import tiny_files
from tests.wording import reported
from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.nightly.publisher import Publisher, Uploads
from tfaot_pkg.nightly.recheck import Recheck
from tfaot_pkg.nightly.state import State
from tfaot_pkg.nightly.types import Decision
from tfaot_pkg.pipeline.conan.package import ConanHome
from tfaot_pkg.pipeline.conan.upload import ConanRemote, ConanRemotes, Credentials, credentials_for
from tfaot_pkg.pipeline.publish import Release
from tfaot_pkg.registry.audit import audit
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.history import history
from tfaot_pkg.registry.promotion import promote, set_channels
from tfaot_pkg.registry.signing import Plan, initialize
from tfaot_pkg.registry.trust.roles import Lifetimes

_PASSPHRASE = "the passphrase of the test's keys"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(folder=tmp_path / "server", port=free_port())
    server.start()
    yield server
    server.stop()


def tfaot(home: Path, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TFAOT_HOME": str(home), "PYTHONPATH": str(REPOSITORY), **variables}
    return run_command(arguments, env=environment)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(1500)
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
    assert "attestation" in registry.resolve("dense@1.0.0").blobs
    assert audit(registry, Silent()).faults == []
    assert listed(tmp_path, server) == ["tfaot-model-dense/1.0.0+tf2.17.1.b1"]
    again = tfaot(home, *command, CONAN_PASSWORD_OURS=PASSWORD, TFAOT_REGISTRY_PASSPHRASE=_PASSPHRASE)
    assert json.loads(again.stdout)["counts"] == {"up to date": 1}
    require_that_an_unreached_remote_keeps_nothing_back(tmp_path, home)
    require_that_a_new_remote_gets_what_was_published_before(tmp_path, home, definition)


def require_that_an_unreached_remote_keeps_nothing_back(root: Path, home: Path) -> None:
    """It gets what it misses from the next night that reaches it, though the registry has it by then."""
    state = State(root=root / "nightly-state")
    (decision,) = state.nights()[0].decisions()
    folders = Folders(cache=home / "cache", data=home / "data")
    server = Server(folder=root / "late-server", port=free_port())
    assert tfaot(home, "conan-remote", "add", "late", server.remote.url, "--user", USER).returncode == 0
    remote = ConanRemotes.of(folders).get("late")
    notes: list[str] = []

    def publisher() -> Publisher:
        return Publisher(
            registry=root / "another", keys=Keys(), folders=folders, note=notes.append, recheck=Recheck(folders=folders),
            remotes=[(remote, credentials_for(remote, {"CONAN_PASSWORD_LATE": PASSWORD}))],
        )  # fmt: skip

    first = publisher()
    first.require()
    assert len(notes) == 1 and "cannot be reached" in notes[0]
    assert first.publish(decision, state.results)
    assert "late" in first.send(decision, state.results)
    assert FolderRegistry.open(root / "another").resolve("dense").version == decision.release
    assert list(publisher().catch_up(state.results, [decision.task])) == [decision.task.id], "it is still away"
    server.start()
    try:
        second = publisher()
        second.require()
        assert second.catch_up(state.results, [decision.task]) == {}
        assert listed(root, server) == ["tfaot-model-dense/1.0.0+tf2.17.1.b1"]
        assert Uploads(root=state.root).missing("late") == ()
        assert second.publish(decision, state.results)
        assert second.send(decision, state.results) == "", "the same again does nothing"
    finally:
        server.stop()


def require_that_a_new_remote_gets_what_was_published_before(root: Path, home: Path, definition: Path) -> None:
    server = Server(folder=root / "new-server", port=free_port())
    assert tfaot(home, "conan-remote", "add", "new", server.remote.url, "--user", USER).returncode == 0
    command = ("conan-remote", "sync", "new", definition, "--json")
    assert tfaot(home, *command, CONAN_PASSWORD_NEW=PASSWORD).returncode == 17, "it is not there yet"
    server.start()
    try:
        done = tfaot(home, *command, CONAN_PASSWORD_NEW=PASSWORD)
        assert (done.returncode, json.loads(done.stdout)["sent"]) == (0, ["dense@1.0.0+tf2.17.1"]), done
        assert listed(root, server) == ["tfaot-model-dense/1.0.0+tf2.17.1.b1"]
        again = tfaot(home, *command, CONAN_PASSWORD_NEW=PASSWORD)
        assert (again.returncode, json.loads(again.stdout)["sent"]) == (0, [])
    finally:
        server.stop()


def listed(root: Path, server: Server) -> list[str]:
    """The references that a Conan client of its own finds on the server."""
    elsewhere = ConanHome(root=root / f"elsewhere-{server.port}", log=root / "elsewhere.log")
    with elsewhere.opened() as opened:
        opened.conan("remote", "add", "theirs", server.remote.url)
        found = json.loads(opened.conan("list", "tfaot-model-dense/*:*", "--remote", "theirs", "--format", "json"))
    return list(found["theirs"])


def test_a_night_that_publishes_nothing_keeps_a_signed_registry_alive(tmp_path: Path) -> None:
    """Also where its signatures have run out: no plan could be made, and no night could mend it."""
    make_signed(tmp_path, clock=clock_at(-8))  # timestamps last 7 days
    with reported(TrustError):
        open_signed(tmp_path).names()
    publisher = Publisher(
        registry=tmp_path / "registry", keys=keys_in(tmp_path / "keys"), folders=home_of(tmp_path), recheck=believed,
    )  # fmt: skip
    seen: list[list[str]] = []

    def plan() -> list[Decision]:
        seen.append(list(open_signed(tmp_path).names()))
        return []

    night = coordinator(tmp_path, home_of(tmp_path), publisher=publisher).run(plan)
    assert (night.exit_code, seen) == (0, [[]])
    assert list(open_signed(tmp_path, trust="another reader").names()) == []


def test_from_which_spec_a_package_is_uploaded_is_not_believed_from_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a spec may have a Conan recipe, which runs."""
    good, gone = stub_decision("one"), stub_decision("gone")
    evil = replace(good, task=replace(good.task, spec=Path("/evil/spec.yaml")))
    uploads, sent = Uploads(root=tmp_path / "state"), list[Path]()
    for noted in (evil, gone):
        uploads.begin("ours", noted)

    def send(publisher: Publisher, decision: Decision, *_: object) -> str:
        sent.append(decision.task.spec)
        return ""

    monkeypatch.setattr(Publisher, "_sent", send)
    monkeypatch.setattr(Publisher, "_published", lambda *_: object())
    remote = ConanRemote(name="ours", url="https://conan.example.org", user="x")
    publisher = Publisher(
        registry=tmp_path / "registry", keys=Keys(), folders=home_of(tmp_path), recheck=believed,
        remotes=[(remote, Credentials(user="x", password=""))],
    )  # fmt: skip
    assert publisher.catch_up(State(root=tmp_path / "state").results, [good.task]) == {}
    assert sent == [good.task.spec]
    assert gone in uploads.missing("ours"), "it is nobody's business tonight"


def test_no_night_begins_by_a_clock_that_is_behind_the_last_signature(tmp_path: Path) -> None:
    make_signed(tmp_path, clock=clock_at(3))
    before = (tmp_path / "registry/metadata/timestamp.json").read_bytes()
    publisher = Publisher(
        registry=tmp_path / "registry", keys=keys_in(tmp_path / "keys"), folders=home_of(tmp_path), recheck=believed,
    )  # fmt: skip

    def plan() -> list[Decision]:
        raise AssertionError("something was planned")

    with reported(TrustError):
        coordinator(tmp_path, home_of(tmp_path), publisher=publisher).run(plan)
    assert (tmp_path / "registry/metadata/timestamp.json").read_bytes() == before


def test_a_night_promotes_what_is_due(tmp_path: Path) -> None:
    registry = make_signed(tmp_path)
    for number, when in (("1", "2020-01-01T00:00:00Z"), ("2", "2020-01-02T00:00:00Z")):
        package = package_of(tmp_path, "digits", f"1.0+tf2.17.1.b{number}", tiny_files("digits", number))
        registry.publish(replace(package.entry, published=when), package.blobs)
        if number == "1":
            set_channels(registry, Channels.of(nights={"candidate": 1}))
    notes: list[str] = []
    publisher = Publisher(
        registry=tmp_path / "registry", keys=keys_in(tmp_path / "keys"), folders=home_of(tmp_path), recheck=believed,
        note=notes.append,
    )  # fmt: skip
    assert coordinator(tmp_path, home_of(tmp_path), publisher=publisher).run(list).exit_code == 0
    after = open_signed(tmp_path, trust="another reader")
    assert [after.resolve("digits", name).version[-2:] for name in ("candidate", "stable")] == ["b2", "b1"]
    assert [history(after, "digits")[-1].by, len(notes)] == ["nightly", 1]


def test_a_remote_gets_a_build_once_it_is_in_the_default_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else Conan's ranges would move everybody to a new toolchain."""
    registry = FolderRegistry.create(tmp_path / "registry")
    set_channels(registry, Channels())
    decision = stub_decision("one")
    package = package_of(tmp_path, "one", decision.release, tiny_files("one", decision.release), key=decision.key)
    monkeypatch.setattr(Publisher, "_sent", lambda *_: sent.append(1) or "")  # type: ignore[func-returns-value]
    sent: list[int] = []
    publisher = Publisher(
        registry=registry.root, keys=Keys(), folders=home_of(tmp_path), recheck=lambda _, release: nullcontext(release),
        remotes=[(ConanRemote(name="ours", url="https://conan.example.org", user="x"), Credentials(user="x", password=""))],
    )  # fmt: skip
    state = State(root=tmp_path / "state")
    monkeypatch.setattr(type(state.results), "release", lambda *_: Release(entry=package.entry, blobs=package.blobs))
    assert publisher.publish(decision, state.results)
    assert publisher.send(decision, state.results) == ""
    assert publisher.catch_up(state.results, [decision.task]) == {}
    assert (sent, Uploads(root=state.root).missing("ours")) == ([], (decision,))
    opened = FolderRegistry.open(registry.root)
    for channel in ("candidate", "stable"):
        promote(opened, ["one"], channel)
    assert publisher.catch_up(state.results, [decision.task]) == {}
    assert sent == [1]
