"""`nightly report --notify`: who is told what, once, by a real mail server and a real web server."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session
from prometheus_client.parser import text_string_to_metric_families

from tests.commands import invoked
from tests.nightly.reports import FIRST, HOSTILE, add_night, outcome, task, two_nights
from tests.source.conftest import certificate  # noqa: F401 (a fixture)
from tests.wording import reported
from tfaot_pkg.errors import SpecError, StorageError
from tfaot_pkg.nightly.state import Gate, State, Verdict

PASSWORD = "correct horse"
MAIL = "mail: {server: 127.0.0.1, port: %d, security: %s, sender: nightly@example.org%s}"


def text_in(mail: EmailMessage) -> str:
    return str(mail.get_content()).replace("\r\n", "\n")


class Mailbox:
    """Keeps what it gets; refuses mails to `full`."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.full = ""

    async def handle_RCPT(self, _: Any, __: Session, envelope: Envelope, address: str, options: list[str]) -> str:  # noqa: N802
        if address == self.full:
            return "552 the mailbox is full"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: Any, __: Session, envelope: Envelope) -> str:  # noqa: N802
        assert envelope.content is not None
        content = envelope.content
        self.mails.append(
            message_from_bytes(content if isinstance(content, bytes) else content.encode(), policy=policy.default)
        )
        return "250 OK"

    def texts(self) -> dict[str, str]:
        """The last mail's text, by owner."""
        return {str(each["To"]): text_in(each) for each in self.mails}


class _Controller(Controller):
    """On a port that the system chooses."""

    def _trigger_server(self) -> None:
        assert isinstance(self.server, asyncio.Server)
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]


Server = Callable[..., int]


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def smtp(mailbox: Mailbox) -> Iterator[Server]:
    running: list[_Controller] = []

    def start(**options: Any) -> int:
        server = _Controller(mailbox, hostname="127.0.0.1", port=0, **options)
        server.start()
        running.append(server)
        return int(server.port)

    yield start
    for each in running:
        each.stop()


