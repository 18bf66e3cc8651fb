"""Rules for texts of a spec except names (`names.py`): functions from a text to what is wrong with it ("": nothing).

Licences are SPDX expressions (https://spdx.org/licenses), which other tools understand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from tfaot_pkg.spec.types import INPUT_CLASSES
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.wording import shown

MAX_BATCH_SIZE = 65_536
FLAG_PATTERN = r"--[A-Za-z][A-Za-z0-9_]*(=[^\s'\"\\`$]*)?"
GLIBC_PATTERN = r"2\.[0-9]{1,3}"
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def line_fault(text: str) -> str:
    if _CONTROL.search(text):
        return f"must be one line without control characters, got {shown(text)}"
    return f"must have at most 1000 characters, got {len(text)}" if len(text) > 1000 else ""


def text_fault(text: str) -> str:
    bad = _CONTROL_IN_TEXT.search(text)
    return f"must not hold the control character U+{ord(bad[0]):04X}" if bad else ""


def filled_line_fault(text: str) -> str:
    return line_fault(text) if text.strip() else "must not be empty"


def flag_fault(flag: str) -> str:
    if re.fullmatch(FLAG_PATTERN, flag):
        return ""
    return f"must be one flag such as --xla_cpu_enable_fast_math=true, without blanks or quotes, got {shown(flag)}"


def glibc_fault(version: str) -> str:
    if re.fullmatch(GLIBC_PATTERN, version):
        return ""
    return f"must be a version of glibc such as 2.28, got {shown(version)}"


def target_fault(target: str) -> str:
    if target in TARGETS:
        return ""
    return f"there is no target {shown(target)}: there are {', '.join(TARGETS)}"


def weights_fault(weights: str) -> str:
    return "" if weights in ("shared", "embedded") else f"must be shared or embedded, got {shown(weights)}"


def kernels_fault(kernels: str) -> str:
    return "" if kernels in ("auto", "none") else f"must be auto or none, got {shown(kernels)}"


def class_fault(name: str) -> str:
    return "" if name in INPUT_CLASSES else f"must be one of {', '.join(INPUT_CLASSES)}, got {shown(name)}"


def path_fault(path: str) -> str:
    if fault := filled_line_fault(path):
        return fault
    if "$" in path:
        return (
            f"environment variables are not read, got {shown(path)}: "
            "write '{{ env.NAME }}' and give -D NAME=... on the command line"
        )
    return f"must be a path with '/', got {shown(path)}" if "\\" in path else ""


def inner_path_fault(path: str) -> str:
    """Why `path` cannot be a place inside a source that was fetched."""
    if fault := path_fault(path):
        return fault
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        return f"must be a relative path inside the source, got {shown(path)}"
    return ""


def subdir_fault(path: str) -> str:
    return inner_path_fault(path) if path else ""


def digest_fault(digest: str) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        return ""
    return f"must be a SHA-256 digest of 64 hexadecimal digits, got {shown(digest, 70)}"


def revision_fault(revision: str) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{40}", revision):
        return ""
    return f"must be a full commit id of 40 hexadecimal digits (branches and tags move), got {shown(revision)}"


def homepage_fault(url: str) -> str:
    parts = _split_url(url)
    if url == "" or (parts and parts.scheme in ("http", "https") and parts.hostname):
        return ""
    return f"must be an http:// or https:// address, got {shown(url)}"


def archive_url_fault(url: str) -> str:
    """Why `url` cannot be the place of an archive."""
    parts = _split_url(url)
    if parts is None or not _has_place(parts, ("https", "file")):
        return f"must be an https:// or file:// URL, got {shown(url)}"
    return _secret_fault(parts)


def git_url_fault(url: str) -> str:
    """Why `url` cannot be a git repository's: git's `ext::` and options in place of URLs would run commands."""
    if re.fullmatch(r"[A-Za-z0-9_][\w.-]*@[A-Za-z0-9][\w.-]*:[\w./~][\w./~-]*", url):
        return ""
    parts = _split_url(url)
    if parts is None or not _has_place(parts, ("https", "ssh", "file")) or (parts.hostname or "").startswith("-"):
        return f"must be an https://, ssh:// or file:// URL of a git repository, got {shown(url)}"
    return _secret_fault(parts)


def _split_url(url: str) -> SplitResult | None:
    """The parts of `url`; None where it is none, or holds blanks or control characters."""
    if re.search(r"[\s\x00-\x1f\x7f'\"\\`<>]", url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _has_place(parts: SplitResult, schemes: tuple[str, ...]) -> bool:
    if parts.scheme not in schemes:
        return False
    if parts.scheme == "file":
        return parts.netloc in ("", "localhost") and len(parts.path) > 1
    return bool(parts.hostname)


def _secret_fault(parts: SplitResult) -> str:
    return "must not hold a password: specs are published with packages" if parts.password else ""


_WORDS = re.compile(r"\b(the|licen[cs]e|version)\b|,", re.IGNORECASE)


def licence_note(text: str) -> str:
    """What is to be said of the licence `text` of a model; nothing where it is an SPDX expression as SPDX writes it."""
    canonical = _canonical(text)
    if not text or canonical == text:
        return ""
    if canonical:
        return f"model.license: SPDX writes {shown(text)} as {canonical}"
    meant = next(filter(None, map(_canonical, _variants(text))), "")
    instead = (
        f"did you mean {meant}?" if meant else "give an identifier of spdx.org/licenses, or LicenseRef-NAME for another"
    )
    return f"model.license: {shown(text)} is no SPDX expression, so other tools cannot tell what it allows; {instead}"


def _canonical(text: str) -> str:
    """`text` as SPDX writes it; "" where it is no expression."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        return canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        return ""


def _variants(text: str) -> Iterator[str]:
    """What people write for identifiers: `Apache License, Version 2.0`, `BSD 3-Clause`, `GPLv3`, `Apache 2`."""
    words = "-".join(_WORDS.sub(" ", text).split())
    for name in (words, re.sub(r"-?v?(\d)", r"-\1", words, count=1, flags=re.IGNORECASE)):
        yield name
        yield f"{name}.0"
