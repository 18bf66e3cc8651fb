from __future__ import annotations

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.package.name import is_package_name, package_meant_by
from tfaot_pkg.registry.files.layout import (
    blob_path,
    index_path,
    is_inside,
    template_fault,
)

DIGEST = "ab" + "c" * 62


@pytest.mark.parametrize(
    ("package", "path"),
    [
        ("tfaot-model-digits", "index/di/gi/tfaot-model-digits"),
        ("tfaot-model-a", "index/a_/__/tfaot-model-a"),
        ("tfaot-model-abc", "index/ab/c_/tfaot-model-abc"),
        ("tfaot-model-jet-tagger", "index/je/t-/tfaot-model-jet-tagger"),
        ("tfaot-model-jet_tagger", "index/je/t_/tfaot-model-jet_tagger"),
    ],
)
def test_an_index_file_lies_under_two_levels_taken_from_the_models_name(package: str, path: str) -> None:
    assert index_path(package) == path


def test_a_blob_lies_under_the_first_two_digits_of_its_digest() -> None:
    assert blob_path(DIGEST) == "blobs/sha256/ab/" + "c" * 62
    assert blob_path(DIGEST, "https://host/{sha256}.blob") == f"https://host/{DIGEST}.blob"


def test_a_model_and_its_package_are_the_same_name() -> None:
    assert package_meant_by("digits") == package_meant_by("tfaot-model-digits") == "tfaot-model-digits"


@pytest.mark.parametrize(
    "name", ["", "Digits", "../x", "a/b", "a.b", "1a", "-rf", "a b", "a\n", "a" * 200, "é", "a" * 64 + ".digits"]
)
def test_what_is_no_name_never_becomes_a_path(name: str) -> None:
    with reported(RegistryError):
        package_meant_by(name)


def test_the_hashed_copies_that_signing_will_add_are_not_packages() -> None:
    assert not is_package_name(f"{DIGEST}.tfaot-model-digits")
    assert not is_package_name(".tfaot-model-digits.x1y2.part")


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("blobs/sha256/{prefix}/{rest}", ""),
        ("{sha256}", ""),
        ("{0}", "unknown field"),
        ("{sha256.__class__}", "unknown field"),
        ("{sha256!r}", "format specifications"),
        ("{sha256:>999999999}", "format specifications"),
        ("{prefix}", "must contain"),
        ("{", ""),
        (7, "must be a string"),
    ],
)
def test_a_download_template_is_checked(template: object, fault: str) -> None:
    if template == "{":
        assert template_fault(template)
    else:
        assert fault in template_fault(template) if fault else template_fault(template) == ""


def test_a_template_that_leaves_the_folder_is_recognized() -> None:
    assert is_inside("blobs/{sha256}")
    assert not any(map(is_inside, ["/etc/{sha256}", "../{sha256}", "https://host/{sha256}"]))
