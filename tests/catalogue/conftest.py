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

from tests.catalogue.registries import small_registry
from tests.server.conftest import REPOSITORY, tfaot_server
from tfaot_pkg.catalogue.render import FOLDER, render
from tfaot_pkg.registry.folder import FolderRegistry

ARTIFACTS = REPOSITORY / "artifacts" / "catalogue"
"""Screenshots, to be looked at; CI keeps them."""

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-default-apps --disable-extensions --hide-scrollbars"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A registry with its catalogue on a server; `url` is the catalogue's."""

    registry: FolderRegistry
    url: str

    def page(self, model: str) -> str:
        return f"{self.url}packages/tfaot-model-{model}/index.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """A browser; `faults` is what it complained about, and which requests went wrong or elsewhere, since the last time."""

    driver: WebDriver

    def open(self, url: str) -> None:
        self.driver.get(url)

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
        said = [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[attr-defined]
        return said + list(_requests_at_fault(self.driver.get_log("performance"), origin))  # type: ignore[attr-defined]


def _requests_at_fault(log: Sequence[dict[str, str]], origin: str) -> Iterator[str]:
    for entry in log:
        message = json.loads(entry["message"])["message"]
        parameters = message["params"]
        if message["method"] == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith((origin, "data:", "chrome", "about:")):
                yield f"a request to {url}"
        elif message["method"] == "Network.responseReceived" and parameters["response"]["status"] >= 400:
            yield f"{parameters['response']['status']} for {parameters['response']['url']}"
        elif message["method"] == "Network.loadingFailed" and not parameters.get("canceled"):
            yield f"failed: {parameters}"


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
