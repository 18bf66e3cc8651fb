"""Dependents, and downloads from access logs: of real servers, and of clients that try what they can."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.catalogue.registries import HOSTILE, entry_of, publish
from tests.server.conftest import nginx_program, nginx_server, tfaot_server
from tests.wording import reported
from tfaot_pkg.catalogue.downloads import downloads_of
from tfaot_pkg.catalogue.render import FOLDER, render, update
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.registry.files.layout import PREFIX, blob_path
from tfaot_pkg.registry.folder import FolderRegistry

BLOB, OTHER = "ab" * 32, "cd" * 32


def line(
    day: str, client: str, blob: str, *, status: int = 200, agent: str = "tfaot-pkg/0.2", method: str = "GET"
) -> str:
    return (
        f'{client} - - [{day}:10:00:00 +0000] "{method} /models/{blob_path(blob)} HTTP/1.1" {status} 10 "-" "{agent}"\n'
    )


def facts(site: Path, model: str) -> str:
    page = (site / f"packages/tfaot-model-{model}/index.html").read_text()
    text = re.sub(r"<[^>]*>", "", re.sub(r"</?d[dt]>", " ", page))
    return " ".join(text.split())


def test_ranges_count_once_and_robots_errors_and_lies_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    lines = [
        line("01/Oct/2026", "10.0.0.1", BLOB),  # 31 days before the last line
        line("02/Oct/2026", "10.0.0.1", BLOB),
        *[line("30/Oct/2026", "10.0.0.1", BLOB, status=206)] * 5,
        line("30/Oct/2026", "10.0.0.2", BLOB),
        line("31/Oct/2026", "10.0.0.1", BLOB),
        line("31/Oct/2026", "2001:db8::1", OTHER),
        line("31/Oct/2026", "10.0.0.3", BLOB, agent="Mozilla/5.0 (compatible; Examplebot/2.1)"),
        line("31/Oct/2026", "10.0.0.4", BLOB, method="HEAD"),
        line("31/Oct/2026", "10.0.0.5", BLOB, status=404),
        line("99/Oct/2026", "10.0.0.6", BLOB),
        line("31/Oct/2026", "10.0.0.7", BLOB + "0"),
        line("31/Oct/2026", "10.0.0.8", BLOB).replace("/models/", "/" + "x" * 9000),
        f'10.0.0.9 - - [31/Oct/2026:10:00:00 +0000] "\\x16\\x03" 400 0 "-" "-"\n{HOSTILE}\n\x00\xff\n',
        "31/Dec/2099\n",
    ]
    log.write_text("".join(lines))
    found = downloads_of([log])
    assert found.until == "2026-10-31" and found.blobs == {BLOB: 4, OTHER: 1}
    log.write_text("a list\nof wishes\n")
    with reported(RegistryError):
        downloads_of([log])


def test_pages_show_dependents_and_the_downloads_that_servers_logged(
    tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    for version in ("1.0.0", "1.1.0"):
        publish(registry, entry_of("digits", version))
    old, new = registry.entries("tfaot-model-digits")
    registry_of_old = blob_path(old.blobs[PREFIX].sha256)
    assert old.blobs == new.blobs, "the same archive: both versions count"
    publish(registry, entry_of("reader", dependencies=("tfaot-model-digits>=1", "no requirement at all")))
    logs = [tmp_path / "serve.log", tmp_path / "access.log"]
    with tfaot_server(registry.root) as (_, url):
        for _ in range(2):
            with urllib.request.urlopen(f"{url}{registry_of_old}") as answer:
                answer.read()
    with nginx_server(nginx_program(require_program), registry.root, tmp_path) as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{registry_of_old}", headers={"Range": "bytes=0-9"})
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 206 and len(answer.read()) == 10
    site = registry.root / FOLDER
    render(registry, site)
    assert "Downloads" not in facts(site, "digits") and "Needed by tfaot-model-reader" in facts(site, "digits")
    for log in logs:  # from the same address, on the same day
        render(registry, site, downloads=downloads_of([log]))
        assert re.search(r"of this version 1 Files", facts(site, "digits")), log.read_text()
    # Publications keep the downloads, and change the pages of what they need.
    publish(registry, entry_of("writer", dependencies=("digits",)))
    update(registry, site, "tfaot-model-writer")
    shown = facts(site, "digits")
    assert "Needed by tfaot-model-reader, tfaot-model-writer" in shown and "of this version 1 Files" in shown
    publish(registry, replace(entry_of("writer", "2.0.0"), dependencies=()))
    update(registry, site, "tfaot-model-writer")
    assert "Needed by tfaot-model-reader Downloads" in facts(site, "digits")
    whole = (site / "packages/tfaot-model-digits/index.html").read_bytes()
    render(registry, site)
    assert (site / "packages/tfaot-model-digits/index.html").read_bytes() == whole
