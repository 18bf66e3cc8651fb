"""Addresses as they may be shown: a password or a token in one is never printed, logged or recorded."""

from __future__ import annotations

import re

_USERINFO = re.compile(r"(?<=//)[^/?#\s]*@")
_QUERY = re.compile(r"(?<=[^\s?#])[?#][^\s'\"]*=[^\s'\"]*")
_LONGEST = 200


def without_secrets(text: str) -> str:
    """`text` (an address, or a message with addresses in it) without user names, passwords and query strings."""
    return _QUERY.sub("?...", _USERINFO.sub("", text))


def one_line(text: str) -> str:
    """`text`, which a server may have written, as one printable line of limited length without secrets."""
    shown = without_secrets(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
