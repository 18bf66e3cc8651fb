"""The catalogue as people meet it."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.version import Version
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from tests.catalogue.conftest import Browser, Served
from tests.catalogue.registries import HOSTILE, entry_of, publish
from tests.server.conftest import nginx_program, nginx_server, tfaot_server
from tfaot_pkg.catalogue.render import FOLDER, render
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = pytest.mark.slow

AXE = (
    "const done = arguments[arguments.length - 1]; axe.run().then((r) => done(r.violations), (e) => done([String(e)]))"
)


def one(browser: Browser, selector: str) -> WebElement:
    return browser.driver.find_element(By.CSS_SELECTOR, selector)


def texts(browser: Browser, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].filter((e) => e.offsetParent).map((e) => e.innerText)"
    found = browser.driver.execute_script(script, selector)
    assert isinstance(found, list)
    return found


def eventually(condition: Callable[[], bool], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def results_become(browser: Browser, wanted: list[str]) -> None:
    def are() -> bool:
        return texts(browser, "#found .row-name") == wanted and "…" not in one(browser, "#status").text

    try:
        eventually(are)
    except AssertionError:
        assert texts(browser, "#found .row-name") == wanted, one(browser, "#status").text
        raise


def focused(browser: Browser) -> WebElement:
    return browser.driver.switch_to.active_element


def test_typing_finds_packages_by_beginnings_of_words(browser: Browser, served: Served) -> None:
    field = one(browser, "#q")
    field.send_keys("handwr dig")
    results_become(browser, ["digits"])
    assert one(browser, "#status").text == "1 package found."
    field.clear()
    field.send_keys("muons")
    results_become(browser, ["muon_filter2"])
    assert browser.faults(served.url) == []


_MISTAKES = ("moun", "imagse", "digts", "chemcial", "xgbost", "elctron")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("muon", ["muon_filter2"]),
        ("moun", ["muon_filter2"]),
        ("taging jet", ["jet_tagger"]),
        ("digit", ["digits"]),
        ("imagse", ["digits"]),
        ("lstm", ["jet_tagger"]),
        ("onnx physics", ["jet_tagger"]),
        ("8x8 chemical", ["wine"]),
        ("1x8x8 chemical", ["wine"]),
        ("digts", ["digits"]),
        ("chemcial", ["wine"]),
        ("pytorch", ["jet_tagger"]),
        ("xgbost", ["signal"]),
        ("boosted tree", ["signal"]),
        ("elctron", ["signal"]),
    ],
)
def test_forms_of_words_small_mistakes_shapes_and_layers_find_packages(
    browser: Browser, served: Served, typed: str, found: list[str]
) -> None:
    one(browser, "#q").send_keys(typed)
    results_become(browser, found)
    assert ("Searched for" in one(browser, "#status").text) == (typed in _MISTAKES)
    assert browser.faults(served.url) == []


def test_the_address_of_a_registry_leads_to_its_catalogue(browser: Browser, served: Served) -> None:
    browser.driver.get(served.url.removesuffix(f"{FOLDER}/"))
    eventually(lambda: browser.driver.current_url == served.url)
    Select(one(browser, "#filter-framework")).select_by_value("ONNX")
    results_become(browser, ["jet_tagger"])


def test_what_nothing_holds_is_said_to_be_not_there(browser: Browser) -> None:
    one(browser, "#q").send_keys("zebra")
    results_become(browser, [])
    eventually(lambda: one(browser, "#status").text == "Nothing found.")


def test_where_only_yanked_or_deprecated_packages_fit_they_are_a_click_away(browser: Browser, served: Served) -> None:
    one(browser, "#q").send_keys("track")
    said = "Only deprecated or yanked packages were found: 1 package."
    eventually(lambda: one(browser, "#status").text == said)
    results_become(browser, [])
    one(browser, "#show-old").click()
    results_become(browser, ["vertex"])
    assert one(browser, "#status").text == "1 package found." and not one(browser, "#show-old").is_displayed()
    assert focused(browser).text == "vertex" and one(browser, "#filter-old").is_selected()
    assert browser.faults(served.url) == []


def test_filters_narrow_the_list_with_and_without_words(browser: Browser, served: Served) -> None:
    Select(one(browser, "#filter-license")).select_by_value("MIT")
    results_become(browser, ["digits", "wine"])
    one(browser, "#q").send_keys("chemical")
    results_become(browser, ["wine"])
    one(browser, "#q").clear()
    Select(one(browser, "#filter-license")).select_by_value("")
    Select(one(browser, "#filter-target")).select_by_value("aarch64")
    results_become(browser, ["jet_tagger"])
    assert browser.faults(served.url) == []


def test_deprecated_and_yanked_packages_are_shown_when_asked_for(browser: Browser) -> None:
    one(browser, "#q").send_keys("muons")
    one(browser, "#filter-old").click()
    results_become(browser, ["muon_filter", "muon_filter2"])
    assert "deprecated" in one(browser, "#found").text


def test_a_search_has_an_address_of_its_own(browser: Browser, served: Served) -> None:
    one(browser, "#q").send_keys("wine")
    results_become(browser, ["wine"])
    address = browser.driver.current_url
    assert address.endswith("?q=wine")
    browser.open(served.page("digits"))
    browser.open(address)
    results_become(browser, ["wine"])


def test_emptying_the_field_brings_the_front_page_back(browser: Browser) -> None:
    before = texts(browser, "#browse .row-name")
    one(browser, "#q").send_keys("wine")
    results_become(browser, ["wine"])
    assert texts(browser, "#browse .row-name") == []
    one(browser, "#q").send_keys(Keys.ESCAPE)
    eventually(lambda: texts(browser, "#browse .row-name") == before)


def test_the_keyboard_is_enough(browser: Browser, served: Served) -> None:
    body = one(browser, "body")
    body.send_keys(Keys.TAB)
    assert focused(browser).text == "Skip to content"
    body.send_keys("/")
    assert focused(browser).get_attribute("id") == "q"
    focused(browser).send_keys("digits")
    results_become(browser, ["digits"])
    focused(browser).send_keys(Keys.ARROW_DOWN)
    assert focused(browser).text == "digits"
    focused(browser).send_keys(Keys.ENTER)
    eventually(lambda: browser.driver.current_url == served.page("digits"))
    while focused(browser).get_attribute("class") != "copy":
        focused(browser).send_keys(Keys.TAB)
    focused(browser).send_keys(Keys.ENTER)
    eventually(lambda: focused(browser).text.startswith("Copied"))


def test_the_copy_button_copies_what_stands_under_it(browser: Browser, served: Served) -> None:
    browser.open(served.page("digits"))
    origin = served.url.rsplit("/", 2)[0]
    browser.command("Browser.grantPermissions", permissions=["clipboardReadWrite"], origin=origin)
    browser.driver.execute_script(
        "document.querySelectorAll('details.snippet').forEach((each) => { each.open = true; })"
    )
    for name in ("install", "cpp", "cmake", "require", "conan", "pkgconfig", "scram", "python", "c"):
        button = one(browser, f"[data-copy=code-{name}]")
        button.click()
        eventually(lambda button=button: button.text.startswith("Copied"))  # type: ignore[misc]
        copied = browser.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        assert copied == one(browser, f"#code-{name}").get_attribute("textContent")
    assert browser.faults(served.url) == []


@pytest.mark.parametrize("model", ["digits", "evil", "vertex", "muon_filter", "wine"])
def test_a_page_loads_without_complaint_and_runs_nothing_of_a_publisher(
    browser: Browser, served: Served, model: str
) -> None:
    browser.open(served.page(model))
    assert texts(browser, "h1")[0].startswith(model)
    assert browser.driver.execute_script("return window.hacked") is None
    assert browser.faults(served.url) == []


def test_hostile_descriptions_are_text_in_results_too(browser: Browser, served: Served) -> None:
    one(browser, "#q").send_keys("hacked")
    results_become(browser, ["evil"])
    assert "<script>" in one(browser, "#found .row-text").text
    assert browser.driver.execute_script("return window.hacked") is None
    assert browser.faults(served.url) == []


def test_every_link_of_the_site_leads_somewhere(browser: Browser, served: Served) -> None:
    waiting, seen = [served.url], set[str]()
    while waiting:
        page = waiting.pop()
        browser.open(page)
        script = "return [...document.querySelectorAll('a[href]')].map((a) => [a.href.split('#')[0], a.download])"
        for address, download in browser.driver.execute_script(script):
            if address not in seen and address.startswith(served.url.rsplit("/", 2)[0]):
                seen.add(address)
                status = browser.driver.execute_async_script(
                    "fetch(arguments[0], {method: 'HEAD'}).then((a) => arguments[1](a.status))", address
                )
                assert status == 200, f"{address} on {page}"
                if not download:
                    waiting.append(address)
    packages = served.registry.names()
    newest = (max(served.registry.entries(name), key=lambda entry: Version(entry.version)) for name in packages)
    blobs = {blob.sha256 for entry in newest for blob in entry.blobs.values()}
    assert {address.split("sha256/")[1].replace("/", "") for address in seen if "/blobs/" in address} == blobs
    older = {f"{served.url}packages/tfaot-model-digits/{version}/index.html" for version in ("1.0.0", "1.0.1")}
    assert {address for address in seen if "/packages/" in address} == {
        *(f"{served.url}packages/{name}/index.html" for name in packages),
        *older,
    }


def test_without_javascript_all_can_be_read(start_browser: Callable[..., Browser], served: Served) -> None:
    browser = start_browser(javascript=False)
    browser.open(served.url)
    assert not one(browser, "#search").is_displayed()
    assert "Search needs JavaScript" in one(browser, "main").text
    browser.screenshot("home-without-javascript")
    one(browser, "noscript a").click()
    assert "digits" in texts(browser, ".row-name")
    browser.driver.find_element(By.LINK_TEXT, "digits").click()
    assert "find_package(tfaot-model-digits 1.1 REQUIRED)" in one(browser, "main").text
    assert texts(browser, ".copy") == []
    assert browser.faults(served.url) == []


def test_nginx_serves_it_as_well(
    browser: Browser, served: Served, tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    with nginx_server(nginx_program(require_program), served.registry.root, tmp_path) as port:
        origin = f"http://127.0.0.1:{port}/"
        browser.open(f"{origin}{FOLDER}/?q=handwr")
        results_become(browser, ["digits"])
        one(browser, "#found .row-name").click()
        eventually(lambda: texts(browser, "h1") == ["digits 1.1.0"])
        assert browser.faults(origin) == []


@pytest.mark.sweep("-light", "digits-dark")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["", "?q=muon&old=1", "list/l.html", "digits", "evil", "muon_filter", "vertex"])
def test_axe_finds_no_fault_and_the_page_is_kept_as_a_picture(
    browser: Browser, served: Served, page: str, scheme: str
) -> None:
    browser.scheme(scheme)
    browser.open(served.page(page) if page.replace("_", "").isalpha() else served.url + page)
    if page.startswith("?"):
        results_become(browser, ["muon_filter", "muon_filter2"])
    name = {"": "home", "?q=muon&old=1": "search", "list/l.html": "list"}.get(page, page)
    browser.screenshot(f"{name}-{scheme}")
    browser.driver.execute_script((files("axe_core_python") / "axe.min.js").read_text())
    violations = browser.driver.execute_async_script(AXE)
    assert [(v["id"], [node["html"] for node in v["nodes"]]) for v in violations] == []


@pytest.mark.sweep("digits")
@pytest.mark.parametrize("page", ["", "digits", "evil"])
def test_a_telephone_shows_the_page_without_scrolling_sideways(browser: Browser, served: Served, page: str) -> None:
    browser.size(360, 740)
    browser.open(served.page(page) if page else served.url)
    browser.driver.execute_script(
        "document.querySelectorAll('details.snippet').forEach((each) => { each.open = true; })"
    )
    width = browser.driver.execute_script("return document.documentElement.scrollWidth")
    # What is pasted is seen before: no line of it ends outside of its block, and no button covers one.
    cut_off = browser.driver.execute_script(
        "return [...document.querySelectorAll('.snippet pre')].filter((e) => e.scrollWidth > e.clientWidth).length"
    )
    browser.screenshot(f"{page or 'home'}-narrow")
    assert width <= 360 and cut_off == 0
    assert out_of_sight(browser) == []


def out_of_sight(browser: Browser) -> list[str]:
    """Cells of tables of things (versions, tasks) that one has to scroll to sideways."""
    found = browser.driver.execute_script(
        "return [...document.querySelectorAll('.stack :is(th, td)')]"
        ".filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.textContent)"
    )
    assert isinstance(found, list)
    return found


def blocks_document() -> dict[str, object]:
    """Two towers; one has a recurrent layer of which a publisher chose the words."""
    parts = [{"name": "while", "op": "Loop", "dtype": "int32", "shape": [], "inside": False},
             {"name": HOSTILE, "op": "MatMul", "dtype": "", "shape": None, "inside": True}]  # fmt: skip
    nodes = [{"name": "a", "op": "input", "kind": "input", "inputs": []}, {"name": "b", "op": "input", "kind": "input", "inputs": []},
             {"name": "model/gru", "op": "GRU", "kind": "operation", "members": 4, "inputs": [0], "parts": parts}]  # fmt: skip
    for source in (2, 1, 4):
        nodes.append({"name": f"tanh_{source}", "op": "Tanh", "kind": "operation", "inputs": [source]})
    nodes.append({"name": "y", "op": "output", "kind": "output", "inputs": [3, 5]})
    return {"format": 1, "nodes": nodes}


def test_a_graph_is_enlarged_and_its_blocks_are_opened_by_keyboard_and_without_javascript(
    browser: Browser, start_browser: Callable[..., Browser], tmp_path: Path
) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, entry_of("tagger"), graph=blocks_document())
    render(registry, registry.root / FOLDER)
    with tfaot_server(registry.root) as (_, url):
        page = f"{url}{FOLDER}/packages/tfaot-model-tagger/index.html"
        for each in (browser, start_browser(javascript=False)):
            each.open(page)
            assert "Tower of a: 5 operations. Tower of b: 2 operations." in one(each, "main").text
            assert not one(each, "#block-3").is_displayed()
            one(each, ".graph").send_keys(Keys.TAB)
            assert focused(each).get_dom_attribute("href") == "#block-3"
            focused(each).send_keys(Keys.ENTER)
            eventually(one(each, "#block-3").is_displayed)
            assert HOSTILE[:40] in one(each, "#block-3 .inside").text
        assert not one(each, "[data-zoom]").is_displayed()
        each.screenshot("graph-without-javascript")
        width = float(one(browser, ".graph svg").get_attribute("width") or 0)
        one(browser, "[data-by='1.25']").click()
        assert float(one(browser, ".graph svg").get_attribute("width") or 0) == width * 1.25
        one(browser, ".graph").send_keys("--")
        assert one(browser, ".zoom [role=status]").text == "80 %"
        one(browser, "[data-by='fit']").click()
        fits = "const f = document.querySelector('.graph'); return f.scrollWidth <= f.clientWidth && f.scrollHeight <= f.clientHeight"
        assert browser.driver.execute_script(fits)
        browser.driver.execute_script((files("axe_core_python") / "axe.min.js").read_text())
        assert browser.driver.execute_async_script(AXE) == []
        browser.size(360, 740)
        assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 360
        browser.screenshot("graph-phone")
        assert browser.faults(url) == []
