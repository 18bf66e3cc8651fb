"""Downloads, counted from a server's access log.

Clients chose paths, agents and referrers: only lines of the expected form count, and only digests of blobs are kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.storage import storage_errors

DAYS = 30
_LONGEST = 8192  # bytes: nginx (8 KB) and Apache (8,190 bytes) accept no longer line of a request by default
_REQUEST = r'"(?P<method>[A-Z]{1,16}) (?P<path>/[!-~]{0,2000}) HTTP/\d(?:\.\d)?" (?P<status>\d{3})'
# The common and the combined format of nginx and Apache, and that of `tfaot-pkg serve`, whose clients have ports.
_COMBINED = re.compile(
    r"(?P<client>\S{1,255}) \S{1,255} \S{1,255} \[(?P<day>\d{2}/[A-Z][a-z]{2}/\d{4}):\d{2}:\d{2}:\d{2} [+-]\d{4}\] "
    + _REQUEST
    + r' (?:\d{1,20}|-)(?: "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)")?(?: .*)?',
    re.ASCII,
)
_SERVED = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})T\d{2}:\d{2}:\d{2}[+-]\d{4} (?P<client>\S{1,255}):\d{1,5} - " + _REQUEST + r".{0,40}",
    re.ASCII,
)
_BLOB = re.compile(r"(?<![0-9a-f])(?:([0-9a-f]{2})/([0-9a-f]{62})|([0-9a-f]{64}))(?![0-9a-f])")
_ROBOT = re.compile(r"bot\b|bot[/;]|crawl|spider|slurp|scanner|archiver", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloads:
    """Downloads of blobs, by SHA-256, in the 30 days that end with `until` (ISO 8601, "" if there is no log)."""

    until: str = ""
    blobs: Mapping[str, int] = field(default_factory=dict)


def downloads_of(logs: Sequence[Path]) -> Downloads:
    """Count the downloads in access logs; their newest line ends the 30 days.

    A client counts once for a blob and a day, however many ranges it asked for; robots that say so do not count.
    Raises RegistryError for a file that is no such log, StorageError.
    """
    seen: set[tuple[date, str, str]] = set()
    newest = date.min
    for log in logs:
        understood = False
        for line in _lines(log):
            found = _COMBINED.fullmatch(line) or _SERVED.fullmatch(line)
            day = _day(found["day"]) if found else None
            if found is None or day is None:
                continue
            understood, newest = True, max(newest, day)
            if blob := _downloaded(found):
                seen.add((day, found["client"], blob))
        if not understood:
            hint = "--log takes the common or combined format of nginx and Apache, or what tfaot-pkg serve prints"
            raise RegistryError(f"{log}: contains no request in a known format", hint=hint)
    if newest == date.min:
        return Downloads()
    counts = Counter(blob for day, _, blob in seen if newest - day < timedelta(days=DAYS))
    return Downloads(until=newest.isoformat(), blobs=dict(sorted(counts.items())))


def _lines(log: Path) -> Iterator[str]:
    """The lines of a log without those that are longer than a request may be."""
    with storage_errors(f"read {log}"), log.open("rb") as file:
        # In pieces: a log without line ends must not fill the memory.
        begins = True
        while line := file.readline(_LONGEST):
            ends = line.endswith(b"\n")
            if begins and (ends or len(line) < _LONGEST):
                yield line.decode("ascii", "replace").rstrip("\r\n")
            begins = ends


def _day(text: str) -> date | None:
    try:
        return datetime.strptime(text, "%d/%b/%Y" if "/" in text else "%Y-%m-%d").date()  # noqa: DTZ007 (a day)
    except ValueError:
        return None


def _downloaded(line: re.Match[str]) -> str:
    """The digest of the blob that a request brought, "" for all others."""
    agent = line.groupdict().get("agent") or ""
    # 206 is one of several ranges, which the caller counts once; 304 brought nothing, because the client had the blob.
    if line["method"] != "GET" or line["status"] not in ("200", "206") or _ROBOT.search(agent):
        return ""
    found = _BLOB.search(line["path"])
    return (found[3] or found[1] + found[2]) if found else ""
