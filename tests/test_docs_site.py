"""The documentation as readers meet it: the site that `make docs` builds, on a server, in headless Chromium."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

import pytest

from tests.catalogue.conftest import Browser, shared_browser, start_browser  # noqa: F401 (fixtures)
from tests.catalogue.test_browser import AXE, eventually, one, texts
from tfaot_pkg._version import __version__
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.release, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[1]
# The page that most readers begin with, one of each other kind, and the one with the widest tables.
PAGES = ("index.html", "tutorial.html", "how-to/from-onnx.html", "reference/spec.html", "architecture.html")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    run(["make", "docs"], cwd=ROOT, timeout=500)
    handler = partial(SimpleHTTPRequestHandler, directory=str(ROOT / "build" / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def browser(shared_browser: Browser, address: str) -> Browser:  # noqa: F811
    shared_browser.size(1280, 900)
    shared_browser.scheme("light")
    shared_browser.open(f"{address}{__version__}/index.html")
    shared_browser.faults("")
    return shared_browser


def test_the_front_page_leads_to_the_newest_version(browser: Browser, address: str) -> None:
    browser.driver.get(address)
    eventually(lambda: browser.driver.current_url == f"{address}{__version__}/index.html")
    assert texts(browser, "h1")


def test_search_finds_the_page_of_a_word(browser: Browser) -> None:
    one(browser, "input.md-search__input").send_keys("onnx")
    eventually(lambda: any("ONNX" in found for found in texts(browser, ".md-search-result__article h1")), seconds=20)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_loads_nothing_from_elsewhere_and_fits_a_telephone(browser: Browser, address: str, page: str) -> None:
    browser.open(f"{address}{__version__}/{page}")
    assert browser.faults(address) == []
    browser.size(360, 740)
    script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.driver.execute_script(script) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_visit_has_the_readers_colours_and_axe_finds_no_fault(
    start_browser: Callable[..., Browser],  # noqa: F811
    address: str,
    scheme: str,
) -> None:
    browser = start_browser()
    browser.scheme(scheme)
    browser.open(f"{address}{__version__}/tutorial.html")
    chosen = one(browser, "body").get_attribute("data-md-color-scheme")
    assert chosen == {"light": "default", "dark": "slate"}[scheme]
    browser.driver.execute_script((files("axe_core_python") / "axe.min.js").read_text())
    violations = browser.driver.execute_async_script(AXE)
    assert [(v["id"], [node["html"] for node in v["nodes"]][:3]) for v in violations if v["impact"] == "critical"] == []


def test_pages_can_be_read_without_javascript(start_browser: Callable[..., Browser], address: str) -> None:  # noqa: F811
    browser = start_browser(javascript=False)
    browser.driver.get(f"{address}{__version__}/tutorial.html")
    assert len(one(browser, "article").text) > 2000
