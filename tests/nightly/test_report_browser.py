"""A report as people meet it: below a registry's catalogue, on the real server, in headless Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.catalogue.conftest import Browser, shared_browser, start_browser  # noqa: F401 (fixtures)
from tests.catalogue.registries import small_registry
from tests.catalogue.test_browser import AXE, eventually, focused, one, out_of_sight, texts
from tests.nightly.reports import two_nights
from tests.server.conftest import tfaot_server
from tfaot_pkg.catalogue.render import FOLDER, NIGHTLY, render, update_front
from tfaot_pkg.nightly.report.report import find_night, read_report
from tfaot_pkg.nightly.report.write import write_report

pytestmark = pytest.mark.slow

PAGES = {
    "": "night",
    "all/1.html": "tasks",
    "tasks/broken@1.0.0+tf2.17.1.html": "broken",
    "tasks/wrong@1.0.0+tf2.17.1.html": "hostile",
    "tasks/slow@1.0.0+tf2.17.1.html": "slow",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The report's address; the catalogue's is one above."""
    root = tmp_path_factory.mktemp("reported")
    registry = small_registry(root / "registry")
    catalogue = registry.root / FOLDER
    render(registry, catalogue)
    state = two_nights(root / "state")
    write_report(read_report(state, find_night(state)), catalogue / NIGHTLY)
    update_front(registry, catalogue)
    with tfaot_server(registry.root) as (_, url):
        yield f"{url}{FOLDER}/{NIGHTLY}/"


@pytest.fixture
def browser(shared_browser: Browser, address: str) -> Browser:  # noqa: F811
    shared_browser.size(1280, 900)
    shared_browser.scheme("light")
    shared_browser.open(address)
    shared_browser.faults("")
    return shared_browser


def test_the_catalogue_leads_to_the_report_and_back(browser: Browser, address: str) -> None:
    catalogue = address.removesuffix(f"{NIGHTLY}/")
    browser.open(catalogue)
    browser.driver.find_element(By.PARTIAL_LINK_TEXT, "last night").click()
    eventually(lambda: texts(browser, "h1") == ["Night of 2026-11-04"])
    browser.driver.find_element(By.LINK_TEXT, "Packages").click()
    eventually(lambda: browser.driver.current_url == f"{catalogue}index.html")
    assert browser.faults(catalogue) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_loads_without_complaint_and_runs_nothing_of_a_log(browser: Browser, address: str, page: str) -> None:
    browser.open(address + page)
    assert texts(browser, "h1")
    assert browser.driver.execute_script("return window.hacked") is None
    assert browser.faults(address) == []


@pytest.mark.sweep("-light", "tasks/broken*-dark", night=10)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_fault_and_the_page_is_kept_as_a_picture(
    browser: Browser, address: str, page: str, scheme: str
) -> None:
    browser.scheme(scheme)
    browser.open(address + page)
    browser.screenshot(f"nightly-{PAGES[page]}-{scheme}")
    browser.driver.execute_script((files("axe_core_python") / "axe.min.js").read_text())
    violations = browser.driver.execute_async_script(AXE)
    assert [(v["id"], [node["html"] for node in v["nodes"]]) for v in violations] == []


@pytest.mark.sweep("tasks/broken*")
@pytest.mark.parametrize("page", PAGES)
def test_a_telephone_shows_the_page_without_scrolling_sideways(browser: Browser, address: str, page: str) -> None:
    browser.size(360, 740)
    browser.open(address + page)
    script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.driver.execute_script(script) == 0
    assert out_of_sight(browser) == []


def test_the_keyboard_leads_from_the_night_to_a_failure_and_copies_its_command(browser: Browser, address: str) -> None:
    one(browser, "body").send_keys(Keys.TAB)
    assert focused(browser).text == "Skip to content"
    for _ in range(60):
        if focused(browser).text == "broken@1.0.0+tf2.17.1":
            break
        focused(browser).send_keys(Keys.TAB)
    focused(browser).send_keys(Keys.ENTER)
    eventually(lambda: texts(browser, "h1") == ["broken@1.0.0+tf2.17.1"])
    assert texts(browser, "#first-error") == ["unit_3.cc:14:7: error: no matching function for call to 'dot'"]
    for _ in range(60):
        if focused(browser).get_attribute("class") == "copy":
            break
        focused(browser).send_keys(Keys.TAB)
    focused(browser).send_keys(Keys.ENTER)
    eventually(lambda: focused(browser).text.startswith(("Copied", "Selected")))


def test_the_plot_shows_every_night(browser: Browser, address: str) -> None:
    browser.open(address + "tasks/slow@1.0.0+tf2.17.1.html")
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "svg.plot")) == 5
    first = one(browser, "svg.plot")
    assert len(first.find_elements(By.CSS_SELECTOR, "circle")) == 16
    rows = browser.driver.find_elements(By.XPATH, "//section[h2[@id='beside']]//tbody/tr")
    assert rows and all(row.text.split()[-2:] == ["1.300", "slower"] for row in rows)


def test_the_grid_shows_models_of_a_name_or_an_outcome_by_keyboard(browser: Browser, address: str) -> None:
    browser.open(address + "all/1.html")
    rows = (
        "return [...document.querySelectorAll('#grid tbody tr')].filter((e) => !e.hidden).map((e) => e.dataset.model)"
    )
    every = browser.driver.execute_script(rows)
    for _ in range(20):
        if focused(browser).get_attribute("name") == "model":
            break
        focused(browser).send_keys(Keys.TAB)
    focused(browser).send_keys(Keys.TAB)
    focused(browser).send_keys("build")
    assert len(every) == 14
    eventually(lambda: browser.driver.execute_script(rows) == ["broken", "other_broken"])
    focused(browser).send_keys(Keys.SHIFT, Keys.TAB)
    focused(browser).send_keys("other")
    eventually(lambda: browser.driver.execute_script(rows) == ["other_broken"])


def test_all_can_be_read_and_reached_without_javascript(
    start_browser: Callable[..., Browser],  # noqa: F811
    address: str,
) -> None:
    browser = start_browser(javascript=False)
    browser.open(address)
    seen, waiting = {address}, [address]
    while waiting:
        page = waiting.pop()
        browser.open(page)
        links = [link.get_attribute("href") or "" for link in browser.driver.find_elements(By.TAG_NAME, "a")]
        for link in (each.partition("#")[0] for each in links):
            if link.startswith(address) and link.endswith(".html") and link not in seen:
                seen.add(link)
                waiting.append(link)
    assert len(seen) == 1 + 1 + 12 + 1, "front page by both of its names, grid, tasks with news"
    assert browser.faults(address) == []


def test_the_report_reads_from_a_folder_too(browser: Browser, tmp_path: Path) -> None:
    state = two_nights(tmp_path / "state")
    write_report(read_report(state, find_night(state)), tmp_path / "report")
    browser.open(f"file://{tmp_path}/report/index.html")
    assert texts(browser, "h1") == ["Night of 2026-11-04"]
    assert browser.driver.find_elements(By.LINK_TEXT, "Packages") == []
    assert (
        browser.driver.execute_script("return getComputedStyle(document.querySelector('.tag')).borderRadius") == "999px"
    )
