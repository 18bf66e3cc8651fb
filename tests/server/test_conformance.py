"""What any server of a registry must do: run against `tfaot-pkg serve` and against nginx with our configuration."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.server.conftest import BLOB, DIGEST, FILES, SECRETS, Server

FOREVER = "public, max-age=31536000, immutable"
BLOB_PATH = f"/blobs/sha256/{DIGEST[:2]}/{DIGEST[2:]}"


@pytest.mark.parametrize("path", FILES)
def test_every_file_of_the_registry_is_given_as_it_is(server: Server, path: str) -> None:
    answer = server.ask(f"/{path}")
    assert (answer.status, answer.body) == (200, FILES[path])
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-length"] == str(len(FILES[path]))


@pytest.mark.parametrize("path", SECRETS)
def test_locks_keys_half_written_and_hidden_files_are_not_there(server: Server, path: str) -> None:
    answer = server.ask(f"/{path}")
    assert answer.status == 404
    assert b"secret" not in answer.body


@pytest.mark.parametrize(
    "path",
    [
        "/../outside/passwd",
        "/packages/../../outside/passwd",
        "/%2e%2e/outside/passwd",
        "/..%2foutside%2fpasswd",
        "/%2e%2e%2foutside%2fpasswd",
        "/%252e%252e/outside/passwd",
        "/%252e%252e%252foutside%252fpasswd",
        "/..%5coutside%5cpasswd",
        "/..\\outside\\passwd",
        "/packages/%2e%2e/%2e%2e/outside/passwd",
        "//etc/passwd",
        "/%2fetc/passwd",
        "/passwd",
        "/relative",
        "/packages/out/passwd",
        "/%2epublish.lock",
        "/index/di/gi/%2etfaot-model-digits.x.part",
        "/packages/%2edraft/index.html",
        "/%2e%67it/config",
        "/config.json%00.html",
        "/keys%2froot.json",
        "/blobs/../keys/root.json",
        "/index/../root.pem",
        "/packages/",
        "/blobs/",
        "/index/di/gi/",
        "/config.json/",
        "/no-such-file",
        "/%ff%fe",
        "/" + "a" * 3000,
    ],
)
def test_no_path_leads_out_of_the_folder_or_to_what_is_hidden(server: Server, path: str) -> None:
    answer = server.ask(path)
    assert answer.status in (400, 404), answer
    assert b"secret" not in answer.body


def test_a_folder_that_has_a_page_is_the_page_of_that_folder(server: Server) -> None:
    answer = server.ask("/packages/digits")
    assert answer.status == 301
    assert answer.headers["location"] == "/packages/digits/"
    assert server.ask("/packages/digits/").body == FILES["packages/digits/index.html"]


def test_a_missing_file_is_said_to_be_missing_in_json(server: Server) -> None:
    answer = server.ask("/index/no/pe/tfaot-model-nope")
    assert answer.status == 404
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert json.loads(answer.body) == {"error": {"status": 404, "message": "there is no such file in this registry"}}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get_and_head_is_known(server: Server, method: str) -> None:
    answer = server.ask("/config.json", method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert json.loads(answer.body)["error"]["status"] == 405


@pytest.mark.parametrize("path", ["/config.json", BLOB_PATH, "/"])
def test_head_gives_the_headers_of_get_and_no_body(server: Server, path: str) -> None:
    head, get = server.ask(path, "HEAD"), server.ask(path)
    assert (head.status, head.body) == (200, b"")
    for name in ("content-length", "content-type", "etag", "cache-control", "last-modified"):
        assert head.headers[name] == get.headers[name], name


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/config.json", "application/json"),
        ("/metadata/timestamp.json", "application/json"),
        ("/index/di/gi/tfaot-model-digits", "application/x-ndjson"),
        (f"/index/di/gi/{DIGEST}.tfaot-model-digits", "application/x-ndjson"),
        (f"/search/{DIGEST}.0a.jsonl", "application/x-ndjson"),
        (BLOB_PATH, "application/octet-stream"),
        ("/", "text/html; charset=utf-8"),
        ("/packages/digits/", "text/html; charset=utf-8"),
        (f"/site.{DIGEST[:16]}.css", "text/css; charset=utf-8"),
        ("/site.js", "text/javascript; charset=utf-8"),
        ("/graph.svg", "image/svg+xml"),
    ],
)
def test_content_types(server: Server, path: str, kind: str) -> None:
    assert server.ask(path).headers["content-type"] == kind


@pytest.mark.parametrize(
    ("path", "policy"),
    [
        (BLOB_PATH, FOREVER),
        (f"/index/di/gi/{DIGEST}.tfaot-model-digits", FOREVER),
        (f"/search/{DIGEST}.0a.jsonl", FOREVER),
        ("/metadata/12.snapshot.json", FOREVER),
        ("/metadata/1.bin-0f.json", FOREVER),
        (f"/site.{DIGEST[:16]}.css", FOREVER),
        ("/metadata/timestamp.json", "no-cache"),
        ("/config.json", "no-cache"),
        ("/index/di/gi/tfaot-model-digits", "no-cache"),
        ("/", "no-cache"),
        ("/site.js", "no-cache"),
    ],
)
def test_what_never_changes_may_be_kept_and_all_else_is_asked_for_again(server: Server, path: str, policy: str) -> None:
    assert server.ask(path).headers["cache-control"] == policy


@pytest.mark.parametrize("path", ["/config.json", BLOB_PATH, "/index/di/gi/tfaot-model-digits"])
def test_an_unchanged_file_is_not_sent_again(server: Server, path: str) -> None:
    etag = server.ask(path).headers["etag"]
    for known in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        answer = server.ask(path, If_None_Match=known)
        assert (answer.status, answer.body) == (304, b""), known
        assert answer.headers["etag"] == etag
    assert server.ask(path, If_None_Match='"other"').status == 200


def test_a_packed_answer_has_a_tag_that_fits_as_well(server: Server) -> None:
    path = "/index/di/gi/tfaot-model-digits"
    etag = server.ask(path, Accept_Encoding="gzip").headers["etag"]
    assert server.ask(path, If_None_Match=etag, Accept_Encoding="gzip").status == 304


def test_a_date_does_where_a_client_knows_no_tags(server: Server) -> None:
    modified = server.ask("/config.json").headers["last-modified"]
    assert server.ask("/config.json", If_Modified_Since=modified).status == 304
    assert server.ask("/config.json", If_Modified_Since="Thu, 01 Jan 1970 00:00:00 GMT").status == 200
    assert server.ask("/config.json", If_Modified_Since="yesterday").status == 200


def test_a_replaced_file_has_another_tag_and_is_sent(server: Server) -> None:
    (server.root / "changing.json").write_bytes(b"[1]")
    etag = server.ask("/changing.json").headers["etag"]
    new = server.root / "new.json"
    new.write_bytes(b"[1, 2]")
    new.replace(server.root / "changing.json")
    answer = server.ask("/changing.json", If_None_Match=etag)
    assert (answer.status, answer.body) == (200, b"[1, 2]")


@pytest.mark.parametrize(
    ("wanted", "part", "said"),
    [
        ("bytes=0-9", BLOB[:10], f"bytes 0-9/{len(BLOB)}"),
        ("bytes=1000-", BLOB[1000:], f"bytes 1000-{len(BLOB) - 1}/{len(BLOB)}"),
        ("bytes=-5", BLOB[-5:], f"bytes {len(BLOB) - 5}-{len(BLOB) - 1}/{len(BLOB)}"),
    ],
)
def test_parts_of_a_blob(server: Server, wanted: str, part: bytes, said: str) -> None:
    answer = server.ask(BLOB_PATH, Range=wanted)
    assert (answer.status, answer.body) == (206, part)
    assert answer.headers["content-range"] == said


def test_a_part_beyond_the_end_is_refused_with_the_size(server: Server) -> None:
    answer = server.ask(BLOB_PATH, Range=f"bytes={len(BLOB)}-")
    assert answer.status == 416
    assert answer.headers["content-range"] == f"bytes */{len(BLOB)}"


def test_a_part_of_another_version_is_not_given(server: Server) -> None:
    etag = server.ask(BLOB_PATH).headers["etag"]
    assert server.ask(BLOB_PATH, Range="bytes=0-9", If_Range=etag).status == 206
    assert server.ask(BLOB_PATH, Range="bytes=0-9", If_Range='"other"').status == 200


@pytest.mark.parametrize("path", ["/index/di/gi/tfaot-model-digits", "/metadata/12.snapshot.json", "/"])
def test_text_is_packed_for_those_who_can_unpack(server: Server, path: str) -> None:
    plain, packed = server.ask(path), server.ask(path, Accept_Encoding="gzip, br")
    assert "content-encoding" not in plain.headers
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body) / 2
    assert gzip.decompress(packed.body) == plain.body


def test_who_refuses_gzip_gets_none(server: Server) -> None:
    answer = server.ask("/index/di/gi/tfaot-model-digits", Accept_Encoding="gzip;q=0")
    assert "content-encoding" not in answer.headers


def test_blobs_are_never_packed(server: Server) -> None:
    answer = server.ask(BLOB_PATH, Accept_Encoding="gzip")
    assert "content-encoding" not in answer.headers
    assert answer.body == BLOB


@pytest.mark.parametrize("path", ["/", "/packages/digits/", "/graph.svg"])
def test_a_page_may_run_nothing_but_what_comes_with_it(server: Server, path: str) -> None:
    policy = server.ask(path).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_what_is_no_page_has_no_policy_for_pages(server: Server) -> None:
    assert "content-security-policy" not in server.ask("/config.json").headers
