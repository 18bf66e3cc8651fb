"""OCI registries for tests: Debian's docker-registry with a password, and packages to push."""

from __future__ import annotations

import base64
import json
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.provenance.materials import TREE, make_materials, make_spec
from tests.registry.conftest import make_package, package_of
from tests.registry.signing import make_signed
from tests.registry.tiny import tiny_files
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.pipeline.publish import Release, attested
from tfaot_pkg.provenance.statement import statement
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.folder import FolderRegistry

__all__ = ["make_package"]

USER, PASSWORD = "ada", "open sesame"
_HASHED = "ada:$2b$04$e/OIukfAy3epjsxaBE.0eOE6DEuLz.0ZA9oYeSf6/0uvb/TfJdN6a\n"
_CONFIG = """
version: 0.1
log: {level: info, accesslog: {disabled: false}}
storage: {filesystem: {rootdirectory: ROOT/storage}}
http: {addr: 127.0.0.1:0}
auth: {htpasswd: {realm: tests, path: ROOT/htpasswd}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerRegistry:
    """A running docker-registry at `host`; it writes what it is asked into `log`."""

    host: str
    log: Path

    def get(self, path: str, accept: str = "*/*") -> requests.Response:
        url = f"http://{self.host}/v2/{path}"
        return requests.get(url, auth=(USER, PASSWORD), headers={"Accept": accept}, timeout=20)

    def manifest(self, repository: str, reference: str) -> Any:
        kinds = ", ".join(f"application/vnd.oci.image.{each}.v1+json" for each in ("manifest", "index"))
        return self.get(f"{repository}/manifests/{reference}", kinds).json()

    def written(self, repository: str) -> int:
        """How many requests have changed the repository."""
        text = self.log.read_text()
        return len(re.findall(rf'"(?:POST|PUT|PATCH) /v2/{re.escape(repository)}/', text))


@pytest.fixture(scope="session")
def docker_registry(
    require_program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerRegistry]:
    root = tmp_path_factory.mktemp("docker-registry")
    (root / "htpasswd").write_text(_HASHED)
    (root / "config.yml").write_text(_CONFIG.replace("ROOT", str(root)))
    with (root / "log").open("wb") as log:
        command: list[str | Path] = [require_program("docker-registry"), "serve", root / "config.yml"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield DockerRegistry(host=_host(process, root / "log"), log=root / "log")
        finally:
            process.terminate()
            process.wait(timeout=20)


def _host(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, which it prints."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if found := re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text()):
            return found[1]
        select.select([], [], [], 0.02)
    raise AssertionError(f"docker-registry does not listen: {log.read_text()}")


@pytest.fixture(autouse=True)
def nobody_is_logged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the user's passwords nor their settings."""
    for name in ("REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("TFAOT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TFAOT_HTTP_RETRIES", "0")


def auth(user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`login(host)`: as `docker login` leaves it, where docker, oras, skopeo and we look for it."""

    def write(host: str) -> None:
        folder = tmp_path / "nobody" / ".docker"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"auths": {host: auth()}}))

    return write


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRegistry:
    """A signed registry with `digits`, and the public key of who releases it."""

    registry: FolderRegistry
    key: Path


MATERIALS = make_materials(replace(make_spec(), model=replace(make_spec().model, name="digits", version="1.0")))
SBOM = b'{"bomFormat":"CycloneDX"}'
INFO = {"homepage": "https://models.example.org/digits"}


@pytest.fixture
def signed(tmp_path: Path) -> SignedRegistry:
    registry = make_signed(tmp_path / "signed")
    release = released(tmp_path)
    done = attested(release, registry, None)
    registry.publish(done.entry, done.blobs)
    (key,) = (tmp_path / "signed" / "keys").glob("release*.pub")
    return SignedRegistry(registry=registry, key=key)


def released(folder: Path, version: str = "1.0") -> Release:
    """A package with provenance and bill of materials, in it and beside it."""
    documents = {"provenance": canonical_json(statement(MATERIALS, TREE)), "sbom": SBOM}
    names = {"provenance": "provenance.json", "sbom": "sbom.cdx.json"}
    inside = {f"share/tfaot-model-digits/{names[role]}": data for role, data in documents.items()}
    package = package_of(
        folder, "digits", version, {**tiny_files("digits", version), **inside}, key=MATERIALS.key,
        targets=("x86-64-v2",),
    )  # fmt: skip
    blobs = {**package.entry.blobs, **{role: BlobRef.of(data) for role, data in documents.items()}}
    return Release(entry=replace(package.entry, blobs=blobs), blobs={**package.blobs, **documents})
