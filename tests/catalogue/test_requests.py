"""What the browser's tests count as a fault of a page: its own requests, never those that the browser makes by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.catalogue.conftest import Browser, requests_at_fault

ORIGIN = "http://127.0.0.1:1234/"


def sent(number: str, url: str, *, page: str, referer: str = "", initiator: str = "") -> dict[str, str]:
    parameters = {
        "requestId": number,
        "documentURL": page,
        "request": {"url": url, "headers": {"Referer": referer} if referer else {}},
        "initiator": {"type": "parser", "url": initiator} if initiator else {"type": "other"},
    }
    return _entry("Network.requestWillBeSent", parameters)


def failed(number: str) -> dict[str, str]:
    return _entry("Network.loadingFailed", {"requestId": number, "errorText": "net::ERR_NAME_NOT_RESOLVED"})


def answered(number: str, url: str, status: int) -> dict[str, str]:
    return _entry("Network.responseReceived", {"requestId": number, "response": {"url": url, "status": status}})


def _entry(method: str, parameters: Mapping[str, object]) -> dict[str, str]:
    return {"message": json.dumps({"message": {"method": method, "params": parameters}})}


def test_a_document_that_the_browser_asks_for_is_no_fault() -> None:
    start = "https://start.invalid/"
    assert requests_at_fault([sent("1", start, page=start), failed("1")], ORIGIN) == []
    assert requests_at_fault([failed("1")], ORIGIN) == []  # sent before the log began


@pytest.mark.parametrize(
    "how", [{"page": ORIGIN}, {"page": "", "referer": ORIGIN}, {"page": "", "initiator": ORIGIN + "a.html"}]
)
def test_a_request_of_a_page_to_elsewhere_is_a_fault(how: dict[str, str]) -> None:
    assert requests_at_fault([sent("1", "https://x.invalid/a.js", **how)], ORIGIN) == [
        "a request to https://x.invalid/a.js"
    ]


def test_what_a_page_asks_for_in_vain_is_a_fault() -> None:
    address = ORIGIN + "missing.css"
    log = [sent("1", address, page=ORIGIN), answered("1", address, 404), sent("2", ORIGIN, page=ORIGIN), failed("2")]
    assert [fault[:7] for fault in requests_at_fault(log, ORIGIN)] == ["404 for", "failed:"]


class _Pages(BaseHTTPRequestHandler):
    """A page that asks for a script elsewhere, for one that is missing, and logs an error."""

    def do_GET(self) -> None:
        found = self.path == "/"
        body = (
            b"<!doctype html><title>t</title><script src='http://elsewhere.invalid/a.js'></script>"
            b"<script src='missing.js'></script><script>console.error('our page complains')</script>"
        )
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body if found else b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it)
        pass


@pytest.mark.slow
def test_a_real_browser_tells_the_faults_of_a_page(start_browser: Callable[..., Browser], tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        origin = f"http://127.0.0.1:{server.server_port}/"
        browser = start_browser()
        browser.open(origin)
        faults = "\n".join(browser.faults(origin))
    finally:
        server.shutdown()
        server.server_close()
    assert "a request to http://elsewhere.invalid/a.js" in faults
    assert f"404 for {origin}missing.js" in faults
    assert "our page complains" in faults
    assert "failed:" in faults
