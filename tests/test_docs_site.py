"""The documentation as readers meet it: the site that `make docs` builds, on a server and in a folder, in headless Chromium."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

import pytest

from tests.catalogue.conftest import Browser, shared_browser, start_browser  # noqa: F401 (fixtures)
from tests.catalogue.test_browser import AXE, eventually, one, texts
from tfaot_pkg._version import __version__
from tfaot_pkg.ground.process import run
from tools.make_docs import write_versions

pytestmark = [pytest.mark.slow, pytest.mark.release, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[1]
# The page that most readers begin with, one of each other kind, and the one with the widest tables.
PAGES = ("index.html", "tutorial.html", "how-to/from-onnx.html", "reference/spec.html", "architecture.html")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    run(["make", "docs"], cwd=ROOT, timeout=500)
    with served(ROOT / "build" / "site") as url:
        yield url


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


@pytest.fixture(scope="module")
def two_versions(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site in a folder, with an older version that lacks the page `how-to/bench.html`."""
    site = tmp_path_factory.mktemp("a folder & more") / "site"
    shutil.copytree(ROOT / "build" / "site" / __version__, site / __version__)
    shutil.copytree(site / __version__, site / "0.0.9")
    (site / "0.0.9" / "how-to" / "bench.html").unlink()
    write_versions(site)
    return site


@pytest.fixture(scope="module", params=["folder", "server"])
def place(request: pytest.FixtureRequest, two_versions: Path) -> Iterator[str]:
    """The address of both versions, in a folder and on a server."""
    if request.param == "folder":
        yield f"{two_versions.as_uri()}/"
    else:
        with served(two_versions) as url:
            yield url


def versions_of(browser: Browser) -> dict[str, str]:
    script = "return [...document.querySelectorAll('.md-version__link')].map((link) => [link.textContent, link.href])"
    eventually(lambda: bool(browser.driver.execute_script(script)))
    return dict(browser.driver.execute_script(script))


def test_search_works_in_a_folder_too(browser: Browser, place: str) -> None:
    title = "Mirror a registry, and cross an air gap"
    browser.open(f"{place}{__version__}/how-to/bench.html")
    one(browser, "input.md-search__input").send_keys("air gap mirror")
    eventually(lambda: title in texts(browser, ".md-search-result__article h1"), seconds=20)
    browser.screenshot(f"docs-search-{place.partition(':')[0]}")
    one(browser, ".md-search-result__link[href*='mirror-a-registry']").click()
    eventually(lambda: title in browser.driver.title)
    assert browser.faults(place) == []


def test_the_header_leads_to_the_same_page_of_another_version(browser: Browser, place: str) -> None:
    browser.open(f"{place}{__version__}/how-to/bench.html")
    assert versions_of(browser) == {
        __version__: f"{place}{__version__}/how-to/bench.html",
        "0.0.9": f"{place}0.0.9/index.html",
    }
    browser.open(f"{place}{__version__}/reference/spec.html")
    assert versions_of(browser)["0.0.9"] == f"{place}0.0.9/reference/spec.html"
    one(browser, ".md-version__current").click()
    eventually(lambda: texts(browser, ".md-version__link") == [__version__, "0.0.9"])
    browser.screenshot(f"docs-versions-{place.partition(':')[0]}")
    one(browser, ".md-version__link[href*='0.0.9']").click()
    eventually(lambda: browser.driver.current_url == f"{place}0.0.9/reference/spec.html")
    assert browser.faults(place) == []


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


def test_a_tab_of_the_first_page_shows_one_framework(browser: Browser) -> None:
    titles = texts(browser, ".tabbed-labels > label")
    assert titles[:2] == ["PyTorch", "Keras"] and "XGBoost" in titles
    shown = "article .tabbed-content pre"
    assert len(texts(browser, shown)) == 1 and "tagger.aten" in texts(browser, shown)[0]
    one(browser, f".tabbed-labels > label:nth-child({titles.index('XGBoost') + 1})").click()
    eventually(lambda: ["tagger.json" in text for text in texts(browser, shown)] == [True])
    browser.size(360, 740)
    browser.screenshot("docs-first-page-telephone")
