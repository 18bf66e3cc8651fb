"""`tfaot-pkg serve` as a process: its address, its log, its end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.conftest import BLOB, DIGEST, REPOSITORY, make_folder, tfaot_server
from tests.wording import worded

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_folder(tmp_path / "registry")
    return tmp_path / "registry"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tfaot_pkg", "serve", *map(str, arguments)]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_is_the_normal_end(root: Path, number: int) -> None:
    with tfaot_server(root) as (process, _):
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.stdout is not None
        assert process.stdout.read() == "stopped\n"


def test_a_transfer_under_way_is_finished_before_the_end(root: Path) -> None:
    big = os.urandom(8 << 20)
    (root / "blobs/sha256/ff").mkdir()
    (root / "blobs/sha256/ff/big").write_bytes(big)
    with tfaot_server(root) as (process, url):
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=20)
        connection.request("GET", "/blobs/sha256/ff/big")
        response = connection.getresponse()
        start = response.read(1000)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None
        assert start + response.read() == big
        connection.close()
        assert process.wait(10) == 0


def test_a_line_per_request_is_written_to_standard_error(root: Path) -> None:
    with tfaot_server(root) as (_, url):
        urllib.request.urlopen(url + "config.json").close()
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=10)
        connection.request("GET", "/x%0d%0aforged")
        connection.getresponse().read()
        connection.close()
    lines = (root.parent / "serve.log").read_text().splitlines()
    assert re.fullmatch(r"\d{4}-\S+ 127\.0\.0\.1:\d+ - \"GET /config\.json HTTP/1\.1\" 200", lines[0])
    assert len(lines) == 2 and "404" in lines[1], "a name cannot write a line of its own"


def test_the_address_is_printed_as_json_where_that_is_asked_for(root: Path) -> None:
    with tfaot_server(root, "--json") as (process, url):
        assert urllib.request.urlopen(url + "config.json").read() == (root / "config.json").read_bytes()
        process.send_signal(signal.SIGINT)
        process.wait(10)
        assert process.stdout is not None and process.stdout.read() == ""


def test_what_is_no_registry_is_not_served(tmp_path: Path) -> None:
    done = run(tmp_path, "--port", "0")
    assert done.returncode == 16
    worded(done.stderr)


def test_a_port_that_is_taken_is_said_to_be(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(root, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 17
    worded(done.stderr, varies=r"Address already in use.*")


def test_an_address_of_another_machine_is_said_to_be_impossible(root: Path) -> None:
    done = run(root, "--host", "192.0.2.1", "--port", "0", "--json")
    assert done.returncode == 17
    assert json.loads(done.stdout)["error"]["kind"] == "network"


def test_readers_see_whole_files_while_they_are_replaced(root: Path) -> None:
    stop = threading.Event()
    bodies = [json.dumps({"n": str(n) * 1000}).encode() for n in range(10)]

    def replace() -> None:
        number = 0
        while not stop.wait(0.0005):  # a loop without a pause leaves little of Python to the reader
            (root / ".new.part").write_bytes(bodies[number % 10][: -1 - number % 3] + b"}" * (1 + number % 3))
            (root / ".new.part").replace(root / "config.json")
            number += 1

    whole = {body[: -1 - n] + b"}" * (1 + n) for body in bodies for n in range(3)}
    with tfaot_server(root) as (_, url):
        thread = threading.Thread(target=replace)
        thread.start()
        try:
            connection = http.client.HTTPConnection(url.split("/")[2], timeout=10)
            for _ in range(200):
                connection.request("GET", "/config.json")
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status == 200 and body in whole
            connection.close()
        finally:
            stop.set()
            thread.join()


def test_many_readers_at_once(root: Path) -> None:
    path = f"blobs/sha256/{DIGEST[:2]}/{DIGEST[2:]}"
    wrong: list[int] = []
    with tfaot_server(root) as (_, url):

        def read() -> None:
            for _ in range(5):
                if urllib.request.urlopen(url + path).read() != BLOB:
                    wrong.append(1)

        threads = [threading.Thread(target=read) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_nothing_is_written_into_the_folder(root: Path, snapshot: Callable[[Path], dict[str, bytes | str]]) -> None:
    before = snapshot(root)
    with tfaot_server(root) as (_, url):
        urllib.request.urlopen(url).close()
    assert snapshot(root) == before
