"""A registry in an OCI registry: docker-registry has it, the mirror writes it, and all commands that read can read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.oci.conftest import PASSWORD, USER, DockerRegistry, SignedRegistry, released
from tests.oci.test_clients import policy, tfaot
from tests.oci.test_hostile_registries import serving
from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tests.remote.faulty import faulty_server
from tests.wording import reported, worded
from tfaot_pkg.errors import RegistryError, StorageError, TfaotError, TrustError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.pipeline.publish import attested
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.files import MissingFile
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import shard_path
from tfaot_pkg.registry.mirror import Mirroring, Part, mirror
from tfaot_pkg.registry.named import Trusting, add_remote, open_registry
from tfaot_pkg.registry.oci.artifact import LIMIT, Manifest
from tfaot_pkg.registry.oci.reference import INDEX, MANIFEST, Reference
from tfaot_pkg.registry.oci.store import HttpStore
from tfaot_pkg.registry.oci.table import NAMED, files_in, index_of, manifests_in, manifests_of
from tfaot_pkg.registry.remote.registry import RemoteRegistry
from tfaot_pkg.registry.static import StaticRegistry

INDEX_TYPE = {"Content-Type": INDEX}


@dataclass(frozen=True)
class Repository:
    """A repository of the running docker-registry, for one registry."""

    server: DockerRegistry
    origin: FolderRegistry
    name: str

    @property
    def url(self) -> str:
        return f"oci://{self.server.host}/{self.name}"

    @property
    def root(self) -> Path:
        return self.origin.root / "metadata" / "1.root.json"

    @property
    def written(self) -> int:
        return self.server.written(self.name)

    def mirror(self, *options: str) -> dict[str, Any]:
        done = tfaot("registry", "mirror", self.origin.root, self.url, *options, "--json")
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def mirrored(self, *packages: str) -> Mirroring:
        """In this process."""
        to = Reference.of_registry(self.url)
        return mirror(str(self.origin.root), to, Part(packages=packages), Folders.of_user(), progress=Silent())

    def opened(self, home: Path) -> StaticRegistry:
        """As somebody sees it who has seen nothing before."""
        folders = Folders(cache=home / "cache", data=home / "data")
        add_remote("r", Reference.of_registry(self.url), Trusting(root=self.root), folders, progress=Silent())
        return open_registry("r", folders, progress=Silent())

    def index(self) -> bytes:
        return self.server.get(f"{self.name}/manifests/registry", INDEX).content

    def put_index(self, index: bytes) -> None:
        url = f"http://{self.server.host}/v2/{self.name}/manifests/registry"
        done = requests.put(url, index, auth=(USER, PASSWORD), headers=INDEX_TYPE, timeout=20)
        assert done.status_code == 201, done.text


@pytest.fixture
def repository(
    docker_registry: DockerRegistry, login: Callable[[str], None], signed: SignedRegistry, tmp_path: Path
) -> Repository:
    login(docker_registry.host)
    return Repository(docker_registry, signed.registry, tmp_path.name.lower().replace("_", "-") + "/models")


def publish(registry: FolderRegistry, folder: Path, model: str, version: str) -> None:
    folder = folder / f"{model}-{version}"
    folder.mkdir()
    if (model, version) == ("digits", "1.0"):
        done = attested(released(folder, version), registry, None)
        registry.publish(done.entry, done.blobs)
    else:
        package = package_of(folder, model, version, tiny_files(model, version), targets=("x86-64-v2",))
        registry.publish(package.entry, package.blobs)


@pytest.mark.slow
def test_a_signed_registry_is_brought_there_and_read_with_its_root(
    repository: Repository, require_program: Callable[[str], str], tmp_path: Path
) -> None:
    first = repository.mirror()
    assert (first["packages"], first["signed"], first["folder"]) == (1, True, repository.url)
    assert first["fetched"] > 5 and first["kept"] == 0
    tfaot("registry", "add", "near", repository.url, "--root", repository.root)
    assert "tfaot-model-digits" in tfaot("search", "digits", "--registry", "near").stdout
    assert "1.0" in tfaot("show", "digits", "--registry", repository.url).stdout
    tfaot("install", "digits", "--registry", "near", "--prefix", tmp_path / "prefix")
    tfaot("install", "digits", "--registry", repository.origin.root, "--prefix", tmp_path / "from folder")
    installed = {path.name: path.read_bytes() for path in (tmp_path / "prefix").rglob("*") if path.is_file()}
    assert installed == {p.name: p.read_bytes() for p in (tmp_path / "from folder").rglob("*") if p.is_file()}
    verified = json.loads(tfaot("registry", "verify", "near", "--json").stdout)
    assert (verified["ok"], verified["signed"], verified["packages"]) == (True, True, 1)

    before = repository.written
    again = repository.mirror()
    assert (again["fetched"], again["size"], again["kept"]) == (0, 0, first["fetched"])
    assert repository.written == before > 0

    old = repository.index()
    publish(repository.origin, tmp_path, "taus", "1.0")
    # Blobs of taus, its index file and shard; a bin, search, snapshot and timestamp.
    assert repository.mirror()["fetched"] == 1 + 2 + 4
    shard = shard_path("tfaot-model-digits")
    kept = [[one.digest for one in manifests_in(each, "") if one.title == shard] for each in (old, repository.index())]
    assert kept[0] == kept[1] != []
    publish(repository.origin, tmp_path, "digits", "2.0")
    repository.mirror()
    tfaot("show", "digits@2.0", "--registry", "near")
    repository.origin.yank("digits", "2.0", "wrong numbers")
    repository.mirror()
    assert "wrong numbers" in tfaot("show", "digits@2.0", "--registry", "near").stdout
    lock: list[str | Path] = ["--lock", tmp_path / "tfaot.lock"]
    tfaot("resolve", "digits", "--registry", "near", *lock)
    tfaot("install", "--locked", *lock, "--prefix", tmp_path / "locked")
    assert (tmp_path / "locked" / "share" / "tfaot-model-digits").is_dir()

    # The state of before is signed as well, and older than what was seen here.
    repository.put_index(old)
    refused = tfaot("show", "digits", "--registry", "near", code=18)
    assert "rolled back" in refused.stderr
    assert repository.mirror()["fetched"] >= 0
    tfaot("show", "digits", "--registry", "near")
    tfaot("show", "digits", "--registry", "near", "--offline")

    # What copies images copies all of it.
    copied = f"{repository.server.host}/{repository.name}-copied"
    config = tmp_path / "nobody" / ".docker" / "config.json"
    command: list[str | Path] = [require_program("skopeo"), "copy", "--all", "--quiet", "--src-tls-verify=false"]
    command += ["--dest-tls-verify=false", "--policy", policy(tmp_path), "--authfile", config]
    run([*command, f"docker://{repository.url[6:]}:registry", f"docker://{copied}:registry"], timeout=60)
    tfaot("registry", "add", "copied", f"oci://{copied}", "--root", repository.root)
    assert json.loads(tfaot("registry", "verify", "copied", "--json").stdout)["ok"]


@pytest.mark.slow
def test_a_mirror_that_is_killed_before_any_of_its_writes_is_the_old_or_the_new_one(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException): ...

    left = 0

    def counted(name: str) -> None:
        rightly = getattr(HttpStore, name)

        def write(*arguments: Any) -> Any:
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            return rightly(*arguments)

        monkeypatch.setattr(HttpStore, name, write)

    repository.mirrored()
    publish(repository.origin, tmp_path, "digits", "2.0")
    for name in ("put", "put_manifest", "tag"):
        counted(name)
    # `put_manifest` tags by the digest: it counts twice.
    for number in range(100):
        left = number
        try:
            repository.mirrored()
            ended = True
        except Killed:
            ended = False
        reader = repository.opened(tmp_path / f"reader {number}")
        versions = [entry.version for entry in reader.entries("tfaot-model-digits")]
        assert versions == (["1.0", "2.0"] if ended else ["1.0"])
        for entry in reader.entries("tfaot-model-digits"):
            for blob in entry.blobs.values():
                with reader.open_blob(blob):
                    pass
        if ended:
            break
    assert 0 < number < 99, "content that is there is not sent again"


def test_what_is_not_one_writer_s_mirror_is_refused(repository: Repository, tmp_path: Path) -> None:
    url, origin = repository.url, repository.origin
    for words in (
        ["yank", "digits@1.0", "--reason", "x", "--registry", url],
        ["registry", "mirror", origin.root, f"{url}:1.0"],
        ["registry", "mirror", origin.root, url, "--prune"],
        ["registry", "mirror", origin.root, tmp_path / "folder", "--plain-http"],
        ["registry", "add", "r", url, "--root", repository.root],
        ["show", "digits", "--registry", url],
        ["install", url, "--unsigned", "--prefix", tmp_path / "prefix"],
    ):
        refused = tfaot(*words, code=2 if "--plain-http" in words else 16)
        worded(refused.stderr, varies=(url[6:], str(tmp_path)))
    repository.mirrored()
    tfaot("registry", "add", "r", url, "--root", repository.root)
    for name in ("r", url):
        assert "nobody can publish" in tfaot("registry", "gc", name, code=16).stderr
    other = FolderRegistry.create(tmp_path / "other")
    publish(other, tmp_path, "taus", "1.0")
    assert "is a mirror of" in tfaot("registry", "mirror", other.root, url, code=16).stderr
    # Another one wrote between the start of this one and its end.
    publish(origin, tmp_path, "taus", "2.0")
    index, rightly = index_of([]), HttpStore.put_manifest

    def and_another(store: HttpStore, manifest: Manifest) -> None:
        rightly(store, manifest)
        store.tag(index, "registry")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HttpStore, "put_manifest", and_another)
        with reported(StorageError, varies=(url[6:],)):
            repository.mirrored()
    assert repository.index() == index.body


@pytest.mark.slow
def test_a_part_says_what_it_lacks_and_unsigned_registries_are_read_too(repository: Repository, tmp_path: Path) -> None:
    publish(repository.origin, tmp_path, "taus", "1.0")
    assert repository.mirror("--package", "taus")["part"] == "tfaot-model-taus"
    tfaot("registry", "add", "part", repository.url, "--root", repository.root)
    assert "1.0" in tfaot("show", "taus", "--registry", "part").stdout
    assert "digits" in tfaot("search", "digits", "--registry", "part").stdout
    refused = tfaot("install", "digits", "--registry", "part", "--prefix", tmp_path / "prefix", code=16)
    assert "partial mirror of" in refused.stderr
    assert json.loads(tfaot("registry", "verify", "part", "--json").stdout)["packages"] == 1
    tfaot("registry", "mirror", "part", tmp_path / "folder", "--package", "taus")
    with faulty_server(repository.origin.root) as server:
        tfaot("registry", "add", "far", server.url, "--root", repository.root)
        assert json.loads(tfaot("registry", "mirror", "far", repository.url, "--json").stdout)["fetched"] > 0
        before = repository.written
        server.seen.clear()
        assert json.loads(tfaot("registry", "mirror", "far", repository.url, "--json").stdout)["fetched"] == 0
        assert not [path for path in server.paths() if "blobs/" in path]
    assert repository.written == before
    tfaot("install", "digits", "--registry", "part", "--prefix", tmp_path / "prefix")
    assert not list((tmp_path / "home" / "cache" / "mirrors").rglob("sent/*"))

    plain = FolderRegistry.create(tmp_path / "unsigned")
    publish(plain, tmp_path / "folder", "digits", "1.0")
    url = f"{repository.url}-unsigned"
    tfaot("registry", "mirror", plain.root, url)
    tfaot("registry", "add", "plain", url, "--unsigned")
    assert "digits" in tfaot("search", "digits", "--registry", "plain").stdout
    tfaot("install", "digits", "--registry", "plain", "--prefix", tmp_path / "plain")
    assert json.loads(tfaot("registry", "mirror", plain.root, url, "--json").stdout)["fetched"] == 0


def test_who_reads_a_state_reads_it_to_its_end(repository: Repository, tmp_path: Path) -> None:
    repository.mirrored()
    before, after = repository.opened(tmp_path / "before"), repository.opened(tmp_path / "after")
    assert isinstance(before, RemoteRegistry)
    number = read_json(before.files.get("metadata/timestamp.json", LIMIT))["signed"]["meta"]["snapshot.json"]["version"]
    publish(repository.origin, tmp_path, "digits", "2.0")
    repository.mirrored()
    # What is asked for again is read anew, and what only the state of before has is still there.
    assert after.resolve("digits").version == "1.0"
    after.index.forget()
    assert after.resolve("digits").version == "2.0"
    before.files.get("metadata/timestamp.json", LIMIT)
    before.files.get(f"metadata/{number}.snapshot.json", LIMIT)
    with pytest.raises(MissingFile):
        after.files.get("metadata/1000.root.json", LIMIT)


def test_manifests_are_split_and_the_same_for_the_same_files() -> None:
    files = {f"blobs/sha256/{n:02x}/{n:062x}": BlobRef.of(bytes([n % 256, n // 256])) for n in range(5000)}
    manifests = manifests_of("search/00.jsonl", files)
    assert len(manifests) == 3 and all(len(one.body) < LIMIT / 2 for one in manifests)
    assert manifests == manifests_of("search/00.jsonl", dict(reversed(files.items())))
    assert {path: blob for one in manifests for path, blob in files_in(one.body, "").items()} == files
    assert not manifests_of(NAMED, {})
    with reported(RegistryError):
        index_of(manifests * 5000)


def test_wrong_manifests_are_clear_errors(repository: Repository, tmp_path: Path) -> None:
    repository.mirrored()
    index = repository.index()
    content = tmp_path / "layout" / "blobs" / "sha256"
    content.mkdir(parents=True)
    for one in manifests_in(index, ""):
        body = repository.server.get(f"{repository.name}/manifests/{one.digest}", MANIFEST).content
        for blob in (one.blob, *files_in(body, "").values()):
            there = f"{repository.name}/{'manifests' if blob == one.blob else 'blobs'}/sha256:{blob.sha256}"
            data = repository.server.get(there, MANIFEST if blob == one.blob else "*/*").content
            (content / blob.sha256).write_bytes(data)
    named = next(one for one in manifests_in(index, "") if one.title == NAMED)
    manifest = json.loads((content / named.blob.sha256).read_bytes())
    layers = manifest["layers"]
    (timestamp,) = [
        one for one in layers if one["annotations"]["org.opencontainers.image.title"].endswith("timestamp.json")
    ]

    def titled(title: str) -> bytes:
        first = {**layers[0], "annotations": {"org.opencontainers.image.title": title}}
        return with_manifest({**manifest, "layers": [first, *layers]})

    def with_manifest(document: object, **changed: object) -> bytes:
        body = json.dumps(document).encode()
        (content / BlobRef.of(body).sha256).write_bytes(body)
        descriptor = {"digest": f"sha256:{BlobRef.of(body).sha256}", "size": len(body), **changed}
        said = {"annotations": {"org.opencontainers.image.title": NAMED}, "mediaType": manifest["mediaType"]}
        return json.dumps({**json.loads(index), "manifests": [{**said, **descriptor}]}).encode()

    lies: list[tuple[str, bytes, type[TfaotError]]] = [
        ("/manifests/registry", titled("../../escaped"), RegistryError),
        ("/manifests/registry", titled("/etc/passwd"), RegistryError),
        ("/manifests/registry", titled(".hidden"), RegistryError),
        ("/manifests/registry", titled("config.json/"), RegistryError),
        ("/manifests/registry", titled("metadata/timestamp.json"), RegistryError),
        ("/manifests/registry", with_manifest(manifest, size=1), TrustError),
        ("/manifests/registry", with_manifest(manifest, size=LIMIT + 1), RegistryError),
        ("/manifests/registry", with_manifest(manifest, size=-1), RegistryError),
        ("/manifests/registry", with_manifest(manifest, digest="sha256:../../x"), RegistryError),
        ("/manifests/registry", with_manifest(json.loads(index)), RegistryError),
        ("/manifests/registry", with_manifest({**manifest, "layers": 3}), RegistryError),
        ("/manifests/registry", json.dumps({**json.loads(index), "manifests": json.loads(index)["manifests"] + [
            {"digest": named.digest, "size": LIMIT, "annotations": {"org.opencontainers.image.title": NAMED}}] * 17}).encode(), RegistryError),
        ("/manifests/registry", b" " * (LIMIT + 1), TrustError),
        ("/manifests/registry", b"[" * 100_000, RegistryError),
        ("/manifests/registry", json.dumps(manifest).encode(), RegistryError),
        (named.digest, b"x" * named.size, TrustError),
        (named.digest, b"x" * (named.size + 1), TrustError),
        (timestamp["digest"], b"{}", TrustError),
        (timestamp["digest"], b"x" * 100_000_000, TrustError),
    ]  # fmt: skip
    with serving(tmp_path / "layout") as server:
        served = Repository(DockerRegistry(host=server.host, log=tmp_path), repository.origin, repository.name)
        for number, (path, body, error) in enumerate(lies):
            server.faults = {"/manifests/registry": (200, {}, index), path: (200, {}, body)}
            with pytest.raises(error) as raised:
                served.opened(tmp_path / f"home {number}")
            assert raised.value.hint, raised.value
        server.faults = {"/manifests/registry": (200, {}, index)}
        assert served.opened(tmp_path / "home").names() == ("tfaot-model-digits",)
    # Without the server, what was read last is there.
    home = Folders(cache=tmp_path / "home" / "cache", data=tmp_path / "home" / "data")
    assert open_registry("r", home, progress=Silent()).names() == ("tfaot-model-digits",)
    assert not list(tmp_path.rglob("escaped"))
