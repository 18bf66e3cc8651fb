"""The known toolchains."""

from __future__ import annotations

import re

import pytest
from packaging.specifiers import SpecifierSet

from tests.toolchains import chosen
from tests.wording import reported
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, TOOLCHAINS, toolchain
from tfaot_pkg.frontends.toolchain.environment import identity_of, requirements_file
from tfaot_pkg.frontends.toolchain.pinned import requirement_names

_VERSIONS = list(TOOLCHAINS)


def test_an_unknown_version_is_refused_and_the_known_ones_are_named() -> None:
    with reported(ToolchainError) as caught:
        toolchain("1.2.3")
    assert all(version in caught.value.hint for version in TOOLCHAINS)


def test_the_default_is_tested_with_every_change() -> None:
    assert toolchain(DEFAULT_VERSION).tested == "always"


def test_further_toolchains_are_tested_if_they_are_named() -> None:
    assert chosen("") == ("2.17.1", "2.21.0")
    assert chosen("2.19.1") == ("2.17.1", "2.19.1", "2.21.0")
    assert chosen("all") == tuple(TOOLCHAINS)
    with pytest.raises(ValueError, match=r"no toolchain 1\.2\.3"):
        chosen("1.2.3, 2.19.1")


@pytest.mark.parametrize("version", _VERSIONS)
def test_every_python_that_this_tool_runs_on_suits(version: str) -> None:
    assert all(f"{python}.0" in SpecifierSet(toolchain(version).python) for python in ("3.10", "3.11", "3.12"))


@pytest.mark.parametrize("version", _VERSIONS)
def test_every_requirement_is_pinned_with_hashes_and_no_host_is_named(version: str) -> None:
    text = requirements_file(toolchain(version)).read_text()
    assert f"tensorflow-cpu=={version} \\\n" in text
    assert "://" not in text and "index" not in text and "find-links" not in text
    entries = re.split(r"\n(?=\w)", text.split("\n", 2)[2])
    assert len(entries) > 20
    assert all(re.match(r"[\w-]+==[\w.]+( ; [^\n]+)? \\\n    --hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


def test_each_toolchain_has_an_identity_of_its_own() -> None:
    identities = {identity_of(each, requirements_file(each)) for each in TOOLCHAINS.values()}
    assert len(identities) == len(TOOLCHAINS)


def test_a_name_that_is_pinned_twice_for_different_pythons_counts_once() -> None:
    text = "# made\nabsl-py==2.5 \\\n    --hash=sha256:aa\nnumpy==1 ; python_version < '3.14' \\\n    --hash=sha256:bb\nnumpy==2 ; x\n"
    assert requirement_names(text) == ["absl-py", "numpy"]
