from __future__ import annotations

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.registry.reader import Requirement


@pytest.mark.parametrize(
    ("text", "meaning", "pinned"),
    [
        ("digits", "tfaot-model-digits", False),
        ("tfaot-model-digits@1.2", "tfaot-model-digits==1.2", True),
        ("digits@1.2rc1", "tfaot-model-digits==1.2rc1", True),
        ("digits >=1, <2", "tfaot-model-digits<2,>=1", False),
        ("digits==1.2", "tfaot-model-digits==1.2", True),
        ("digits==1.*", "tfaot-model-digits==1.*", False),
        ("digits~=1.4", "tfaot-model-digits~=1.4", False),
    ],
)
def test_a_requirement_is_a_name_and_the_versions_that_will_do(text: str, meaning: str, pinned: bool) -> None:
    requirement = Requirement.parse(text)
    assert (str(requirement), requirement.is_pinned) == (meaning, pinned)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "digits 1.0",
        "digits@",
        "digits@new",
        "digits@1.*",
        "digits>=",
        "digits>=1,<<2",
        "../x@1",
        "Digits",
        "digits; rm -rf /",
    ],
)
def test_what_is_no_requirement_is_refused_with_a_hint(text: str) -> None:
    with reported(RegistryError):
        Requirement.parse(text)
