"""Licences as SPDX expressions (https://spdx.org/licenses), which other tools understand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfaot_pkg.spec.names import shown

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
