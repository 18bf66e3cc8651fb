"""A hundred thousand packages: small files, quick changes, a search that reads little."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.catalogue.conftest import Browser
from tests.catalogue.registries import Many
from tests.catalogue.test_browser import eventually, one, texts
from tests.server.conftest import tfaot_server
from tfaot_pkg.catalogue import render as rendering
from tfaot_pkg.catalogue.record import Record, record_of
from tfaot_pkg.catalogue.render import FOLDER, render, update
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.static import RegistryConfig

pytestmark = [pytest.mark.release, pytest.mark.slow, pytest.mark.timeout(900)]

_COUNT = 100_000
_LARGEST = 200_000
_TRANSFERRED = "return performance.getEntriesByType('resource').reduce((sum, r) => sum + r.decodedBodySize, 0)"


class _Renamed(Many):
    """The same with other versions and descriptions."""

    def entries(self, package: str) -> tuple[RegistryEntry, ...]:
        (entry,) = super().entries(package)
        return (replace(entry, version="2.0.0", description="New and other words"),)


class _FewPages(rendering._Renderer):
    """Writes the page of each hundredth package. Pages do not depend on one another, and all of them take minutes."""

    def package(self, name: str) -> Record | None:
        if int(name.rpartition("-")[2]) % 100 == 0:
            return super().package(name)
        entries = self._reader.entries(name)
        self._relations.take(name, entries[-1])
        return record_of(entries, None, self._read)


def test_a_hundred_thousand_packages(
    tmp_path: Path, start_browser: Callable[..., Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One test, so that the catalogue is rendered once."""
    with monkeypatch.context() as patch:
        patch.setattr(rendering, "_Renderer", _FewPages)
        large = _rendered(tmp_path / "large")
    assert [path for path in large.rglob("*") if path.is_file() and path.stat().st_size > _LARGEST] == []
    _searching_and_turning_pages_reads_little(large, start_browser)
    _a_change_writes_few_small_files(large)


def _rendered(root: Path) -> Path:
    """The folder of a registry that is nothing but the catalogue of 100,000 packages."""
    root.mkdir()
    (root / "config.json").write_bytes(RegistryConfig().to_bytes())
    begin = time.monotonic()
    done = render(Many(count=_COUNT), root / FOLDER)
    print(f"rendered 100,000 packages in {time.monotonic() - begin:.0f} s")  # noqa: T201 (-s shows it)
    assert done.packages == _COUNT
    return root


def _a_change_writes_few_small_files(large: Path) -> None:
    many = Many(count=_COUNT)
    for number in range(5, 50_000, 24_999):
        before = _files(large)
        update(_Renamed(count=many.count), large / FOLDER, many.names()[number])
        changed = [path for path, written in _files(large).items() if before.get(path) != written]
        assert 0 < len(changed) < 300  # one per page, and one per prefix of each word
        assert sum(path.stat().st_size for path in changed) < 2 << 20


def _files(root: Path) -> dict[Path, tuple[int, int]]:
    """Inode and time of last change of every file: a page is replaced, not written to."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def _searching_and_turning_pages_reads_little(large: Path, start_browser: Callable[..., Browser]) -> None:
    browser = start_browser()
    with tfaot_server(large) as (_, url):
        browser.open(f"{url}{FOLDER}/")
        assert "100,000 packages" in one(browser, ".lead").text
        one(browser, "#q").send_keys("004711 reg")
        eventually(lambda: texts(browser, "#status") == ["1 package found."], 20)
        assert texts(browser, "#found .row-name")[0].endswith("_004711")
        assert browser.driver.execute_script(_TRANSFERRED) < 1_000_000
        one(browser, "#q").clear()
        one(browser, "#q").send_keys("jet")
        eventually(lambda: len(texts(browser, "#found .row-name")) >= 40, 20)
        before = len(texts(browser, "#found .row-name"))
        one(browser, "#more").send_keys(Keys.ENTER)
        eventually(lambda: len(texts(browser, "#found .row-name")) > before, 20)
        browser.open(f"{url}{FOLDER}/list/l.html")
        while not texts(browser, ".row-name"):
            browser.driver.find_elements(By.CSS_SELECTOR, ".chips a")[0].click()
        assert 0 < len(texts(browser, ".row-name")) <= 100
        assert browser.faults(url) == []