class Hook:
    """A web server that keeps what is posted."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.status = 204
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(hook.status)
                self.send_header("Location", "https://elsewhere.invalid/")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret-path"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def define(tmp_path: Path) -> Callable[[str], Path]:
    (tmp_path / "spec.yaml").write_text("")

    def write(notify: str) -> Path:
        path = tmp_path / "registry.yaml"
        path.write_text(
            "registry: registry\nowners: [all@example.org]\nmodels: [{spec: spec.yaml, owners: [ada@example.org]}]\n"
            f"notify:\n  {notify}\n"
        )
        return path

    return write


def notify(definition: Path, *options: str) -> tuple[int, str]:
    words = ["nightly", "report", str(definition), "--notify", *options]
    done = invoked(words)
    return done.exit_code, done.stdout


def failing_night(state: State, night: int, *failing: str, gate: Gate | None = None) -> None:
    """Models a and b, owned by Ada and by Bob."""
    tasks = [task("a", owners=("ada@example.org",)), task("b", owners=("bob@example.org",))]
    outcomes = [
        outcome(each, "build failed", error=f"no operation <Foo> {HOSTILE}") if each.model in failing else outcome(each)
        for each in tasks
    ]
    add_night(state, FIRST + timedelta(days=night), outcomes, tasks=tasks, gate=gate)


def test_owners_are_told_what_is_new_each_thing_once(
    define: Callable[[str], Path], smtp: Server, mailbox: Mailbox, hook: Hook, tmp_path: Path
) -> None:
    definition = define(f"{MAIL % (smtp(), 'none', '')}\n  webhooks: ['{hook.url}']")
    state = State(root=tmp_path / "nightly-state")
    failing_night(state, 0)
    assert notify(definition)[0] == 0 and not mailbox.mails and not hook.posted, "nothing happened"
    failing_night(state, 1, "a")
    code, text = notify(definition)
    assert code == 24 and "ada@example.org: 1 failing" in text and "the webhook at 127.0.0.1: 1 failing" in text
    (mail,), (posted,) = mailbox.mails, hook.posted
    assert (mail["To"], mail["Subject"]) == ("ada@example.org", "night 2026-10-21.1: 1 failing")
    assert mail["Auto-Submitted"] == "auto-generated" and mail["From"] == "nightly@example.org"
    told = text_in(mail)
    assert "a@1.0.0+tf2.17.1: failing\n  build failed, newly failing (was: published)\n  no operation <Foo>" in told
    assert "to repeat it: tfaot-pkg build /specs/a.yaml --tensorflow 2.17.1" in told
    assert "\x1b" not in told and "\x00" not in told, "a mail reader obeys what a build said"
    assert posted["notices"][0]["subject"] == "a@1.0.0+tf2.17.1" and "&lt;Foo&gt;" in posted["text"]
    assert "<" not in posted["text"], "chat services take it for commands"
    notify(definition)
    failing_night(state, 2, "a", "b")
    notify(definition)
    assert [str(each["To"]) for each in mailbox.mails] == ["ada@example.org", "bob@example.org"]
    failing_night(state, 3, "b")
    notify(definition)
    assert "a@1.0.0+tf2.17.1: fixed\n  fixed: it failed since 2026-10-21" in mailbox.texts()["ada@example.org"]
    failing_night(state, 4, "a", "b")
    notify(definition)
    assert [str(each["To"]) for each in mailbox.mails] == [
        "ada@example.org", "bob@example.org", "ada@example.org", "ada@example.org",
    ], "a second failure is news"  # fmt: skip
    assert len(hook.posted) == 4 and "secret-path" not in (tmp_path / "nightly-state/notices.json").read_text()


def test_what_a_server_did_not_take_is_sent_by_the_next_call(
    define: Callable[[str], Path], smtp: Server, mailbox: Mailbox, hook: Hook, tmp_path: Path
) -> None:
    definition = define(f"{MAIL % (smtp(), 'none', '')}\n  webhooks: ['{hook.url}']")
    failing_night(State(root=tmp_path / "nightly-state"), 0, "a", "b")
    mailbox.full, hook.status = "ada@example.org", 307
    code, text = notify(definition)
    assert code == 24 and [str(each["To"]) for each in mailbox.mails] == ["bob@example.org"]
    assert "ada@example.org: not told: " in text and "the mailbox is full" in text
    assert "the webhook at 127.0.0.1: not told: 127.0.0.1 answers 307" in text and "secret-path" not in text
    mailbox.full, hook.status = "", 200
    notify(definition)
    assert [str(each["To"]) for each in mailbox.mails] == ["bob@example.org", "ada@example.org"]
    assert len(hook.posted) == 2


def test_a_night_without_failures_whose_notices_cannot_be_sent_says_so(
    define: Callable[[str], Path], hook: Hook, tmp_path: Path
) -> None:
    definition, state = define(f"webhooks: ['{hook.url}']"), State(root=tmp_path / "nightly-state")
    failing_night(state, 0, "a")
    notify(definition)
    failing_night(state, 1)
    hook.server.shutdown()
    hook.server.server_close()
    code, text = notify(definition, "--json")
    assert code == 17 and json.loads(text)["told"][0]["fault"] == "127.0.0.1: ConnectionError"


def test_passwords_go_over_encrypted_connections_alone(
    define: Callable[[str], Path],
    smtp: Server,
    mailbox: Mailbox,
    certificate: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def authenticated(_: Any, __: Any, ___: Any, ____: str, given: LoginPassword) -> AuthResult:
        # What is not handled is answered by the server.
        is_right = given == LoginPassword(b"nightly", PASSWORD.encode())
        return AuthResult(success=is_right, handled=is_right)

    port = smtp(tls_context=context, require_starttls=True, authenticator=authenticated, auth_required=True)
    failing_night(State(root=tmp_path / "nightly-state"), 0, "a")
    definition = define(MAIL % (port, "starttls", ", user: nightly"))
    with reported(SpecError):
        notify(definition)
    monkeypatch.setenv("TFAOT_MAIL_PASSWORD", PASSWORD)
    assert "certificate verify failed" in notify(definition)[1] and not mailbox.mails
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("TFAOT_MAIL_PASSWORD", "wrong horse")
    text = notify(definition)[1]
    assert "Authentication credentials invalid" in text and "horse" not in text
    monkeypatch.setenv("TFAOT_MAIL_PASSWORD", PASSWORD)
    assert "ada@example.org: 1 failing" in notify(definition)[1] and len(mailbox.mails) == 1


def test_owners_of_the_registry_learn_what_is_not_of_one_model(
    define: Callable[[str], Path], smtp: Server, mailbox: Mailbox, tmp_path: Path
) -> None:
    gate = Gate(verdicts=(Verdict(toolchain="2.17.1", built=2, failed=1, limit=0.2),))
    failing_night(State(root=tmp_path / "nightly-state"), 0, "a", gate=gate)
    notify(define(MAIL % (smtp(), "none", "")))
    assert "publication: withheld\n  2.17.1: 1 of 2 builds newly failed" in mailbox.texts()["all@example.org"]
    assert "withheld" not in mailbox.texts()["ada@example.org"]


def test_nothing_is_sent_if_an_address_is_wrong(
    define: Callable[[str], Path], smtp: Server, mailbox: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT", "http://chat.example.org/hook")
    failing_night(State(root=tmp_path / "nightly-state"), 0, "a")
    with reported(SpecError):
        notify(define(f"{MAIL % (smtp(), 'none', '')}\n  webhooks: [{{variable: CHAT}}]"))
    assert not mailbox.mails


def test_a_damaged_registry_is_told_and_keeps_nothing_back(
    define: Callable[[str], Path], hook: Hook, tmp_path: Path
) -> None:
    failing_night(State(root=tmp_path / "nightly-state"), 0, "a")
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry/config.json").write_text("{")
    notify(define(f"webhooks: ['{hook.url}']"))
    assert [each["kind"] for each in hook.posted[0]["notices"]] == ["failing", "expires soon"]
    assert "config.json" in hook.posted[0]["notices"][1]["lines"][0]


def test_hostile_texts_of_any_length_are_mailed(
    define: Callable[[str], Path], smtp: Server, mailbox: Mailbox, tmp_path: Path
) -> None:
    one = task("a", owners=("ada@example.org",))
    error = f"\x00.\r\nSubject: other\r\n.\r\n{HOSTILE}" + "x" * 100_000
    failed = outcome(one, "build failed", error=error, command="y" * 5_000)
    add_night(State(root=tmp_path / "nightly-state"), FIRST, [failed], tasks=[one])
    notify(define(MAIL % (smtp(), "none", "")))
    (mail,) = mailbox.mails
    assert mail["Subject"] == "night 2026-10-20.1: 1 failing" and len(text_in(mail)) < 2_000


def test_an_earlier_night_is_no_news(define: Callable[[str], Path], hook: Hook, tmp_path: Path) -> None:
    state = State(root=tmp_path / "nightly-state")
    failing_night(state, 0, "a")
    failing_night(state, 1)
    assert notify(define(f"webhooks: ['{hook.url}']"), "--night", "2026-10-20.1")[0] == 2
    assert not hook.posted


def test_figures_that_got_worse_are_told_with_what_changed(
    define: Callable[[str], Path], hook: Hook, tmp_path: Path
) -> None:
    two_nights(tmp_path / "nightly-state")
    notify(define(f"webhooks: ['{hook.url}']"))
    slow = next(each for each in hook.posted[0]["notices"] if each["kind"] == "got worse")
    assert (
        slow["subject"] == "slow@1.0.0+tf2.17.1" and "latency, x86-64-v3, batch size 1: 5 µs -> 6.5" in slow["lines"][0]
    )
    assert slow["lines"][-1] == "what changed: source: changed"


def test_a_definition_without_notify_and_damaged_memory_are_errors(
    define: Callable[[str], Path], hook: Hook, tmp_path: Path
) -> None:
    failing_night(State(root=tmp_path / "nightly-state"), 0, "a")
    plain = tmp_path / "plain.yaml"
    plain.write_text("registry: registry\nmodels: [{spec: spec.yaml}]\n")
    definition = define(f"webhooks: ['{hook.url}']")
    with reported(SpecError):
        notify(plain)
    (tmp_path / "nightly-state/notices.json").write_text("{")
    with reported(StorageError):
        notify(definition)
    assert not hook.posted


def test_metrics_are_read_by_prometheus_own_parser(tmp_path: Path, define: Callable[[str], Path]) -> None:
    two_nights(tmp_path / "nightly-state")
    invoked(["nightly", "report", str(define("webhooks: [https://a.example/]"))])
    text = next((tmp_path / "nightly-state").glob("nights/2026-11-04.1/report/metrics.prom")).read_text()
    found = {each.name: each.samples for each in text_string_to_metric_families(text)}
    assert {each.labels["outcome"]: each.value for each in found["tfaot_night_tasks"]}["build failed"] == 2
    assert found["tfaot_night_exit_code"][0].value == 26
    broken = next(each for each in found["tfaot_night_task_failing"] if each.labels["model"] == "broken")
    assert broken.value == 1762214400.0 + 365 * 86400, "2026-11-04, midnight in UTC"
    assert [each.labels["model"] for each in found["tfaot_night_task_regressions"]] == ["slow"]
