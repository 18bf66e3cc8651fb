"""The rules of rules.py over HTTP: an ASGI application that serves files of one folder, read-only."""

from __future__ import annotations

import gzip
import json
import os
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from pathlib import Path

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tfaot_pkg.registry.server.rules import ServedFile, find_file

_WHOLE = 4 << 20
"""Bytes. Text up to this size is read at once, so that headers and body are of one state of the file; larger text is
never compressed."""
_WORTH_PACKING = 512  # bytes: gzip saves no packet below that

_SAFE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_MESSAGES = {
    404: "there is no such file in this registry",
    405: "this registry is read-only: only GET and HEAD are allowed",
    503: "the registry's disk failed: try again later",
}


def make_app(root: Path) -> ASGIApp:
    """An application that serves the folder `root` (its own name may be a link; nothing below it may)."""
    folder = root.resolve()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        response = await to_thread.run_sync(_answer, folder, scope)
        await response(scope, receive, send)

    return app


def _answer(root: Path, scope: Scope) -> Response:
    if scope["method"] not in ("GET", "HEAD"):
        return _refusal(405)
    try:
        found = find_file(root, scope["path"])
        if found is not None:
            return _file(found, Headers(scope=scope))
        # Without the slash, the page's relative links would resolve to the folder above.
        if find_file(root, scope["path"] + "/") is not None:
            return Response(None, 301, {**_SAFE, "location": scope["path"] + "/", "cache-control": "no-cache"})
        return _refusal(404)
    except FileNotFoundError:  # `registry collect` removed it after it was found
        return _refusal(404)
    except OSError:
        # Not 404, which would tell clients that the package does not exist.
        return _refusal(503)


def _refusal(status: int) -> Response:
    body = json.dumps({"error": {"status": status, "message": _MESSAGES[status]}}) + "\n"
    headers = {**_SAFE, "cache-control": "no-store"}
    if status == 405:
        headers["allow"] = "GET, HEAD"
    return Response(body, status, headers, "application/json")


def _file(file: ServedFile, request: Headers) -> Response:
    """The response for an existing file. Raises OSError."""
    # A range counts bytes of the file itself, so its answer is never compressed.
    if not file.compressible or file.status.st_size > _WHOLE or "range" in request:
        return _unchanged(file, request) or FileResponse(
            file.path, headers=_headers(file), media_type=file.content_type, stat_result=file.status
        )
    # O_NOFOLLOW: a link may have replaced the file since it was found.
    handle = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as opened:
        file = ServedFile(  # its state now: it may have been replaced since it was found
            path=file.path,
            status=os.fstat(handle),
            content_type=file.content_type,
            cache_control=file.cache_control,
        )
        body = opened.read()
    unchanged = _unchanged(file, request)
    if unchanged is not None:
        return unchanged
    headers = _headers(file)
    if len(body) >= _WORTH_PACKING and _takes_gzip(request):
        body = _packed(body)
        # Other bytes of the same content: a weak tag (RFC 9110, 8.8.1), and no ranges.
        headers |= {"content-encoding": "gzip", "etag": f"W/{file.etag}"}
        del headers["accept-ranges"]
    return Response(body, 200, headers, file.content_type)  # uvicorn drops the body for HEAD


def _headers(file: ServedFile) -> dict[str, str]:
    headers = {
        **_SAFE,
        "etag": file.etag,
        "last-modified": formatdate(file.status.st_mtime, usegmt=True),
        "cache-control": file.cache_control,
        "accept-ranges": "bytes",
    }
    if file.compressible:
        # Else shared caches would give compressed bytes to clients that did not ask for them.
        headers["vary"] = "Accept-Encoding"
    if file.is_page:
        headers["content-security-policy"] = _PAGE_POLICY
    return headers


def _unchanged(file: ServedFile, request: Headers) -> Response | None:
    """304 if the client has this state of the file (RFC 9110, 13.1.2 and 13.1.3)."""
    known = request.get("if-none-match")
    if known is not None:
        tags = [tag.strip().removeprefix("W/") for tag in known.split(",")]
        same = file.etag in tags or "*" in tags
    else:
        same = _not_modified_since(file, request.get("if-modified-since", ""))
    return Response(status_code=304, headers=_headers(file)) if same else None


def _not_modified_since(file: ServedFile, date: str) -> bool:
    try:
        # Dates of HTTP have whole seconds.
        return int(file.status.st_mtime) <= parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False


def _takes_gzip(request: Headers) -> bool:
    for item in request.get("accept-encoding", "").lower().split(","):
        coding, _, parameters = item.partition(";")
        if coding.strip() in ("gzip", "*"):
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


@lru_cache(maxsize=32)
def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)
