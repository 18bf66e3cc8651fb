"""Names and passwords for OCI registries, as docker, podman, skopeo and oras keep them; and what is sent of them.

Files: the one that REGISTRY_AUTH_FILE names, alone; else podman's (containers-auth.json(5)), then docker's. A registry
asks for them with a challenge (RFC 9110, 11.6.1): `Basic`, or `Bearer` with the address of a server of tokens
(https://distribution.github.io/distribution/spec/auth/token/). They go to the registry itself, and to the server of
tokens that it names; never to where it redirects, and never into a message.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.http.client import Answer, Client
from tfaot_pkg.ground.http.site import Patience, one_line
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.registry.oci.reference import Reference

FILE = "REGISTRY_AUTH_FILE"
_HELPER = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_HELPER_TIME = 60
_TOKEN_USER = "<token>"  # noqa: S105 (docker's name for: the password is an identity token)
_CHALLENGE = re.compile(r'(?P<name>[A-Za-z_]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))', re.ASCII)
_LONGEST = 1 << 16
"""Bytes of a challenge, and of a server of tokens' answer, that are read at most."""
_VISIBLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What is known of a user at a registry: name and password, or an identity token. No `repr` shows them."""

    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of `Authorization`; empty if there is no password."""
        if not self.password:
            return ""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def files_of_user() -> tuple[Path, ...]:
    """The files that may have credentials, in the order in which they are asked."""
    if given := os.environ.get(FILE):
        return (Path(given),)
    home = Path.home()
    run_time, docker = os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("DOCKER_CONFIG")
    return (
        *([Path(run_time) / "containers" / "auth.json"] if run_time else []),
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers" / "auth.json",
        (Path(docker) if docker else home / ".docker") / "config.json",
    )


def credentials_for(reference: Reference, files: tuple[Path, ...] | None = None) -> Credentials:
    """Those for a repository; empty if nobody logged in. Raises NetworkError (a damaged file), StorageError."""
    for file in files_of_user() if files is None else files:
        with storage_errors(f"read {file}"):
            try:
                data = file.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                continue
        try:
            document = read_json(data)
            found = _in_file(document if isinstance(document, dict) else {}, reference)
        except (ValueError, AttributeError, TypeError):
            # Not its text, which has passwords.
            raise NetworkError(f"{file} is damaged", hint=f"log in again: docker login {reference.host}") from None
        if found is not None:
            return found
    return Credentials()


def _in_file(document: Mapping[str, Any], reference: Reference) -> Credentials | None:
    helpers, auths = document.get("credHelpers") or {}, document.get("auths") or {}
    # Podman keeps credentials of parts of a registry; docker wrote addresses.
    names = [
        *_parents(f"{reference.host}/{reference.repository}"),
        f"https://{reference.host}",
        f"http://{reference.host}",
    ]
    for name in names:
        if name in helpers:
            return _asked(helpers[name], name)
        for entry in (auths.get(name), auths.get(f"{name}/"), auths.get(f"{name}/v1/"), auths.get(f"{name}/v2/")):
            if entry and (found := _of_entry(entry)):
                return found
    return _asked(store, reference.host) if (store := document.get("credsStore")) else None


