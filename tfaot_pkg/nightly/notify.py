"""Sends the notices of a night by mail and to webhooks, and remembers what was sent: notices.json in the state folder.

A notice is remembered for a mailbox or an address as soon as its server took it, so that each is sent once; what a
server did not take is sent by the next call.
"""

from __future__ import annotations

import os
import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from urllib.parse import urlsplit

from tfaot_pkg.errors import NetworkError, SpecError, StorageError
from tfaot_pkg.ground.documents import read, write_indented
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.storage import locked, storage_errors, write_file
from tfaot_pkg.nightly.report.comparison import day_of
from tfaot_pkg.nightly.report.notices import Notice, document_of, heading, text_of
from tfaot_pkg.nightly.report.report import Report
from tfaot_pkg.nightly.types import MAIL_PASSWORD, Mail, Notify, Webhook

_FILE, _SECONDS, _KEPT = "notices.json", 30.0, timedelta(days=400)
"""`_SECONDS` of one answer of a server; what was sent is forgotten after `_KEPT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The notices for one mailbox or address `to`; `fault` says why they were not sent, "" if they were."""

    to: str
    notices: tuple[Notice, ...]
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.to}: {f'not told: {self.fault}' if self.fault else heading(self.notices)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """notices.json: the night in which a notice was sent, by channel and the notice's id."""

    sent: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    format: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Channel:
    """Where notices go: `key` names it in the memory, `to` for people; neither has a secret."""

    key: str
    to: str
    notices: tuple[Notice, ...]
    send: Callable[[Sequence[Notice]], None]


def send(report: Report, notices: Sequence[Notice], notify: Notify, state: Path) -> tuple[Sent, ...]:
    """Send those of `notices` that were not sent yet, and say what became of them.

    Raises SpecError if a variable that `notify` names is not set, or has no address; StorageError.
    """
    missing = [name for name in notify.secrets if not os.environ.get(name)]
    if missing:
        raise SpecError(
            f"notify: the variable {missing[0]} is not set", hint="set it where the night's report is made, as a secret"
        )
    # All of them first: a wrong address is told before anything is sent.
    channels = tuple(_channels(report, notices, notify))
    path, done = state / _FILE, list[Sent]()
    with locked(state / f".{_FILE}.lock", what=f"the notices of {state}"):
        memory = {key: dict(each) for key, each in _read(path).sent.items()}
        for channel in channels:
            known = memory.setdefault(channel.key, {})
            new = tuple(each for each in channel.notices if each.id not in known)
            if not new:
                continue
            fault = _fault_of(channel, new)
            done.append(Sent(to=channel.to, notices=new, fault=fault))
            if not fault:
                known |= dict.fromkeys((each.id for each in new), report.night)
                # At once: if this process is killed, nothing is told twice.
                _write(path, memory, report.night)
    return tuple(done)


def _fault_of(channel: _Channel, notices: Sequence[Notice]) -> str:
    try:
        channel.send(notices)
    except NetworkError as error:
        return error.message
    return ""


def _channels(report: Report, notices: Sequence[Notice], notify: Notify) -> Iterator[_Channel]:
    """A mailbox for each owner, and each address, which gets all notices."""
    mail = notify.mail
    if mail is not None:
        for owner in dict.fromkeys(owner for each in notices for owner in each.owners):
            own = tuple(each for each in notices if owner in each.owners)

            def deliver(new: Sequence[Notice], owner: str = owner) -> None:
                _mail(mail, owner, f"night {report.night}: {heading(new)}", text_of(report, new))

            yield _Channel(key=f"mail {owner}", to=owner, notices=own, send=deliver)
    for hook in notify.webhooks:
        url = _address(hook)

        def post(new: Sequence[Notice], url: str = url) -> None:
            _post(url, document_of(report, new))

        # The path of an address is often its password.
        key, to = f"webhook {sha256_bytes(url.encode())[:32]}", f"the webhook at {urlsplit(url).hostname}"
        yield _Channel(key=key, to=to, notices=tuple(notices), send=post)


def _address(hook: Webhook) -> str:
    if not hook.variable:
        return hook.url
    url = os.environ[hook.variable].strip()
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        raise SpecError(f"notify: the variable {hook.variable} has no address of HTTPS")
    return url


def _mail(mail: Mail, to: str, subject: str, text: str) -> None:
    """Raises NetworkError."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = mail.sender, to, subject
    message["Date"], message["Message-ID"] = formatdate(), make_msgid(domain=mail.sender.rpartition("@")[2])
    # RFC 3834: nobody's holiday notice answers.
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    context = ssl.create_default_context()
    try:
        with (
            smtplib.SMTP_SSL(mail.server, mail.port, timeout=_SECONDS, context=context)
            if mail.security == "tls"
            else smtplib.SMTP(mail.server, mail.port, timeout=_SECONDS)
        ) as server:
            if mail.security == "starttls":
                server.starttls(context=context)
            if mail.user:
                server.login(mail.user, os.environ[MAIL_PASSWORD])
            server.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        # Its text may have the user and what the server said, never the password.
        raise NetworkError(f"{mail.server}:{mail.port}: {error}") from error


def _post(url: str, document: Mapping[str, object]) -> None:
    """Raises NetworkError, without the address: its path may be secret."""
    import requests  # takes 50 ms

    host = urlsplit(url).hostname
    try:
        answer = requests.post(url, json=document, timeout=_SECONDS, allow_redirects=False, stream=True)
    except requests.RequestException as error:
        raise NetworkError(f"{host}: {type(error).__name__}") from None
    with answer:
        if not 200 <= answer.status_code < 300:
            raise NetworkError(f"{host} answers {answer.status_code}")


def _read(path: Path) -> _Memory:
    with storage_errors(f"read {path}"):
        data = path.read_bytes() if path.exists() else b""
    if not data:
        return _Memory()
    hint = "move it away: then all notices are sent again"
    return read(_Memory, data, str(path), error=StorageError, hint=hint)


def _write(path: Path, sent: Mapping[str, Mapping[str, str]], night: str) -> None:
    first = (date.fromisoformat(day_of(night)) - _KEPT).isoformat()
    kept = {key: {id_: when for id_, when in each.items() if when >= first} for key, each in sent.items()}
    with storage_errors(f"write {path}"):
        write_file(path, write_indented(_Memory(sent={key: each for key, each in kept.items() if each})))
