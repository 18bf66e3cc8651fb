"""A registry in a bucket: what a folder does, without a lock."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command
from tests.registry.signing import keys_in, no_secrets
from tests.wording import reported
from tfaot_pkg.errors import NetworkError, RegistryError, SpecError, TfaotError
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.objects import BucketAddress, Objects
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.registry.audit import audit, collect
from tfaot_pkg.registry.bucket import BucketStorage
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.mirror import Part, mirror
from tfaot_pkg.registry.named import Trusting, add_remote, open_registry
from tfaot_pkg.registry.places import create_at, open_at
from tfaot_pkg.registry.remote.address import Address
from tfaot_pkg.registry.signing import Plan, initialize, refresh
from tfaot_pkg.registry.storage import Conflict
from tfaot_pkg.registry.trust.client import Anchor
from tfaot_pkg.registry.writable import WritableRegistry

MakePackage = Callable[..., Any]

_AT_ONCE = 5

pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Here:
    """A registry in a bucket, for as many publishers as are opened."""

    address: BucketAddress
    folder: Path
    signed: bool
    fingerprint: str = ""

    @property
    def keys(self) -> Keys:
        return keys_in(self.folder / "keys") if self.signed else Keys()

    def open(self, name: str = "trust") -> WritableRegistry:
        return open_at(self.address, anchor=Anchor(folder=self.folder / name), keys=self.keys)

    def check(self) -> None:
        found = audit(self.open("auditor"), Silent())
        assert found.faults == []


@pytest.fixture(params=["unsigned", "signed"])
def here(request: pytest.FixtureRequest, bucket: str, tmp_path: Path) -> Here:
    address = BucketAddress.parse(bucket, "--registry")
    if request.param == "unsigned":
        create_at(address)
        return Here(address=address, folder=tmp_path, signed=False)
    made = initialize(address, tmp_path / "keys", Plan(bits=1), passphrase=lambda: None, secrets=no_secrets)
    return Here(address=address, folder=tmp_path, signed=True, fingerprint=made.fingerprint)


def publish(registry: WritableRegistry, package: Any) -> str:
    return registry.publish(package.entry, package.blobs).status


def test_what_is_published_can_be_read_yanked_and_removed(here: Here, make_package: MakePackage) -> None:
    registry, package = here.open(), make_package()
    assert publish(registry, package) == "published"
    assert publish(here.open(), package) == "already published"
    assert publish(registry, make_package("digits", "2.0")) == "published"
    with registry.open_blob(package.entry.blobs["prefix"]) as file:
        assert sha256_bytes(file.read()) == package.entry.blobs["prefix"].sha256
    registry.yank("digits", "2.0", "wrong")
    reader = here.open("reader")
    assert str(reader.resolve("digits")) == "tfaot-model-digits@1.0"
    assert reader.search("digits").found[0].name == "tfaot-model-digits"
    here.check()
    with reported(RegistryError):
        collect(registry, grace=timedelta(minutes=59))
    assert collect(registry, grace=timedelta(hours=2)).removed == ()
    with reported(RegistryError):
        publish(registry, make_package("digits", "1.0", {"lib/other.a": b"other"}))


@pytest.mark.sweep("unsigned", night=["signed"])
def test_publishers_at_the_same_time_lose_nothing(here: Here, make_package: MakePackage) -> None:
    """All of one package, so that each is in the way of each other."""
    packages = [make_package("digits", f"{number}.0") for number in range(_AT_ONCE)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        registries = [here.open(f"publisher {number}") for number in range(_AT_ONCE)]
        done = list(pool.map(publish, registries, packages))
    # Unsigned, a version begins to exist before its search shard is written, which somebody else may have done.
    assert set(done) <= ({"published"} if here.signed else {"published", "already published"})
    assert [entry.version for entry in here.open("reader").entries("digits")] == [f"{n}.0" for n in range(_AT_ONCE)]
    here.check()


class _Killed(BaseException):
    pass


def _dying(registry: WritableRegistry, writes: int) -> WritableRegistry:
    """A publisher that is killed before its write number `writes`."""
    real = Objects.open(BucketAddress.parse(registry.location, "--registry"))
    left = [writes]

    class Client:
        def __getattr__(self, name: str) -> Any:
            if name == "put_object":
                left[0] -= 1
                if left[0] < 0:
                    raise _Killed
            return getattr(real.client, name)

    files = BucketStorage(replace(real, client=Client()))
    return WritableRegistry.of(files, anchor=getattr(registry.index, "_anchor", None), keys=registry.keys)


@pytest.mark.nightly
def test_a_publisher_that_is_killed_leaves_the_old_state_or_the_new_one(here: Here, make_package: MakePackage) -> None:
    publish(here.open(), make_package())
    for writes in range(20):
        package = make_package("taus", f"{writes}.0")
        try:
            publish(_dying(here.open(f"victim {writes}"), writes), package)
        except _Killed:
            pass
        else:
            break
        known = [entry.version for entry in here.open(f"reader {writes}").entries("taus")]
        assert known in ([f"{n}.0" for n in range(writes)], [f"{n}.0" for n in range(writes + 1)])
        # The same command again completes it, whatever numbers are taken.
        publish(here.open(), package)
        here.check()
    else:
        pytest.fail("it never came to its end")
    assert writes > (4 if here.signed else 2)


def test_keys_are_refreshed_and_what_changed_meanwhile_is_seen(
    bucket: str, tmp_path: Path, make_package: MakePackage
) -> None:
    address = BucketAddress.parse(bucket, "--registry")
    initialize(address, tmp_path / "keys", Plan(bits=1), passphrase=lambda: None, secrets=no_secrets)
    signed = Here(address=address, folder=tmp_path, signed=True)
    assert refresh(signed.open()).signed == ("timestamp",)
    first, second = signed.open("first"), signed.open("second")
    with reported(Conflict), first.writing() as commit:
        publish(second, make_package())
        commit.apply({"index/ta/us/tfaot-model-taus": b""})
    signed.check()


def test_everyone_reads_it_from_the_address_of_the_bucket_or_a_mirror(
    bucket: str, s3: dict[str, str], tmp_path: Path, make_package: MakePackage
) -> None:
    address, folders = (
        BucketAddress.parse(bucket, "--registry"),
        Folders(cache=tmp_path / "cache", data=tmp_path / "data"),
    )
    made = initialize(address, tmp_path / "keys", Plan(bits=1), passphrase=lambda: None, secrets=no_secrets)
    signed = Here(address=address, folder=tmp_path, signed=True)
    publish(signed.open(), make_package())
    trusting = Trusting(fingerprint=made.fingerprint)
    url = f"{s3['AWS_ENDPOINT_URL_S3']}/tests/{address.prefix}"
    places: dict[str, Address | BucketAddress] = {"web": Address.parse(url), "bucket": address}
    for name, place in places.items():
        add_remote(name, place, trusting, folders, progress=Silent())
        opened = open_registry(name, folders, progress=Silent())
        assert opened.is_signed and str(opened.resolve("digits")) == "tfaot-model-digits@1.0"
    done = mirror(bucket, tmp_path / "mirror", Part(), folders, progress=Silent())
    assert done.root == made.fingerprint and done.packages == 1
    assert str(open_registry(str(tmp_path / "mirror"), folders, progress=Silent()).resolve("digits")).endswith("@1.0")


@pytest.mark.nightly
def test_commands_take_the_address_of_a_bucket(bucket: str, tmp_path: Path, tfaot_home: Path) -> None:
    keys = tmp_path / "keys"
    made = run_command(["registry", "init", bucket, "--keys", keys, "--no-passphrase", "--bins", "1", "--json"])
    document = json.loads(made.stdout)
    assert document["registry"] == bucket and document["root"] == f"{bucket}/metadata/1.root.json"
    again = run_command(["registry", "init", bucket, "--keys", keys, "--no-passphrase"])
    assert again.returncode == RegistryError.exit_code and "is a registry already" in again.stderr
    assert run_command(["registry", "refresh", bucket, "--keys", keys]).returncode == 0
    assert run_command(["registry", "verify", bucket]).returncode == 0
    assert run_command(["search", "--registry", bucket, "digits"]).returncode == 0
    for refused in (["render", "--registry", bucket], ["mirror", bucket, f"{bucket}/mirror"]):
        told = run_command(["registry", *refused])
        assert told.returncode == RegistryError.exit_code and "folder" in told.stderr
    night = tmp_path / "registry.yaml"
    night.write_text(f"registry: {bucket}\nmodels: [{{spec: spec.yaml}}]\n")
    told = run_command(["nightly", "plan", night])
    assert told.returncode == SpecError.exit_code and "registry: must be a folder" in told.stderr


def test_what_is_no_place_for_a_registry_is_named(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("s3://", "s3://B/x", "s3://tests/a//b", "s3://tests/../b", "s3://tests/a b"):
        with reported(TfaotError):
            BucketAddress.parse(text, "--registry")
    address = BucketAddress.parse(bucket, "--registry")
    with reported(RegistryError):
        open_at(address)
    BucketStorage.at(address).put("notes.txt", b"someone else's")
    with reported(RegistryError):
        create_at(address)
    with reported(NetworkError):
        create_at(BucketAddress.parse("s3://no-such-bucket/x", "--registry"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with reported(NetworkError):
        open_at(address)
