from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.remote.faulty import Clocks, drop_by_drop
from tests.source.parts import Packed, Server, answer, complete_entries, member, tar
from tests.wording import reported
from tfaot_pkg.errors import NetworkError, SourceError, StorageError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.http.failure import Unreachable
from tfaot_pkg.ground.http.site import Patience
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.spec.source.archive import fetch_archive
from tfaot_pkg.spec.source.download import download

QUICK = Patience(retries=2, backoff=0.01)


def fetched(url: str, sha256: str, folders: Folders) -> Path:
    return fetch_archive(url, sha256, folders=folders, progress=Silent())


def downloaded(url: str, packed: Packed, into: Path, **options: object) -> None:
    settings = {"patience": QUICK, **options}
    download(url, packed.sha256, into, progress=Silent(), **settings)  # type: ignore[arg-type]


def test_an_archive_is_downloaded_once_and_unpacked_once(
    server: Server, folders: Folders, model_archive: Packed
) -> None:
    url = server.gives("/model.tar.gz", model_archive.path.read_bytes())
    tree = fetched(url, model_archive.sha256, folders)
    server.routes.clear()
    assert fetched(url, model_archive.sha256, folders) == tree
    assert fetched("https://elsewhere.invalid/model", model_archive.sha256.upper(), folders) == tree
    assert (tree / "model" / "variables" / "variables.index").read_bytes() == b"index"
    assert server.seen == ["/model.tar.gz"]


def test_a_file_address_works_without_network(folders: Folders, model_archive: Packed) -> None:
    tree = fetched(model_archive.url, model_archive.sha256, folders)
    model_archive.path.unlink()
    assert fetched(model_archive.url, model_archive.sha256, folders) == tree


def test_a_wrong_checksum_names_both_and_leaves_nothing(
    server: Server, folders: Folders, model_archive: Packed
) -> None:
    url = server.gives("/model.tar.gz", model_archive.path.read_bytes())
    for address in (url, model_archive.url):
        with reported(SourceError):
            fetched(address, "0" * 64, folders)
    assert complete_entries(folders) == []


@pytest.mark.parametrize("sha256", ["", "../../x", "0" * 63, "g" * 64])
def test_what_is_no_checksum_is_refused(folders: Folders, model_archive: Packed, sha256: str) -> None:
    with reported(SourceError):
        fetched(model_archive.url, sha256, folders)


@pytest.mark.parametrize(
    "url", ["http://host/a", "ftp://host/a", "HTTP://host/a", "data:,x", "/a/b", "git+https://host/a"]
)
def test_other_protocols_are_refused(folders: Folders, url: str) -> None:
    with reported(SourceError):
        fetched(url, "0" * 64, folders)


def test_a_hostile_archive_leaves_no_tree(folders: Folders, tmp_path: Path) -> None:
    packed = tar(tmp_path / "a", member("good", b"1"), member("../bad", b"2"))
    with reported(SourceError):
        fetched(packed.url, packed.sha256, folders)
    assert complete_entries(folders) == [packed.sha256]
    assert not (folders.downloads / "archive-trees" / packed.sha256[:2] / packed.sha256).exists()


def test_a_kept_archive_that_the_disk_damaged_is_downloaded_again(
    server: Server, folders: Folders, model_archive: Packed
) -> None:
    url = server.gives("/a", model_archive.path.read_bytes())
    kept = folders.downloads / "archives" / model_archive.sha256[:2] / model_archive.sha256
    kept.mkdir(parents=True)
    (kept / "archive").write_bytes(b"damaged")
    assert (fetched(url, model_archive.sha256, folders) / "model").is_dir()


