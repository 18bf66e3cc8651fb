"""Uploading to a real Conan server with a user and a password; other Conan homes, without our tool, install from it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conan.conftest import Packaged
from tests.consumers.conftest import TOOLS, environment
from tests.ports import free_port
from tests.samples import Published, conan_consumer, recipe, tfaot
from tests.wording import reported
from tfaot_pkg.errors import ConanError, NetworkError, StorageError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.process import CommandFailed, Finished, run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.pipeline.conan.package import ConanHome, ConanPackage, create
from tfaot_pkg.pipeline.conan.upload import (
    ConanRemote,
    ConanRemotes,
    Credentials,
    Uploaded,
    credentials_for,
    require_access,
    upload,
)
from tfaot_pkg.registry.remote.address import Address

pytestmark = pytest.mark.slow

USER, PASSWORD = "publisher", "correct-horse-battery"
CONFIGURATION = """\
[server]
jwt_secret: {secret}
jwt_expire_minutes: 120
ssl_enabled: False
port: {port}
public_port:
host_name: 127.0.0.1
authorize_timeout: 1800
disk_storage_path: ./data
disk_authorize_timeout: 1800
updown_secret: {secret}
[write_permissions]
*/*@*/*: {user}
[read_permissions]
*/*@*/*: *
[users]
{user}: {password}
reader: only-reads
"""


@dataclass(slots=True)
class Server:
    """A Conan server with its storage in `folder`. It can be stopped and started again at the same address."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    remote: ConanRemote = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        text = CONFIGURATION.format(port=self.port, user=USER, password=PASSWORD, secret="a" * 24)
        (self.folder / "server.conf").write_text(text)
        address = Address.parse(f"http://127.0.0.1:{self.port}")
        self.remote = ConanRemote(
            name="our-server", url=address.url.rstrip("/"), allow_http=address.allow_http, user=USER
        )

    def start(self, **variables: str) -> None:
        script = Path(__file__).with_name("server.py")
        with (self.folder / "log").open("ab") as log:
            argv = [sys.executable, str(script), str(self.folder)]
            self.process = subprocess.Popen(argv, env={**os.environ, **variables}, stdout=log, stderr=log)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)
        raise AssertionError("the Conan server does not start")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that has not been started."""
    server = Server(folder=tmp_path / "server", port=free_port())
    yield server
    server.stop()


@pytest.fixture(scope="module")
def package(affine: Packaged, home: ConanHome) -> ConanPackage:
    """The model affine in `home`, static and shared."""
    return create(affine.recipe, "1.2.0", home=home, prefix=affine.prefix, progress=Silent())


Upload = Callable[..., Uploaded]


@pytest.fixture
def send(server: Server, home: ConanHome, package: ConanPackage) -> Upload:
    """`send(password=...)`: upload the package."""

    def call(*, user: str = USER, password: str = PASSWORD) -> Uploaded:
        return upload(
            home,
            package.reference,
            package.recipe_revision,
            remote=server.remote,
            credentials=Credentials(user=user, password=password),
            progress=Silent(),
        )

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A Conan home on a machine without our tool."""

    root: Path

    def conan(self, *arguments: str | Path) -> Finished:
        argv = [sys.executable, "-I", "-m", "conans.conan", *map(str, arguments)]
        return run(argv, env=environment(CONAN_HOME=str(self.root)), cwd=self.root, timeout=300)

    def install(self, reference: str, *, shared: bool) -> str:
        words = ("--requires", reference, "-o", f"*:shared={shared}", "--format=json", "-of", self.root / "of")
        return self.conan("install", *words).stdout


@pytest.fixture
def elsewhere(tmp_path: Path, server: Server) -> Elsewhere:
    """Knows the server, and nothing else."""
    home = Elsewhere(root=tmp_path / "elsewhere")
    home.root.mkdir()
    (home.root / "remotes.json").write_text('{"remotes": []}')
    home.conan("profile", "detect")
    home.conan("remote", "add", "models", server.remote.url)
    return home


