"""Publishing refuses a library that needs a newer C library than the spec allows."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.samples import Published, recipe, tfaot
from tfaot_pkg.ground.process import CommandFailed

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]


def test_a_library_above_the_specs_floor_is_not_published(shared_home_folder: Path, tmp_path: Path) -> None:
    document = yaml.safe_load((recipe("wine") / "spec.yaml").read_text())
    document["source"] = {"path": str(recipe("wine"))}
    document["package"] = {"glibc": "2.3"}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(CommandFailed) as caught:
        tfaot(shared_home_folder, "publish", tmp_path / "spec.yaml", "--registry", tmp_path / "r", "--no-conan")
    assert "would not load on systems with glibc 2.3" in caught.value.output
    assert "memcpy@GLIBC_2.14" in caught.value.output or "GLIBC_2.17" in caught.value.output


def test_a_published_package_says_which_glibc_it_needs(published: Published) -> None:
    said = tfaot(published.home, "show", "wine", "--registry", published.registry)
    floor = next(line for line in said.splitlines() if line.startswith("glibc:")).split()[1]
    assert tuple(map(int, floor.split("."))) <= (2, 28)
