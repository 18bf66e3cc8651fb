"""What several threads want at the same time is done in one step."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.registry.conftest import package_of
from tests.registry.signing import make_signed
from tests.registry.tiny import tiny_files
from tfaot_pkg.errors import RegistryError, StorageError, TfaotError
from tfaot_pkg.nightly.batches import Batches
from tfaot_pkg.registry.writable import Published


def test_what_waits_while_a_batch_is_at_work_is_the_next_one() -> None:
    begun, may_end = Event(), Event()
    batches: list[list[int]] = []

    def act(items: Sequence[int]) -> list[TfaotError | None]:
        batches.append(sorted(items))
        begun.set()
        assert may_end.wait(60)
        return [RegistryError("odd") if item % 2 else None for item in items]

    together = Batches(act=act)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(together.put, 0)
        assert begun.wait(60)
        others = [pool.submit(together.put, number) for number in range(1, 8)]
        while len(together._waiting) < len(others):
            pass
        may_end.set()
        assert first.result() is None
        failed = [one.exception() for one in others]
    assert batches == [[0], [1, 2, 3, 4, 5, 6, 7]]
    assert [error is not None for error in failed] == [True, False, True, False, True, False, True]


def test_what_a_whole_batch_raises_reaches_everybody_and_the_next_one_begins_anew() -> None:
    def full(items: Sequence[int]) -> list[TfaotError | None]:
        if items[0] < 2:
            raise StorageError("the disk is full")
        return [None]

    together = Batches(act=full)
    for number in range(2):
        with pytest.raises(StorageError):
            together.put(number)
    together.put(2)


def test_several_packages_are_published_by_one_signature(tmp_path: Path) -> None:
    registry = make_signed(tmp_path)
    before = {path.name for path in (tmp_path / "registry" / "metadata").iterdir()}
    packages = [
        package_of(tmp_path, model, f"1.0+tf2.17.1.b{number}", tiny_files(model, str(number)))
        for model in ("digits", "wine")
        for number in (1, 2)
    ]
    wrong = package_of(tmp_path, "digits", "1.0+tf2.17.1.b1", tiny_files("digits", "other"))
    done = registry.publish_all([(one.entry, one.blobs) for one in (*packages, wrong)])
    assert [isinstance(one, Published) for one in done] == [True, True, True, True, False]
    assert isinstance(done[-1], RegistryError)
    new = {path.name for path in (tmp_path / "registry" / "metadata").iterdir()} - before
    assert len([name for name in new if name.endswith("snapshot.json")]) == 1
    assert [len(registry.entries(name)) for name in ("tfaot-model-digits", "tfaot-model-wine")] == [2, 2]
