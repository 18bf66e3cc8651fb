"""Licences: SPDX expressions pass, others get a note that says what was probably meant."""

from __future__ import annotations

import pytest

from tfaot_pkg.spec.rules import licence_note


@pytest.mark.parametrize(
    "text",
    ["", "MIT", "Apache-2.0", "GPL-3.0-or-later", "MIT OR Apache-2.0", "(MIT AND BSD-3-Clause)", "LicenseRef-CERN",
     "Apache-2.0 WITH LLVM-exception"],
)  # fmt: skip
def test_nothing_is_said_of_expressions(text: str) -> None:
    assert licence_note(text) == ""


@pytest.mark.parametrize(
    ("text", "meant"), [("mit", "MIT"), ("apache-2.0", "Apache-2.0"), ("mit or isc", "MIT OR ISC")]
)
def test_of_other_spellings_the_right_one_is_told(text: str, meant: str) -> None:
    assert licence_note(text) == f"model.license: SPDX writes {text!r} as {meant}"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Apache 2.0", "Apache-2.0"),
        ("Apache License, Version 2.0", "Apache-2.0"),
        ("Apache 2", "Apache-2.0"),
        ("MIT License", "MIT"),
        ("The MIT licence", "MIT"),
        ("BSD 3-Clause", "BSD-3-Clause"),
        ("GPLv3", "GPL-3.0"),
        ("GPL v2", "GPL-2.0"),
        ("CC BY 4.0", "CC-BY-4.0"),
    ],
)
def test_of_near_misses_it_is_asked_what_was_meant(text: str, meant: str) -> None:
    assert f"{text!r} is not an SPDX expression" in licence_note(text)
    assert licence_note(text).endswith(f"did you mean {meant}?")


@pytest.mark.parametrize("text", ["BSD", "proprietary", "for CMS only", "(MIT", "MIT OR", "é\u202e", "a" * 5000])
def test_of_others_it_is_told_what_to_give(text: str) -> None:
    note = licence_note(text)
    assert "is not an SPDX expression" in note and note.endswith("or LicenseRef-NAME for another")
    assert len(note) < 1000 and "\u202e" not in note
