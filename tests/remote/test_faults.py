"""Every way in which a server, the network or an attacker may go wrong: its own error, exit code and hint.

And nothing is damaged by it: the cache still serves offline what it served before, and the next command works as soon as
the server is right again.
"""

from __future__ import annotations

import resource
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from tuf.ngclient._internal import trusted_metadata_set

from tests.remote.conftest import BIG, Cli, SignedFolder, ago, signed_folder
from tests.remote.faulty import (
    Behaviour,
    FaultyServer,
    Request,
    always,
    faulty_server,
    head,
    html,
    reply,
    reset,
    unlabelled_html,
)
from tests.wording import worded
from tfaot_pkg.ground.documents import utc

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parent.parent.parent
CONFIG, TIMESTAMP, SNAPSHOT = "/config.json", "/metadata/timestamp.json", r"/metadata/\d+\.snapshot\.json"
INDEX, SHARD, BLOB = "/index/.*", "/search/.*", "/blobs/.*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is wrong, at which paths, and how a command that needs them ends. `said` and `hint` are parts of texts.

    `wrong` is a behaviour, or the name of one of the server's own.
    """

    path: str
    wrong: Behaviour | str
    code: int
    said: str
    hint: str


def misbehave(server: FaultyServer, case: Case) -> None:
    server.faults[case.path] = getattr(server, case.wrong) if isinstance(case.wrong, str) else case.wrong


CASES = {
    "a tampered blob": Case(path=BLOB, wrong="tampered", code=18, said="was changed", hint="again"),
    "a truncated blob": Case(path=BLOB, wrong="cut", code=18, said="was changed", hint="again"),
    "a blob that breaks off": Case(path=BLOB, wrong="broken_off", code=17, said="was interrupted", hint="try again"),
    "a missing blob": Case(path=BLOB, wrong=always(404), code=16, said="lacks the blob", hint="mirror"),
    "a web page for a blob": Case(path=BLOB, wrong=html, code=17, said="web page", hint="login page"),
    "a gigabyte for a blob": Case(path=BLOB, wrong="zeros", code=18, said="changed", hint="again"),
    "a blob that drips": Case(path=BLOB, wrong="drip_body", code=17, said="too slow", hint="TFAOT_HTTP_TIMEOUT"),
    "a reset for every blob": Case(path=BLOB, wrong=reset, code=17, said="cannot be reached", hint="connection"),
    "a tampered index file": Case(path=INDEX, wrong="tampered", code=18, said="was changed", hint="mirror"),
    "a missing index file": Case(path=INDEX, wrong=always(404), code=18, said="lacks a signed file", hint="mirror"),
    "a web page for an index file": Case(path=INDEX, wrong=html, code=17, said="web page", hint="login page"),
    "a gigabyte for an index file": Case(path=INDEX, wrong="zeros", code=18, said="longer than", hint="maintainer"),
    "a web page for config.json": Case(path=CONFIG, wrong=html, code=17, said="web page", hint="login page"),
    "an unlabelled web page": Case(path=CONFIG, wrong=unlabelled_html, code=17, said="web page", hint="login"),
    "no JSON": Case(
        path=CONFIG, wrong=always(200, b"nonsense"), code=16, said="not JSON", hint="tell the registry's maintainer"
    ),
    "JSON of something else": Case(
        path=CONFIG, wrong=always(200, b"[1]"), code=16, said="is damaged: $: expected object", hint="check the address"
    ),
    "an unknown format": Case(
        path=CONFIG, wrong=always(200, b'{"format":99}'), code=16, said="format 99", hint="upgrade"
    ),
    "signatures taken away": Case(
        path=CONFIG, wrong=always(200, b'{"format":1}'), code=18, said="no longer signed", hint="maintainer"
    ),
    "a gigabyte for config.json": Case(path=CONFIG, wrong="zeros", code=18, said="longer than", hint="maintainer"),
    "a packed gigabyte": Case(path=CONFIG, wrong="packed_zeros", code=18, said="longer than", hint="maintainer"),
    "an announced gigabyte": Case(
        path=CONFIG,
        wrong=lambda r: head(r, 200, Content_Length=str(1 << 30)),
        code=18,
        said="longer than",
        hint="maintainer",
    ),
    "nothing there": Case(path=".*", wrong=always(404), code=16, said="not a registry", hint="check the address"),
    "a server's fault": Case(path=".*", wrong=always(500), code=17, said="500", hint="try again later"),
    "no access": Case(path=".*", wrong=always(403), code=17, said="403", hint="~/.netrc"),
    "too many requests, for an hour": Case(
        path=".*", wrong=always(429, Retry_After="3600"), code=17, said="wait 3600 s", hint="later"
    ),
    "too many requests, for ever": Case(
        path=".*", wrong=always(503, Retry_After="0"), code=17, said="503", hint="later"
    ),
    "an answer whose head drips": Case(
        path=CONFIG, wrong="drip_head", code=17, said="too slow", hint="TFAOT_HTTP_TIMEOUT"
    ),
    "an answer that drips": Case(
        path=TIMESTAMP, wrong="drip_body", code=17, said="too slow", hint="TFAOT_HTTP_TIMEOUT"
    ),
    "a timestamp with endless trailers": Case(
        path=TIMESTAMP, wrong="endless_trailers", code=17, said="too slow", hint="TFAOT_HTTP_TIMEOUT"
    ),
    "a snapshot whose size drips": Case(
        path=SNAPSHOT, wrong="drip_chunk_size", code=17, said="too slow", hint="TFAOT_HTTP_TIMEOUT"
    ),
    "a blob with endless trailers": Case(
        path=BLOB, wrong="endless_trailers", code=17, said="too slow", hint="TFAOT_HTTP_TIMEOUT"
    ),
    "redirects in circles": Case(
        path=CONFIG, wrong=always(302, Location="/config.json"), code=17, said="in circles", hint="maintainer"
    ),
    "a redirect to another scheme": Case(
        path=CONFIG, wrong=always(302, Location="file:///etc/passwd"), code=17, said="not followed", hint="maintainer"
    ),
    "a redirect to plain http elsewhere": Case(
        path=CONFIG, wrong=always(302, Location="http://example.org/"), code=17, said="not followed", hint="maintainer"
    ),
    "a tampered timestamp": Case(path=TIMESTAMP, wrong="tampered", code=18, said="", hint="maintainer"),
    "JSON that is no timestamp": Case(
        path=TIMESTAMP, wrong=always(200, b"{}"), code=18, said="damaged metadata", hint="maintainer"
    ),
    "a web page for the timestamp": Case(path=TIMESTAMP, wrong=html, code=17, said="web page", hint="login"),
    "no timestamp": Case(path=TIMESTAMP, wrong=always(404), code=18, said="lacks a signed file", hint="maintainer"),
    "a gigabyte for the timestamp": Case(path=TIMESTAMP, wrong="zeros", code=18, said="longer than", hint="maintainer"),
    "a tampered snapshot": Case(path=SNAPSHOT, wrong="tampered", code=18, said="", hint="maintainer"),
    "a gigabyte for the snapshot": Case(path=SNAPSHOT, wrong="zeros", code=18, said="longer", hint="maintainer"),
}


def install(cli: Cli, prefix: Path) -> tuple[str, ...]:
    return ("install", "digits", "--registry", "r", "--prefix", str(prefix))


@pytest.mark.sweep(
    "a tampered blob",
    "a truncated blob",
    "a missing blob",
    "a gigabyte for a blob",
    "a tampered index file",
    "a web page for config.json",
    "an unknown format",
    "signatures taken away",
    "nothing there",
    "a server's fault",
    "too many requests, for ever",
    "redirects in circles",
    "a redirect to plain http elsewhere",
    "a tampered timestamp",
    "a tampered snapshot",
    "a gigabyte for the snapshot",
    night=3,
)
@pytest.mark.parametrize("name", CASES)
def test_a_fault_has_its_own_error_and_damages_nothing(
    cli: Cli,
    known: FaultyServer,
    signed: SignedFolder,
    tmp_path: Path,
    name: str,
    snapshot: Callable[[Path], dict[str, bytes | str]],
) -> None:
    case = CASES[name]
    signed.publish("digits", "1.1")  # not yet seen, so that all is fetched
    before = snapshot(signed.root)
    misbehave(known, case)
    begin = time.monotonic()
    done = cli(*install(cli, tmp_path / "prefix"))
    assert (done.code, case.said in done.error, case.hint in done.hint) == (case.code, True, True), done.err
    assert time.monotonic() - begin < 60, "what never ends is given up, however busy this machine is"
    assert known.sent < 8 << 20, "sockets may buffer some, but a gigabyte was not to be read"
    assert not list((tmp_path / "prefix").rglob("*.h")), "nothing of it was installed"
    known.faults.clear()
    healed = cli(*install(cli, tmp_path / "prefix"))
    assert healed.code == 0, healed.err
    assert "tfaot-model-digits 1.1: installed" in healed.out
    assert snapshot(signed.root) == before


BEFORE_ANYTHING_IS_VERIFIED = [name for name, case in CASES.items() if case.path in (CONFIG, TIMESTAMP, ".*")]


@pytest.mark.sweep("no JSON-*", "nothing there-*", "a tampered timestamp-*", "a packed gigabyte-*", night=15)
@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((name, "show") for name in BEFORE_ANYTHING_IS_VERIFIED),
        ("a web page for config.json", "search"),
        ("a tampered timestamp", "search"),
    ],
)
def test_the_cache_serves_what_it_served_before_a_fault(
    cli: Cli, known: FaultyServer, signed: SignedFolder, name: str, command: str
) -> None:
    case = CASES[name]
    assert cli(command, "digits", "--registry", "r").code == 0
    misbehave(known, case)
    done = cli(command, "digits", "--registry", "r")
    assert done.code == case.code, done.err
    offline = cli(command, "digits", "--registry", "r", "--offline")
    assert offline.code == 0, offline.err
    assert "digits@1.0" in offline.out


def test_a_state_that_was_seen_but_could_not_be_had_is_not_replaced_by_an_older_one(
    cli: Cli, known: FaultyServer, signed: SignedFolder
) -> None:
    assert cli("show", "digits", "--registry", "r").code == 0
    signed.publish("digits", "1.1")
    known.faults[SNAPSHOT] = known.tampered
    assert cli("show", "digits", "--registry", "r").code == 18
    offline = cli("show", "digits", "--registry", "r", "--offline")
    assert offline.code == 17
    worded(offline.error)
    known.faults.clear()
    assert "digits@1.1" in cli("show", "digits", "--registry", "r").out


def test_a_damaged_search_shard_is_a_trust_error(cli: Cli, known: FaultyServer, signed: SignedFolder) -> None:
    signed.publish("other", "1.0")
    known.faults[SHARD] = known.tampered
    done = cli("search", "digits", "--registry", "r")
    assert done.code == 18
    worded(done.error)


def test_the_wait_that_a_server_asks_for_is_kept(cli: Cli, known: FaultyServer) -> None:
    times: list[float] = []

    def busy_once(request: Request) -> None:
        times.append(time.monotonic())
        known.serve(request) if len(times) > 1 else reply(request, 429, Retry_After="1")

    known.faults[CONFIG] = busy_once
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 0, done.err
    assert times[1] - times[0] >= 1


def test_a_download_that_was_reset_goes_on_where_it_stopped(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    asked: list[str | None] = []

    def reset_once(request: Request) -> None:
        asked.append(request.headers.get("Range"))
        if len(asked) > 1:
            known.serve(request)
            return
        body = known.content(request)
        head(request, 200, Content_Length=str(len(body)))
        request.wfile.write(body[: BIG // 2])
        request.wfile.flush()
        time.sleep(0.3)
        reset(request)

    known.faults[BLOB] = reset_once
    done = cli(*install(cli, tmp_path / "prefix"))
    assert done.code == 0, done.err
    assert asked == [None, f"bytes={BIG // 2}-"]
    assert cli("verify-install", tmp_path / "prefix").code == 0


def test_a_later_command_goes_on_where_an_earlier_one_stopped(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    known.faults[BLOB] = known.broken_off
    assert cli(*install(cli, tmp_path / "prefix")).code == 17
    known.faults.clear()
    known.seen.clear()
    done = cli(*install(cli, tmp_path / "prefix"))
    assert done.code == 0, done.err
    (blob,) = [seen for seen in known.seen if seen.path.startswith("/blobs/")]
    assert blob.headers["Range"].startswith("bytes=")


Answer = Callable[[FaultyServer, Request], None]


def ranged(content_range: str, *, shift: int = 0) -> Answer:
    """The bytes that are asked for, or those `shift` further on, and what `content_range` says of them."""

    def answer(server: FaultyServer, request: Request) -> None:
        body, start = server.content(request), int(request.headers["Range"][6:-1])
        said = content_range.format(start=start, end=len(body) - 1, size=len(body), less=start - 1, more=len(body) + 1)
        reply(request, 206, body[start + shift :], **({"Content_Range": said} if said else {}))

    return answer


PARTS: dict[str, Answer] = {
    "the whole file": lambda server, request: reply(request, 200, server.content(request)),
    "no such part": lambda _, request: reply(request, 416),
    "the right range, with the bytes of another": ranged("bytes {start}-{end}/{size}", shift=-1000),
    "another start": ranged("bytes {less}-{end}/{size}", shift=-1),
    "another end": ranged("bytes {start}-{less}/{size}"),
    "another total": ranged("bytes {start}-{end}/{more}"),
    "another unit": ranged("lines {start}-{end}/{size}"),
    "no range": ranged(""),
    "nonsense": ranged("bytes ?-?/{size}"),
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_server_without_ranges_or_with_wrong_ones_does_no_harm(
    cli: Cli, known: FaultyServer, tmp_path: Path, kind: str
) -> None:
    known.faults[BLOB] = known.broken_off
    assert cli(*install(cli, tmp_path / "prefix")).code == 17
    known.seen.clear()
    known.faults[BLOB] = lambda r: PARTS[kind](known, r) if "Range" in r.headers else known.serve(r)
    done = cli(*install(cli, tmp_path / "prefix"))
    assert done.code == 0, done.err
    ranges = ["Range" in seen.headers for seen in known.seen if seen.path.startswith("/blobs/")]
    assert ranges == ([True] if kind == "the whole file" else [True, False]), "asked for a part, then for the whole"
    assert cli("verify-install", tmp_path / "prefix").code == 0


def test_what_was_downloaded_before_a_tampered_rest_is_not_trusted(
    cli: Cli, known: FaultyServer, tmp_path: Path, tfaot_home: Path
) -> None:
    known.faults[BLOB] = known.broken_off
    assert cli(*install(cli, tmp_path / "prefix")).code == 17
    (partial,) = [path for path in tfaot_home.rglob("partial/*") if path.suffix == ""]
    partial.write_bytes(b"x" * 1000)
    known.faults.clear()
    done = cli(*install(cli, tmp_path / "prefix"))
    assert done.code == 0, done.err


def test_an_old_state_that_is_shown_for_ever_is_a_freeze(cli: Cli, tmp_path: Path) -> None:
    old = signed_folder(tmp_path / "old", ago(days=8))
    with faulty_server(old.root) as running:
        done = cli("registry", "add", "r", running.url, "--fingerprint", old.made.fingerprint)
    assert done.code == 18
    worded(done.error)
    worded(done.hint)


def test_a_freeze_is_told_by_its_time_offline_as_well(
    cli: Cli, known: FaultyServer, tfaot_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("show", "digits", "--registry", "r").code == 0
    later = utc(ago(days=-8)())
    clock = SimpleNamespace(datetime=SimpleNamespace(now=lambda _: later), timezone=timezone)
    monkeypatch.setattr(trusted_metadata_set, "datetime", clock)
    done = cli("show", "digits", "--registry", "r", "--offline")
    assert done.code == 18
    worded(done.error)


def test_an_older_state_than_was_seen_is_a_rollback(
    cli: Cli, known: FaultyServer, signed: SignedFolder, tmp_path: Path
) -> None:
    old = shutil.copytree(signed.root, tmp_path / "copy")
    signed.publish("digits", "1.1")
    assert "digits@1.1" in cli("show", "digits", "--registry", "r").out
    known.root = old
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 18
    worded(done.error)
    known.root = signed.root
    assert cli("show", "digits", "--registry", "r").code == 0


@pytest.mark.parametrize("path", [r"/metadata/\d+\.snapshot\.json", r"/metadata/\d+\.bin-.\.json"])
def test_files_of_different_times_are_not_mixed(cli: Cli, known: FaultyServer, signed: SignedFolder, path: str) -> None:
    old = {file.name: file.read_bytes() for file in (signed.root / "metadata").iterdir()}
    signed.publish("digits", "1.1")

    def older(request: Request) -> None:
        number, _, rest = request.path.rpartition("/")[2].partition(".")
        name = f"{int(number) - 1}.{rest}"
        reply(request, 200, old[name]) if name in old else known.serve(request)

    known.faults[path] = older
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 18
    assert "mixes files of different times" in done.error or "not what was signed" in done.error, done.err


def test_another_registry_with_other_keys_is_not_taken_for_this_one(
    cli: Cli, known: FaultyServer, tmp_path: Path
) -> None:
    known.root = signed_folder(tmp_path / "foreign").root
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 18
    worded(done.error)


def test_a_clock_far_off_is_said_to_be(cli: Cli, tmp_path: Path) -> None:
    ahead = signed_folder(tmp_path / "ahead", ago(days=-400))
    with faulty_server(ahead.root) as running:
        done = cli("registry", "add", "r", running.url, "--fingerprint", ahead.made.fingerprint)
    assert done.code == 18
    worded(done.error)
    worded(done.hint)


def test_https_never_continues_as_http(
    cli: Cli, signed: SignedFolder, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with faulty_server(signed.root) as plain, faulty_server(signed.root, context) as secure:
        added = cli("registry", "add", "r", secure.url, "--fingerprint", signed.made.fingerprint)
        assert added.code == 0, added.err
        secure.faults[".*"] = lambda request: reply(request, 302, Location=plain.url + request.path[1:])
        done = cli("show", "digits", "--registry", "r")
        assert done.code == 17
        worded(done.error)
        assert plain.seen == []


def test_an_unknown_certificate_is_not_accepted(cli: Cli, signed: SignedFolder, certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with faulty_server(signed.root, context) as secure:
        done = cli("registry", "add", "r", secure.url, "--fingerprint", signed.made.fingerprint)
    assert done.code == 17
    worded(done.error)
    worded(done.hint)


def test_a_redirect_on_the_same_machine_is_followed(cli: Cli, known: FaultyServer, signed: SignedFolder) -> None:
    with faulty_server(signed.root) as other:
        known.faults[".*"] = lambda request: reply(request, 307, Location=other.url + request.path[1:])
        assert cli("show", "digits", "--registry", "r").code == 0
        assert other.seen


def test_an_impossible_patience_is_told(cli: Cli, known: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFAOT_HTTP_TIMEOUT", "soon")
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 17
    assert "TFAOT_HTTP_TIMEOUT" in done.error and "'soon'" in done.error


def test_a_cache_that_cannot_be_written_is_a_storage_error(cli: Cli, known: FaultyServer, tfaot_home: Path) -> None:
    assert cli("show", "digits", "--registry", "r").code == 0
    (cache,) = (tfaot_home / "cache" / "registries").iterdir()
    shutil.rmtree(cache / "content")
    (cache / "content").write_bytes(b"a file in the way")
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 20
    worded(done.error)


def test_a_disk_that_is_full_in_the_middle_of_a_download_is_a_storage_error(
    cli: Cli, known: FaultyServer, tmp_path: Path
) -> None:
    assert cli("show", "digits", "--registry", "r").code == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (BIG // 2, before[1]))
    try:
        done = cli(*install(cli, tmp_path / "prefix"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.code == 20
    worded(done.error)
    healed = cli(*install(cli, tmp_path / "prefix"))
    assert healed.code == 0, healed.err


def test_two_installations_at_once_download_a_blob_once(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    def slowly(request: Request) -> None:
        time.sleep(0.5)
        known.serve(request)

    known.faults[BLOB] = slowly
    program = [sys.executable, "-m", "tfaot_pkg", "install", "digits", "--registry", "r", "--prefix"]
    running = [
        subprocess.Popen([*program, str(tmp_path / name)], cwd=REPOSITORY, stderr=subprocess.PIPE) for name in "ab"
    ]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert len([path for path in known.paths() if path.startswith("/blobs/")]) == 1
