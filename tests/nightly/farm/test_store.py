"""The store: cells that only one of several writers gets, and blobs that are what their names say."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.nightly.farm.conftest import Place
from tests.wording import reported
from tfaot_pkg.errors import NetworkError, StorageError, TfaotError, TrustError
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.nightly.farm.address import store_at
from tfaot_pkg.nightly.farm.folder import FolderStore
from tfaot_pkg.nightly.farm.store import MOST, fetch, get, put


def test_a_cell_is_made_once_and_replaced_by_who_knows_it(place: Place) -> None:
    store = place.store
    assert store.read("one") is None and store.cells() == {}
    first = store.create("one", b"1")
    assert first is not None and store.create("one", b"2") is None
    second = store.replace("one", b"2", first)
    assert second is not None and second != first
    assert store.replace("one", b"3", first) is None, "it was replaced meanwhile"
    found = store.read("one")
    assert found is not None and (found.data, found.tag) == (b"2", second)
    assert store.cells() == {"one": second}
    store.remove("one")
    assert store.read("one") is None and store.replace("one", b"3", second) is None
    assert store.cells() == {}


def test_whoever_was_stopped_before_his_write_does_not_get_a_cell_that_went_on(place: Place) -> None:
    store = place.store
    tags = [store.create("one", b"0")]
    for number in range(1, 6):
        tags.append(store.replace("one", b"%d" % number, tags[-1] or ""))
    assert None not in tags
    for tag in tags[:-1]:
        assert store.replace("one", b"late", tag or "") is None
    assert store.create("one", b"late") is None
    found = store.read("one")
    assert found is not None and found.data == b"5"


def test_a_cell_that_is_replaced_while_a_folder_is_read_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reading may come too late for the old version, and too early for the new one."""
    store, listed = FolderStore.of(tmp_path), os.listdir
    tag = store.create("one", b"1")
    readings: list[list[str]] = [["two.1"]]
    monkeypatch.setattr(os, "listdir", lambda folder: readings.pop() if readings else listed(folder))
    assert "one" in store.cells()
    readings.append(["two.1"])
    found = store.read("one")
    assert found is not None and found.tag == tag


def test_a_cell_that_the_end_of_the_night_removes_while_it_is_written_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, link = FolderStore.of(tmp_path), os.link
    tag = store.create("one", b"1")

    def removed(*args: Any, **options: Any) -> None:
        link(*args, **options)
        store.remove("one")

    monkeypatch.setattr(os, "link", removed)
    assert store.replace("one", b"2", tag or "") is None and store.cells() == {}


def test_one_of_many_gets_a_cell(place: Place) -> None:
    store, start = place.store, Barrier(4)

    def take(number: int) -> list[bool]:
        start.wait()
        return [store.create(f"cell-{each}", b"%d" % number) is not None for each in range(20)]

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(take, range(4)))
    assert [sum(each) for each in zip(*taken, strict=True)] == [1] * 20


def test_one_of_many_replaces_a_cell(place: Place) -> None:
    store, start = place.store, Barrier(4)
    tag = store.create("one", b"")
    assert tag is not None

    def take(number: int) -> bool:
        start.wait()
        return store.replace("one", b"%d" % number, tag) is not None

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(take, range(4))) == 1


def test_blobs_come_back_as_they_were(place: Place, tmp_path: Path) -> None:
    store = place.store
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    one, two = put(store, b"short"), put(store, tmp_path / "file")
    assert get(store, one, 5) == b"short"
    assert fetch(store, two, tmp_path / "copy", 100_000) == 100_000
    assert (tmp_path / "copy").read_bytes() == b"x" * 100_000
    assert sorted(store.blobs()) == sorted([one, two])
    store.drop(one)
    assert store.blobs() == [two]
    with reported(StorageError, varies=r"(?<= in ).*"):
        get(store, one, 5)


def test_a_blob_that_is_larger_or_another_one_is_refused(place: Place, tmp_path: Path) -> None:
    store = place.store
    digest = put(store, b"what was checked")
    with reported(TrustError):
        get(store, digest, 15)
    with reported(TrustError):
        fetch(store, digest, tmp_path / "copy", 15)
    store.upload(digest, b"what is replaced")
    with reported(TrustError):
        get(store, digest, 100)
    with reported(TrustError):
        fetch(store, digest, tmp_path / "other", 100)


def test_a_long_cell_is_cut_off(place: Place) -> None:
    store = place.store
    store.create("one", b"x" * (MOST + 10))
    found = store.read("one")
    assert found is not None and len(found.data) == MOST


@pytest.mark.parametrize("name", ["", "../one", "a/b", "A", ".hidden", "a.1"])
def test_names_that_lead_elsewhere_are_refused(place: Place, name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of a cell"):
        place.store.create(name, b"")
    with pytest.raises(ValueError, match="is not the name of a cell"):
        place.store.upload(name, b"")


def test_links_and_pipes_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    store = FolderStore.of(tmp_path / "store")
    (tmp_path / "secret").write_bytes(b"secret")
    digest = sha256_bytes(b"secret")
    (tmp_path / "store/blobs" / digest).symlink_to(tmp_path / "secret")
    (tmp_path / "store/cells/one.1").symlink_to(tmp_path / "secret")
    with pytest.raises(StorageError):
        get(store, digest, 100)
    with pytest.raises(StorageError):
        store.read("one")
    os.mkfifo(tmp_path / "store/blobs/pipe")
    with reported(StorageError), store.opened("pipe"):
        pass
    store.drop(digest)
    assert (tmp_path / "secret").exists()


def test_a_folder_that_became_a_link_is_not_emptied(tmp_path: Path) -> None:
    store = FolderStore.of(tmp_path / "store")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").touch()
    (tmp_path / "store/blobs").rmdir()
    (tmp_path / "store/blobs").symlink_to(tmp_path / "mine")
    with pytest.raises(StorageError):
        store.drop("file")
    assert (tmp_path / "mine/file").exists()


@pytest.mark.parametrize("url", ["http://host/x", "s3://UPPER/x", "s3://"])
def test_an_address_that_is_none_is_reported(url: str) -> None:
    with reported(TfaotError):
        store_at(url)


def test_a_server_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch, s3: dict[str, str]) -> None:
    for name, value in {**s3, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}.items():
        monkeypatch.setitem(os.environ, name, value)
    with reported(NetworkError):
        store_at("s3://tests/none").cells()


def test_s3_without_credentials_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with reported(NetworkError):
        store_at("s3://tests/none")