def test_a_server_that_fails_twice_is_asked_again(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    def route(request: http.server.BaseHTTPRequestHandler) -> None:
        good = len(server.seen) == 3
        answer(request, 200 if good else 500, model_archive.path.read_bytes() if good else b"")

    server.routes["/a"] = route
    downloaded(server.base + "/a", model_archive, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == model_archive.path.read_bytes()


@pytest.mark.parametrize(("code", "asked"), [(404, 1), (403, 1), (500, 3)])
def test_an_error_of_the_server_is_named(
    server: Server, model_archive: Packed, tmp_path: Path, code: int, asked: int
) -> None:
    server.routes["/a"] = lambda request: answer(request, code)
    with reported(NetworkError):
        downloaded(server.base + "/a", model_archive, tmp_path / "got")
    assert len(server.seen) == asked


def truncated(request: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body[: len(body) // 2])


def test_a_body_that_breaks_off_once_is_fetched_again(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    body = model_archive.path.read_bytes()
    server.routes["/a"] = lambda request: (
        truncated(request, body) if len(server.seen) == 1 else answer(request, 200, body)
    )
    downloaded(server.base + "/a", model_archive, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == body


def test_a_body_that_always_breaks_off_is_an_error(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    server.routes["/a"] = lambda request: truncated(request, model_archive.path.read_bytes())
    with reported(NetworkError):
        downloaded(server.base + "/a", model_archive, tmp_path / "got")
    assert len(server.seen) == 3


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(
    server: Server, model_archive: Packed, tmp_path: Path
) -> None:
    body = model_archive.path.read_bytes()
    server.routes["/a"] = lambda request: ranged(request, body) if len(server.seen) > 1 else truncated(request, body)
    downloaded(server.base + "/a", model_archive, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == body
    assert [headers.get("Range") for headers in server.headers] == [None, f"bytes={len(body) // 2}-"]


def ranged(request: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
    """The rest of `body` that is asked for, without its whole size."""
    start = int(request.headers["Range"][6:-1])
    answer(request, 206, body[start:], Content_Range=f"bytes {start}-{len(body) - 1}/*")


def test_a_later_build_goes_on_where_an_earlier_one_stopped(
    server: Server, folders: Folders, model_archive: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFAOT_HTTP_RETRIES", "0")
    body = model_archive.path.read_bytes()
    server.routes["/a"] = lambda request: truncated(request, body)
    with reported(NetworkError):
        fetched(server.base + "/a", model_archive.sha256, folders)
    assert len(server.seen) == 1
    server.routes["/a"] = lambda request: ranged(request, body)
    assert (fetched(server.base + "/a", model_archive.sha256, folders) / "model").is_dir()


def test_a_rest_of_another_file_is_not_taken(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    body = model_archive.path.read_bytes()
    (tmp_path / "got").write_bytes(b"x" * 10)
    server.routes["/a"] = lambda r: ranged(r, body) if "Range" in r.headers else answer(r, 200, body)
    downloaded(server.base + "/a", model_archive, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == body
    assert len(server.seen) == 2


def test_the_users_patience_holds_for_sources(
    server: Server, folders: Folders, model_archive: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clocks(monkeypatch)
    monkeypatch.setenv("TFAOT_HTTP_TIMEOUT", "200")
    monkeypatch.setenv("TFAOT_HTTP_RETRIES", "1")
    body = model_archive.path.read_bytes()

    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        drop_by_drop(request, b"x", most=2 if len(server.seen) == 3 else None)
        request.wfile.write(f"\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    server.routes["/a"] = drip
    with reported(NetworkError):
        fetched(server.base + "/a", model_archive.sha256, folders)
    assert len(server.seen) == 2
    Clocks(monkeypatch)
    assert (fetched(server.base + "/a", model_archive.sha256, folders) / "model").is_dir(), "two minutes, of 200 s"


def test_an_endless_body_is_stopped_at_the_limit(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    def endless(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(bytes(65536))

    server.routes["/a"] = endless
    with reported(SourceError):
        downloaded(server.base + "/a", model_archive, tmp_path / "got", limit=1_000_000)
    assert not (tmp_path / "got").exists()


def test_an_announced_size_above_the_limit_is_refused_at_once(
    server: Server, model_archive: Packed, tmp_path: Path
) -> None:
    url = server.gives("/a", bytes(2000))
    with reported(SourceError):
        downloaded(url, model_archive, tmp_path / "got", limit=1000)
    assert not (tmp_path / "got").exists()


def test_a_server_that_says_nothing_is_given_up(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    done = threading.Event()

    def wait(_: http.server.BaseHTTPRequestHandler) -> None:
        done.wait(60)

    server.routes["/a"] = wait
    try:
        with reported(NetworkError, varies=r"in [\d.]+ s"):
            for silence in (0.1, 3, 30):
                try:
                    patience = Patience(silence=silence, retries=0)
                    downloaded(server.base + "/a", model_archive, tmp_path / "got", patience=patience)
                except Unreachable:  # a busy machine may need all of a short time to connect
                    continue
    finally:
        done.set()


def test_a_server_that_drips_byte_by_byte_is_given_up(
    server: Server, model_archive: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clocks(monkeypatch)

    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        drop_by_drop(request, b".")

    server.routes["/a"] = drip
    with reported(NetworkError, varies=r"\d+ bytes in [\d.]+ s"):
        downloaded(server.base + "/a", model_archive, tmp_path / "got", patience=Patience(retries=0))


def test_nobody_listening_is_an_error_without_the_token(model_archive: Packed, tmp_path: Path) -> None:
    with reported(NetworkError) as caught:
        downloaded(f"https://me:secret@127.0.0.1:{free_port()}/a?token=secret", model_archive, tmp_path / "got")
    assert "secret" not in repr(plain(caught.value))


def test_an_unknown_host_is_an_error(model_archive: Packed, tmp_path: Path) -> None:
    with reported(NetworkError):
        downloaded("https://no-such-host.invalid/a", model_archive, tmp_path / "got")


def test_an_unknown_certificate_is_refused(untrusted_server: Server, model_archive: Packed, tmp_path: Path) -> None:
    url = untrusted_server.gives("/a", model_archive.path.read_bytes())
    with reported(NetworkError):
        downloaded(url, model_archive, tmp_path / "got")
    assert untrusted_server.seen == []


def redirect(server: Server, path: str, target: str) -> str:
    server.routes[path] = lambda request: answer(request, 302, Location=target)
    return server.base + path


def test_a_redirect_to_https_is_followed(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    server.gives("/a", model_archive.path.read_bytes())
    downloaded(redirect(server, "/old", "/a"), model_archive, tmp_path / "got")
    assert server.seen == ["/old", "/a"]


def test_a_redirect_to_http_is_refused(
    server: Server, http_server: Server, model_archive: Packed, tmp_path: Path
) -> None:
    target = http_server.gives("/a", model_archive.path.read_bytes())
    with reported(NetworkError) as caught:
        downloaded(redirect(server, "/old", target + "?token=secret"), model_archive, tmp_path / "got")
    assert "secret" not in caught.value.message
    assert http_server.seen == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://host/a"])
def test_a_redirect_to_a_local_file_is_refused(
    server: Server, model_archive: Packed, tmp_path: Path, target: str
) -> None:
    with reported(NetworkError):
        downloaded(redirect(server, "/old", target), model_archive, tmp_path / "got")


def test_a_circle_of_redirects_ends(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    with reported(NetworkError):
        downloaded(redirect(server, "/a", "/a"), model_archive, tmp_path / "got")


def test_the_checksum_is_of_the_file_whatever_encoding_the_server_claims(
    server: Server, model_archive: Packed, tmp_path: Path
) -> None:
    url = server.gives("/a.tar.gz", model_archive.path.read_bytes(), Content_Encoding="gzip")
    downloaded(url, model_archive, tmp_path / "got")
    assert server.headers[0]["Accept-Encoding"] == "identity"


def test_the_password_of_netrc_is_sent(server: Server, model_archive: Packed, tmp_path: Path) -> None:
    netrc = Path(os.environ["HOME"]) / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    downloaded(server.gives("/a", model_archive.path.read_bytes()), model_archive, tmp_path / "got")
    assert server.headers[0]["Authorization"].startswith("Basic ")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_a_file_address_that_is_no_file_is_an_error(folders: Folders, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with reported(SourceError):
        fetched(path.as_uri(), "0" * 64, folders)


def test_a_downloads_folder_that_cannot_be_written_is_a_storage_error(tmp_path: Path, model_archive: Packed) -> None:
    (tmp_path / "cache").touch()  # a file where the folder should be
    with pytest.raises(StorageError):
        fetched(model_archive.url, model_archive.sha256, Folders(cache=tmp_path / "cache", data=tmp_path))


def test_several_at_once_download_once(server: Server, folders: Folders, model_archive: Packed) -> None:
    url = server.gives("/a", model_archive.path.read_bytes())
    trees: list[Path] = []
    threads = [
        threading.Thread(target=lambda: trees.append(fetched(url, model_archive.sha256, folders))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(trees)) == 1 and len(trees) == 4
    assert server.seen == ["/a"]


_FETCH = """
import sys
from pathlib import Path
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.spec.source.archive import fetch_archive
root = Path(sys.argv[2])
fetch_archive(sys.argv[1], "0" * 64, folders=Folders(cache=root / "cache", data=root / "data"), progress=Silent())
"""


def test_ctrl_c_during_a_download_leaves_nothing(server: Server, folders: Folders, tmp_path: Path) -> None:
    begun = threading.Event()

    def slow(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(bytes(1000))
            begun.set()
            time.sleep(0.02)

    server.routes["/a"] = slow
    with subprocess.Popen(
        [sys.executable, "-c", _FETCH, server.base + "/a", str(tmp_path)], stderr=subprocess.PIPE
    ) as process:
        assert begun.wait(30)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in stderr
    assert complete_entries(folders) == []
