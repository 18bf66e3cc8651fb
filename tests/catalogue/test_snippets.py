"""The blocks of a package's page, pasted into a shell with an empty home, against the registry that serves the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.catalogue.conftest import Browser
from tests.commands import completed
from tests.registry.signing import make_signed
from tests.samples import Published
from tests.server.conftest import tfaot_server
from tfaot_pkg.catalogue.render import FOLDER, render
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.spec.rules import package_name

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]

PROGRAMS = ["cmake", "require", "conan", "pkgconfig", "python", "c"]
"""The blocks that print answers."""


@pytest.fixture(scope="module")
def pages(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a signed registry with the sample models, whose catalogue was not told an address."""
    theirs, ours = FolderRegistry.open(published.registry), make_signed(tmp_path_factory.mktemp("signed"))
    for model in ("digits", "wine"):
        entry = theirs.resolve(model)
        blobs: dict[str, Path | bytes] = {}
        for role, blob in entry.blobs.items():
            with theirs.open_blob(blob) as file:
                blobs[role] = file.read()
        ours.publish(entry, blobs)
    render(ours, ours.root / FOLDER)
    with tfaot_server(ours.root) as (_, url):
        yield url


@pytest.mark.sweep("digits-pkgconfig python", night=["wine-cmake*"])
@pytest.mark.parametrize("programs", [["pkgconfig", "python"], PROGRAMS], ids=" ".join)
@pytest.mark.parametrize("model", ["digits", "wine"])
def test_blocks_of_a_page_work_when_they_are_pasted(
    model: str,
    programs: Sequence[str],
    pages: str,
    start_browser: Callable[..., Browser],
    require_program: Callable[[str], str],
    tmp_path: Path,
) -> None:
    require_program("pkg-config")
    browser = start_browser()
    browser.open(f"{pages}{FOLDER}/packages/{package_name(model)}/index.html")
    script = "return [...document.querySelectorAll('.snippet code')].map((e) => [e.id.slice(5), e.textContent])"
    blocks = dict(browser.driver.execute_script(script))
    inputs = ["inputs"] * (model == "digits")  # a row of 64 numbers is in a file, those of 11 and 2 in the programs
    assert list(blocks) == ["install", *inputs, "cpp", "cmake", "require", "conan", "pkgconfig", "scram", "python", "c"]
    assert f"registry add models {pages} \\\n  --fingerprint " in blocks["install"]
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    environment = {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/local/bin:/usr/bin:/bin",
    }

    def paste(name: str) -> str:
        done = completed(["bash", "-e", "-c", blocks[name]], cwd=tmp_path / "here", env=environment, timeout=300)
        assert done.returncode == 0, f"{name}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    for name in ("install", *inputs, "cpp"):
        paste(name)
    program = (tmp_path / "here" / "main.cpp").read_text()
    expected = [line.rpartition(": ")[2].split() for line in re.findall("//.*: .*", program)]
    assert expected
    for name in programs:
        lines = [re.sub(r"[\[\]]", " ", line) for line in paste(name).splitlines()[-len(expected) :]]
        printed = [np.array(line.split(), float) for line in lines]
        for ours, theirs in zip(printed, expected, strict=True):
            np.testing.assert_allclose(ours, np.array(theirs, float), rtol=1e-3, atol=1e-4, err_msg=name)
    assert blocks["scram"].splitlines()[0].startswith("sed ")
    (tmp_path / "here" / "scram.sh").write_text(blocks["scram"].splitlines()[0])
    subprocess.run(["bash", "-e", "scram.sh"], cwd=tmp_path / "here", env=environment, check=True)
    assert f"{tmp_path}/here/external" in (tmp_path / "here" / f"{package_name(model)}.xml").read_text()