def _parents(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def _of_entry(entry: Mapping[str, Any]) -> Credentials | None:
    user, _, password = base64.b64decode(entry.get("auth") or "", validate=True).decode().rstrip("\0").partition(":")
    user, password = user or entry.get("username") or "", password or entry.get("password") or ""
    found = Credentials(user=user, password=password, identity=entry.get("identitytoken") or "")
    return found if found.password or found.identity else None


def _asked(helper: str, name: str) -> Credentials | None:
    """What the program `docker-credential-HELPER` has for a registry; None if it has nothing."""
    if not _HELPER.fullmatch(helper):
        raise ValueError("not a helper")
    try:
        done = run([f"docker-credential-{helper}", "get"], stdin=name.encode(), timeout=_HELPER_TIME)
    except CommandFailed as error:
        if "credentials not found" in error.output:
            return None
        raise NetworkError(
            f"docker-credential-{helper}, which has the password for {name}, failed: {error.reason}",
            hint=f"log in again: docker login {name}",
        ) from None
    answer = read_json(done.stdout)
    if answer["Username"] == _TOKEN_USER:
        return Credentials(identity=answer["Secret"])
    return Credentials(user=answer["Username"], password=answer["Secret"])


@dataclass(slots=True, kw_only=True)
class Login:
    """Answers a registry's challenges (ground/http/client.py, `Authorization`)."""

    reference: Reference
    patience: Patience
    credentials: Credentials = field(default_factory=Credentials)
    _value: str = field(init=False, default="", repr=False)
    _scope: str = field(init=False, default="")
    """The widest that was asked for: a thread that reads must not replace the token of one that writes."""
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def header(self, url: str) -> str:
        return self._value if self._is_ours(url) else ""

    def challenged(self, answer: Answer, sent: str) -> bool:
        # A server that we were redirected to must not get to know who asks.
        if not self._is_ours(answer.url):
            return False
        scheme, _, rest = answer.headers.get("WWW-Authenticate", "")[:_LONGEST].strip().partition(" ")
        given = {each["name"].lower(): each["quoted"] or each["plain"] or "" for each in _CHALLENGE.finditer(rest)}
        with self._lock:
            if scheme.lower() == "basic":
                self._value = self.credentials.basic
            elif scheme.lower() == "bearer":
                self._scope = max(self._scope, given.get("scope", ""), key=len)
                self._value = f"Bearer {self._token({**given, 'scope': self._scope})}"
            return bool(self._value) and self._value != sent

    def _is_ours(self, url: str) -> bool:
        return url.startswith(self.reference.address.url)

    def _token(self, given: Mapping[str, str]) -> str:
        """A token of the server that the challenge names. Raises NetworkError."""
        realm = given.get("realm", "")
        site = self.reference.site
        fault = site.fault(realm, self.reference.address.url)
        parts = urlsplit(realm) if not fault else None
        if parts is None or "@" in parts.netloc or not _VISIBLE.fullmatch(realm):
            raise NetworkError(
                f"{self.reference}: the registry asks for a login at {one_line(realm) or 'no address'}, which is not "
                f"used: {fault or 'that is not an address'}",
                hint=site.tell,
            )
        asked = {name: given[name] for name in ("service", "scope") if given.get(name)}
        # Nothing but this server is told who asks.
        alone = replace(site, fault=_no_redirects)
        client = Client(alone, self.patience, _Sender(value=self.credentials.basic))
        try:
            return self._token_of(client, urlunsplit(parts._replace(fragment="")), asked)
        finally:
            client.close()

    def _token_of(self, client: Client, realm: str, asked: Mapping[str, str]) -> str:
        whole = self.patience.document
        if self.credentials.identity:
            form = {"grant_type": "refresh_token", "client_id": "tfaot-pkg", "refresh_token": self.credentials.identity}
            body = io.BytesIO(urlencode({**form, **asked}).encode())
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            with client.ask(realm, kind, whole, method="POST", body=body) as answer:
                return self._token_in(answer, realm)
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(asked)}" if asked else realm
        with client.ask(url, {}, whole) as answer:
            return self._token_in(answer, realm)

    def _token_in(self, answer: Answer, realm: str) -> str:
        shown = one_line(realm)
        if answer.status != 200:
            raise NetworkError(f"{shown}: the login failed: {answer.status}", hint=self.reference.site.login)
        data = bytearray()
        for chunk in answer.chunks():
            data += chunk
            if len(data) > _LONGEST:
                raise NetworkError(f"{shown}: the answer to the login is too long", hint=self.reference.site.tell)
        try:
            document = json.loads(data)
            token = document.get("token") or document["access_token"]
            if _VISIBLE.fullmatch(token):
                return str(token)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            pass
        raise NetworkError(f"{shown}: the answer to the login has no token", hint=self.reference.site.tell)


def _no_redirects(*_: str) -> str:
    return "a server of tokens must answer itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sender:
    """The same name and password for every request, as a server of tokens wants them, before it asks."""

    value: str = field(repr=False)

    def header(self, url: str) -> str:
        return self.value

    def challenged(self, answer: Answer, sent: str) -> bool:
        return False


def client_for(reference: Reference, patience: Patience) -> Client:
    """A client of that registry, which says who asks if the user has logged in. Raises as `credentials_for`."""
    login = Login(reference=reference, patience=patience, credentials=credentials_for(reference))
    return Client(reference.site, patience, login)
