"""Where things lie in a registry: names and paths only, nothing is read or written here.

    config.json                                    format version, download template, capabilities
    channels.json                                  names of channels, if there are any (registry/channels.py)
    index/di/gi/tfaot-model-digits                 one JSON line per version (registry/entry.py), oldest first
    search/XX.jsonl                                what search shows of each package (registry/index.py)
    blobs/sha256/ab/cdef...                        content by digest, never overwritten

In a signed registry index files, search shards and `channels.json` exist under their hashed names only
(`index/di/gi/SHA256.NAME`), and

    metadata/N.ROLE.json, metadata/timestamp.json  TUF's metadata (registry/trust/roles.py)

says which of them hold, and what `config.json` is: replacing `timestamp.json` is the one moment at which a change
begins to exist.

The prefix in the index is taken from the package's name: nearly all packages begin with `tfaot-model-`, which
would put them in one folder under Cargo's rule. It always has two levels; short names are filled up with `_`
(`a` -> `a_/__`), so that no path rule depends on a name's length.

All files have names that never need escaping in a URL. Names that begin with `.` are temporary or locks, and
no part of the registry. Package names hold no dot, so `HASH.tfaot-model-digits` beside an index file (TUF's
consistent snapshots) can never be taken for a package.
"""

from __future__ import annotations

import re
import string

from tfaot_pkg.spec.rules import PACKAGE_PREFIX

FORMAT = 1
"""Version of this layout. A reader rejects any other."""

CONFIG = "config.json"
CHANNELS = "channels.json"
INDEX = "index"
SEARCH = "search"
LOCK = ".publish.lock"
DOWNLOAD = "blobs/sha256/{prefix}/{rest}"
"""Where a blob is: `{prefix}` the first two digits of its SHA-256, `{rest}` the others, `{sha256}` all of them."""

PREFIX = "prefix"
"""Role of the blob that holds the install tree (registry/archive.py). An entry may have other roles as well."""

LATENCY = "latency"
"""Role of the blob that holds times measured when the version was published (verify/latency.py)."""

BENCH = "bench"
"""Role of the blob that holds times of other engines, if it was published with any (measure/bench/results.py)."""

ATTESTATION = "attestation"
"""Role of the blob that holds the signed provenance of a version in a signed registry (registry/attestation.py)."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
# No `..`, no hidden name, nothing that needs escaping.
_FILE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.+@=,~-]*/)*[A-Za-z0-9_][A-Za-z0-9_.+@=,~-]*", re.ASCII)


def is_sha256(text: object) -> bool:
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def is_file_path(text: str) -> bool:
    """Whether `text` can be the path of a file of a registry; then it is below the registry's folder."""
    return _FILE.fullmatch(text) is not None


def index_path(package: str) -> str:
    """Path of the index file of `package`, a valid name, relative to the registry."""
    padded = package.removeprefix(PACKAGE_PREFIX).ljust(4, "_")
    return f"{INDEX}/{padded[:2]}/{padded[2:4]}/{package}"


def blob_path(sha256: str, template: str = DOWNLOAD) -> str:
    """Path of a blob relative to the registry, or its URL if the template is one."""
    return template.format(prefix=sha256[:2], rest=sha256[2:], sha256=sha256)


def template_fault(template: object) -> str:
    """Why `template` cannot be a download template; empty if it can."""
    if not isinstance(template, str):
        return "must be a string"
    try:
        fields = [(name, spec, conversion) for _, name, spec, conversion in string.Formatter().parse(template)]
    except ValueError as error:
        return str(error)
    named = {name for name, _, _ in fields if name is not None}
    # A template may come from a server; format specifications could ask for strings of any length.
    if any(spec or conversion for _, spec, conversion in fields):
        return "must not contain format specifications"
    if not named <= {"prefix", "rest", "sha256"}:
        return f"unknown field {min(named - {'prefix', 'rest', 'sha256'})!r}"
    if "sha256" not in named and not {"prefix", "rest"} <= named:
        return "must contain {sha256}, or {prefix} and {rest}"
    return ""


def is_inside(template: str) -> bool:
    """Whether the template's blobs are below the registry's own folder."""
    # `..` would let a template name files outside of the registry.
    return "://" not in template and not template.startswith("/") and ".." not in template.split("/")
