"""The Python package `cms_tfaot`: what CMSSW's tests find of it in an installation of this tool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.samples import REPOSITORY

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

# As CMSSW does it: the installation's folder is VERSION-HASH, and the test models are found by this file's place.
SCRIPT = """
import pathlib, platform, re, subprocess, sys
import cms_tfaot
root = re.match(r"(.+/[0-9.]+-[^/]+)/lib/.+$", cms_tfaot.__file__)[1]
config = pathlib.Path(root) / "share" / "test_models" / "simple" / "aot_config.yaml"
assert config.is_file(), config
if sys.argv[1] == "program":
    flags = f"--additional-flags=--target_triple={platform.processor()}-pc-linux"
    words = ["-c", config, "-o", "out", "--tool-name", "tfaot-model-test", "--dev", flags]
    subprocess.run([root + "/bin/cms_tfaot_compile", *words], check=True)
else:
    cms_tfaot.tfaot_compile(config, "out", tool_name="tfaot-model-test", dev=True, additional_flags=["--target_cpu", ""])
"""
FILES = {
    "tfaot-model-test.xml",
    *(f"include/tfaot-model-test/{name}.h" for name in ("test_simple_bs1", "test_simple_bs2", "test_simple", "model")),
    *(f"lib/test_simple_{part}.o" for part in ("bs1", "bs2", "common")),
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of the wheel in a folder of its own, with the dependencies of this Python."""
    folder = tmp_path_factory.mktemp("wheel")
    prefix = tmp_path_factory.mktemp("installed") / "1.0.0-0123abcd"
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = folder.iterdir()
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-warn-script-location"]
    subprocess.run([*pip, "--ignore-installed", "--prefix", str(prefix), str(wheel)], check=True, capture_output=True)
    return prefix


@pytest.mark.sweep(night=["program"])
@pytest.mark.parametrize("way", ["program", "function"])
def test_the_test_model_is_found_and_compiled(
    way: str, installed: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    (packages,) = installed.glob("lib/python*/site-packages")
    env = {**os.environ, "TFAOT_HOME": str(shared_home_folder), "PYTHONPATH": str(packages)}
    subprocess.run([sys.executable, "-c", SCRIPT, way], env=env, cwd=tmp_path, check=True)
    made = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert made >= FILES
