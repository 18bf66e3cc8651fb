"""What `publish` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tfaot_pkg.cli.build import published_text
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.pipeline.publish import Publication


@pytest.mark.parametrize("created", [True, False])
def test_a_new_registry_is_the_first_thing_that_is_said(tmp_path: Path, created: bool) -> None:
    """A mistyped folder is a new registry, too."""
    entry = package_of(tmp_path, "digits", "1.0", tiny_files("digits", "1.0")).entry
    done = Publication(
        status="published", registry="/some/mistyped", created=created, signed=False, entry=entry, conan=None,
        engine=None, validated=None, hashes=None,
    )  # fmt: skip
    first = "made a new registry: /some/mistyped"
    lines = published_text(done, "some/mistyped").splitlines()
    assert (lines[0] == first, first in lines) == (created, created)
    assert lines[-2:] == [
        "tfaot-model-digits@1.0: published in /some/mistyped (unsigned)",
        "use it: tfaot-pkg install digits@1.0 --registry some/mistyped",
    ]
    document = plain(done)
    assert isinstance(document, dict) and document["created"] is created
