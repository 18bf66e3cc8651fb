"""A catalogue on the real server, in a real browser: Debian's Chromium, headless, with an empty profile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from tests.catalogue.registries import small_registry
from tests.server.conftest import REPOSITORY, tfaot_server
from tfaot_pkg.catalogue.render import FOLDER, render
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.spec.rules import package_name

ARTIFACTS = REPOSITORY / "artifacts" / "catalogue"
"""Screenshots, to be looked at; CI keeps them."""

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-default-apps --disable-extensions --hide-scrollbars "
    "--disable-component-extensions-with-background-pages --disable-domain-reliability --no-pings "
    "--no-default-browser-check --disable-search-engine-choice-screen --metrics-recording-only"
).split()
"""Without traffic of the browser's own, as far as it lets itself be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A registry with its catalogue on a server; `url` is the catalogue's."""

    registry: FolderRegistry
    url: str

    def page(self, model: str) -> str:
        return f"{self.url}packages/{package_name(model)}/index.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """A browser; `faults` is what it complained about, and which requests went wrong or elsewhere, since the last time."""

    driver: WebDriver

    def open(self, url: str) -> None:
        """Open `url` and wait until it is loaded: on a slow machine, `get` may return while the page before still stands."""
        self.driver.get(url)
        WebDriverWait(self.driver, 60).until(
            lambda driver: driver.execute_script(
                "return document.readyState === 'complete' && location.href === arguments[0]", url
            ),
            f"the browser did not get to {url}",
        )

    def size(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def scheme(self, scheme: str) -> None:
        """Dark or light."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def command(self, name: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def screenshot(self, name: str) -> Path:
        """The whole page, in artifacts/."""
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTIFACTS / f"{name}.png"
        width, height = self.driver.execute_script(
            "return [document.documentElement.clientWidth, document.documentElement.scrollHeight]"
        )
        self.size(width, min(height, 6000))
        self.driver.save_screenshot(str(path))
        return path

    def faults(self, origin: str) -> list[str]:
        """Complaints since the last call about pages below `origin`, or about any page if it is empty."""
        said = [entry["message"] for entry in self.driver.get_log("browser") if origin in entry["message"]]  # type: ignore[attr-defined]
        left = [] if self.driver.current_url.startswith(origin) else [f"the page went to {self.driver.current_url}"]
        return said + left + requests_at_fault(self.driver.get_log("performance"), origin)  # type: ignore[attr-defined]


def requests_at_fault(log: Sequence[dict[str, str]], origin: str) -> list[str]:
    """Requests that pages below `origin` made and that went elsewhere or failed, from Chromium's log of the network.

    The browser's own requests (its start page, updates, ...) stand in the same log and are not counted: which there are
    depends on its version.
    """
    ours, faults = set[str](), list[str]()
    for entry in log:
        message = json.loads(entry["message"])["message"]
        parameters = message["params"]
        request = parameters.get("requestId")
        if message["method"] == "Network.requestWillBeSent":
            if _is_asked_by(parameters, origin):
                ours.add(request)
                url = parameters["request"]["url"]
                if not url.startswith((origin, "data:", "chrome", "about:")):
                    faults.append(f"a request to {url}")
        elif request not in ours:
            continue
        elif message["method"] == "Network.responseReceived" and parameters["response"]["status"] >= 400:
            faults.append(f"{parameters['response']['status']} for {parameters['response']['url']}")
        elif message["method"] == "Network.loadingFailed" and not parameters.get("canceled"):
            faults.append(f"failed: {parameters}")
    return faults


def _is_asked_by(parameters: dict[str, Any], origin: str) -> bool:
    """Whether a page below `origin`, or whoever opened that page, made the request."""
    headers = {name.lower(): value for name, value in parameters["request"]["headers"].items()}
    return (
        parameters["documentURL"].startswith(origin)
        or headers.get("referer", "").startswith(origin)
        or origin in json.dumps(parameters["initiator"])
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The small registry (registries.py), rendered and served. Read only."""
    root = tmp_path_factory.mktemp("served") / "registry"
    registry = small_registry(root)
    render(registry, root / FOLDER)
    with tfaot_server(root) as (_, url):
        yield Served(registry=registry, url=f"{url}{FOLDER}/")


@pytest.fixture(scope="module")
def start_browser(
    tmp_path_factory: pytest.TempPathFactory, require_program: Callable[[str], str]
) -> Iterator[Callable[..., Browser]]:
    """`start_browser(javascript=False)`; all end with the module."""
    binary, driver = require_program("chromium"), require_program("chromedriver")
    started: list[WebDriver] = []

    def start(*, javascript: bool = True) -> Browser:
        profile = tmp_path_factory.mktemp("profile")
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        if not javascript:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        started.append(webdriver.Chrome(options=options, service=Service(driver)))
        made = Browser(driver=started[-1])
        made.size(1280, 900)
        return made

    yield start
    for one in started:
        one.quit()


@pytest.fixture(scope="module")
def shared_browser(start_browser: Callable[..., Browser]) -> Browser:
    return start_browser()


@pytest.fixture
def browser(shared_browser: Browser, served: Served) -> Browser:
    """The browser on the catalogue's front page: light, wide, nothing logged."""
    shared_browser.size(1280, 900)
    shared_browser.scheme("light")
    shared_browser.open(served.url)
    shared_browser.faults("")
    return shared_browser