def test_what_was_uploaded_is_installed_elsewhere_and_not_sent_again(
    server: Server, send: Upload, elsewhere: Elsewhere, package: ConanPackage
) -> None:
    server.start()
    done = send()
    assert done.status == "uploaded"
    binaries = {f"{package.reference}:{one.package_id}" for one in package.binaries}
    # The home is shared: other tests may have put binaries for other architectures into it, which are sent as well.
    assert {re.sub(r"#\w+", "", sent) for sent in done.sent} >= {"tfaot-pkg/0.2.0", package.reference, *binaries}
    again = send()
    assert (again.status, again.sent) == ("already there", ())
    for one in package.binaries:
        graph = json.loads(elsewhere.install("tfaot-model-affine/[>=1 <2]", shared=one.shared))["graph"]["nodes"]
        node = next(node for node in graph.values() if node["name"] == "tfaot-model-affine")
        assert (node["binary"], node["package_id"], node["prev"]) == ("Download", one.package_id, one.package_revision)


@pytest.mark.nightly
def test_a_wrong_password_is_said_and_stands_in_no_log(server: Server, send: Upload, home: ConanHome) -> None:
    server.start()
    with reported(ConanError) as caught:
        send(password="wrong-horse")
    assert caught.value.exit_code == 19
    send()
    with reported(ConanError):
        send(password="wrong-horse")  # the token of the right one is not used on
    seen = home.log.read_text() + str(plain(caught.value)) + (server.folder / "log").read_text()
    assert "wrong-horse" not in seen and PASSWORD not in seen
    assert PASSWORD not in repr(Credentials(user=USER, password=PASSWORD))


@pytest.mark.nightly
def test_a_user_who_may_only_read_is_refused(server: Server, send: Upload) -> None:
    server.start()
    with reported(ConanError):
        send(user="reader", password="only-reads")


@pytest.mark.release
def test_a_server_that_is_down_is_an_error_of_the_network_and_the_same_call_works_later(
    server: Server, send: Upload, home: ConanHome
) -> None:
    credentials = Credentials(user=USER, password=PASSWORD)
    for call in (send, lambda: require_access(home, server.remote, credentials)):
        with reported(NetworkError, varies="(?<=during the upload: ).*") as caught:  # the words of Conan's HTTP library
            call()
        assert caught.value.exit_code == 17
    server.start()
    require_access(home, server.remote, credentials)
    assert send().status == "uploaded"


# The third file is the recipe's first; the seventh a binary's archive, after which Conan sends the manifest all the same.
@pytest.mark.sweep(night=["TEST_FAIL_AT-7"])
@pytest.mark.parametrize(("harm", "number"), [("TEST_DIE_AT", "3"), ("TEST_FAIL_AT", "7")])
def test_an_upload_that_was_cut_is_completed_by_the_same_call(
    harm: str, number: str, server: Server, send: Upload, elsewhere: Elsewhere, package: ConanPackage
) -> None:
    server.start(**{harm: number})
    with reported(NetworkError, varies="(?<=during the upload: ).*"):
        send()
    server.stop()
    server.start()
    assert send().status == "uploaded"
    assert send().status == "already there"
    for one in package.binaries:
        elsewhere.install(f"{package.reference}#{package.recipe_revision}", shared=one.shared)


# --- names and passwords --------------------------------------------------------------------------------------------


def remote(**fields: Any) -> ConanRemote:
    return ConanRemote(name="our-server", url="https://conan.example.org/api", **fields)


def refuse(prompt: str) -> str | None:
    raise AssertionError(prompt)


