"""Artifacts with real registries and clients: docker-registry, oras and skopeo."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import oras.provider

from tests.commands import run_command
from tests.oci.conftest import PASSWORD, SBOM, DockerRegistry, SignedRegistry
from tfaot_pkg.ground.process import run

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def tfaot(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = run_command(list(words), timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return done


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_signed_package_goes_through_a_registry_and_real_clients(
    docker_registry: DockerRegistry,
    require_program: Callable[[str], str],
    login: Callable[[str], None],
    signed: SignedRegistry,
    tmp_path: Path,
) -> None:
    host, repository = docker_registry.host, "ada/digits"
    export: list[str | Path] = ["export", "digits@1.0", "--registry", signed.registry.root, "--json"]
    refused = tfaot(*export, "--oci", f"{host}/{repository}", code=17)
    assert "docker login" in refused.stdout
    login(host)
    done = json.loads(tfaot(*export, "--oci", f"{host}/{repository}").stdout)
    assert done["tag"] == "1.0" and done["uploaded"] and done["reference"] == f"oci://{host}/{repository}:1.0"

    manifest = docker_registry.manifest(repository, "1.0")
    assert manifest["artifactType"] == "application/vnd.tfaot.package.v1"
    archive, envelope = manifest["layers"]
    assert archive["annotations"]["org.opencontainers.image.title"] == "tfaot-model-digits-1.0.tar.gz"
    said = {name.rpartition(".")[2]: text for name, text in manifest["annotations"].items()}
    assert (said["title"], said["version"], said["licenses"]) == ("tfaot-model-digits", "1.0", "Apache-2.0")

    # distribution 2.8 has no list of referrers: the tag schema.
    listed = docker_registry.manifest(repository, done["digest"].replace(":", "-"))["manifests"]
    content = {}
    for each in listed:
        referrer = docker_registry.manifest(repository, each["digest"])
        assert referrer["subject"]["digest"] == done["digest"]
        (layer,) = referrer["layers"]
        content[each["artifactType"]] = docker_registry.get(f"{repository}/blobs/{layer['digest']}").content
    assert content["application/vnd.cyclonedx+json"] == SBOM
    assert hashlib.sha256(content["application/vnd.dsse.envelope.v1+json"]).hexdigest() == envelope["digest"][7:]

    before = docker_registry.written(repository)
    again = json.loads(tfaot(*export, "--oci", f"oci://{host}/{repository}:1.0").stdout)
    assert again["digest"] == done["digest"] and again["uploaded"] == 0
    assert docker_registry.written(repository) == before > 0

    pulled = oras.provider.Registry(hostname=host, insecure=True, auth_backend="basic")
    pulled.pull(target=f"{host}/{repository}:1.0", outdir=str(tmp_path / "pulled"))
    assert {path.name for path in (tmp_path / "pulled").iterdir()} == {
        "tfaot-model-digits-1.0.tar.gz",
        "tfaot-model-digits-1.0.intoto.json",
    }
    with tarfile.open(tmp_path / "pulled" / "tfaot-model-digits-1.0.tar.gz") as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")

    copy: list[str | Path] = [
        require_program("skopeo"),
        "copy",
        "--quiet",
        "--src-tls-verify=false",
        "--policy",
        policy(tmp_path),
    ]
    config: list[str | Path] = ["--src-authfile", tmp_path / "nobody" / ".docker" / "config.json"]
    layout = tmp_path / "layout"
    run([*copy, *config, f"docker://{host}/{repository}:1.0", f"oci:{layout}:1.0"], timeout=60)
    trusting: list[str | Path] = ["--release-key", signed.key]
    tfaot("install", f"oci:{layout}:1.0", *trusting, "--prefix", tmp_path / "from layout")
    tfaot("install", f"oci://{host}/{repository}:1.0", *trusting, "--prefix", tmp_path / "from registry")
    tfaot("install", "digits", "--registry", signed.registry.root, "--prefix", tmp_path / "from folder")
    installed = files(tmp_path / "from folder")
    assert files(tmp_path / "from layout") == files(tmp_path / "from registry") == installed
    assert files(tmp_path / "unpacked").items() <= installed.items()


def policy(folder: Path) -> Path:
    (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    return folder / "policy.json"
