"""The conda recipe that a release gives, from what its wheel says."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import yaml

from tests.release.conftest import ROOT
from tools.release_conda import write_recipe

_METADATA = """\
Metadata-Version: 2.4
Name: tfaot-pkg
Version: 0.3.0
Summary: one: two
License-Expression: Apache-2.0
Requires-Python: <3.14,>=3.10
Project-URL: Homepage, https://example.org/group/tfaot-pkg
Requires-Dist: conan<3,>=2.20
Requires-Dist: ninja>=1.11
Requires-Dist: boto3>=1.36; extra == 's3'

README
"""


def test_the_recipe_has_the_release_and_what_every_installation_needs(tmp_path: Path) -> None:
    wheel = tmp_path / "tfaot_pkg-0.3.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tfaot_pkg-0.3.0.dist-info/METADATA", _METADATA)
        archive.writestr(
            "tfaot_pkg-0.3.0.dist-info/entry_points.txt", "[console_scripts]\ntfaot-pkg = tfaot_pkg:main\n"
        )
    source = tmp_path / "tfaot_pkg-0.3.0.tar.gz"
    recipe = yaml.safe_load(write_recipe(tmp_path / "conda", wheel, source, "ab" * 32).read_text())
    assert recipe["package"] == {"name": "tfaot-pkg", "version": "0.3.0"}
    assert recipe["source"] == {"path": "../tfaot_pkg-0.3.0.tar.gz", "sha256": "ab" * 32}
    assert recipe["requirements"]["run"] == ["__linux", "python <3.14,>=3.10", "conan <3,>=2.20", "ninja >=1.11"]
    assert recipe["build"]["python"]["entry_points"] == ["tfaot-pkg = tfaot_pkg:main"]
    assert recipe["about"]["homepage"] == "https://example.org/group/tfaot-pkg"


def test_the_image_needs_what_its_context_has_and_no_root() -> None:
    text = (ROOT / "share/container/Containerfile").read_text()
    assert re.findall("^COPY (.*) /opt/release/$", text, re.MULTILINE) == ["requirements.txt tfaot_pkg-*.whl"]
    assert re.findall("^USER (.*)$", text, re.MULTILINE) == ["1000:1000"]