def test_the_password_comes_from_the_environment_then_a_file_then_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from file\nmore\n")
    file.chmod(0o600)
    named = remote(user="me", password_file=str(file))
    variables = {"CONAN_PASSWORD_OUR_SERVER": "from env", "CONAN_LOGIN_USERNAME_OUR_SERVER": "ci"}
    assert credentials_for(named, variables, refuse) == Credentials(user="ci", password="from env")
    assert credentials_for(named, {}, refuse) == Credentials(user="me", password="from file")
    assert credentials_for(remote(user="me"), {}, lambda _: "typed").password == "typed"
    with reported(ConanError):
        credentials_for(remote(user="me"), {}, lambda _: None)
    with reported(ConanError):
        credentials_for(remote(), {}, refuse)


def test_a_password_file_that_others_can_read_or_that_is_missing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    named = remote(user="me", password_file=str(file))
    with reported(StorageError):
        credentials_for(named, {}, refuse)
    file.write_text("x")
    file.chmod(0o644)
    with reported(ConanError):
        credentials_for(named, {}, refuse)


def test_remotes_are_remembered_without_a_password(tmp_path: Path) -> None:
    remotes = ConanRemotes(file=tmp_path / "data" / "conan-remotes.json")
    assert remotes.all() == ()
    remotes.add(remote(user="me", password_file="/secret"))
    assert remotes.get("our-server") == remote(user="me", password_file="/secret")
    remotes.add(remote(user="other"))
    assert [one.user for one in remotes.all()] == ["other"]
    with reported(ConanError):
        remotes.get("theirs")
    remotes.remove("our-server")
    assert remotes.all() == ()
    with reported(ConanError):
        remotes.add(ConanRemote(name="Our Server", url=remote().url))
    remotes.file.write_text("{}")
    with reported(ConanError):
        remotes.all()


@pytest.mark.parametrize("url", ["https://me:secret@conan.example.org", "http://conan.example.org", "ftp://x", "x"])
def test_an_address_with_a_password_or_without_protection_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as caught:
        tfaot(tmp_path, "conan-remote", "add", "ours", url)
    assert caught.value.reason == "exit code 19"
    assert "secret" not in caught.value.output


# --- the whole way --------------------------------------------------------------------------------------------------


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(1200)
def test_a_published_model_is_used_elsewhere_from_the_server(
    published: Published, server: Server, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    server.start()
    published = published.copied(tmp_path)
    tfaot(published.home, "conan-remote", "add", "ours", server.remote.url, "--user", USER)
    spec, wrong = recipe("digits") / "spec.yaml", {"CONAN_PASSWORD_OURS": "wrong"}
    words = ("publish", spec, "--registry", published.registry, "--remote", "ours")
    with pytest.raises(CommandFailed) as caught:
        tfaot(published.home, *words, env=wrong)
    assert caught.value.reason == "exit code 19" and "rejected the login of publisher" in caught.value.output
    printed = tfaot(published.home, *words, env={"CONAN_PASSWORD_OURS": PASSWORD})
    assert "tfaot-model-digits/1.0.0: uploaded in the Conan remote ours" in printed
    again = json.loads(tfaot(published.home, *words, "--json", env={"CONAN_PASSWORD_OURS": PASSWORD}))
    assert (again["status"], again["upload"]["status"]) == ("already published", "already there")

    consumer = conan_consumer(tmp_path)
    for shared in (False, True):
        build = tmp_path / f"build-{shared}"
        elsewhere.conan("install", consumer, "-of", build, "-o", f"*:shared={shared}")
        toolchain = next(build.rglob("conan_toolchain.cmake"))
        configure: list[str | Path] = ["-S", consumer, "-B", build, "-GNinja", "-DCMAKE_BUILD_TYPE=Release"]
        run([TOOLS / "cmake", *configure, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"], env=environment())
        run([TOOLS / "cmake", "--build", build], env=environment())
        script = '. "$1" && "$2" "$3"'
        arguments = [
            next(build.rglob("conanrun.sh")),
            build / "digits-accuracy",
            recipe("digits") / "data/held-out.csv",
        ]
        printed = run(["bash", "-c", script, "bash", *arguments], env=environment()).stdout
        assert printed == "accuracy on 360 held-out images: 99.2 %\n"
