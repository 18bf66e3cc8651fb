"""Texts of the model's and of its author's that would be code where they are written to: C++, CMake, XML, pkg-config, HTML."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from tests.bad_input.conftest import CommandLine, tree, write_spec

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

INPUT = 'in "put" */ }} ${HOME} \\'
OUTPUT = "sortie <é> --> ]] $(id)\n#define x"
DESCRIPTION = 'Größe "µ" \\ */ --> ]]> ]=] \'; touch owned #\nsecond line }} ${CMAKE_COMMAND} $(touch owned) @x@ ??/\n\n</tool> \\'
CMAKE = """\
cmake_minimum_required(VERSION 3.15)
project(consumer LANGUAGES CXX)
find_package(tfaot-model-odd-names REQUIRED)
add_executable(consumer consumer.cpp)
set_target_properties(consumer PROPERTIES CXX_STANDARD 17)
target_compile_options(consumer PRIVATE -Wall -Wextra -Werror)
target_link_libraries(consumer PRIVATE tfaot-model-odd-names::tfaot-model-odd-names)
"""


@pytest.fixture(scope="module")
def prefix(
    dense_registry: Path, shared_home_folder: Path, models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Where the model with odd names is installed after it went through a registry and through Conan."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "scratch").mkdir()
    tfaot = CommandLine(home=shared_home_folder, scratch=folder / "scratch")
    texts = {"description": DESCRIPTION, "author": 'A. "Uthor" <a@example.org> */ -->', "license": "MIT */ -->"}
    spec = write_spec(folder / "spec.yaml", models["odd_names"], model=texts)
    registry = folder / "registry"
    tfaot.works("publish", spec, "--registry", registry)
    tfaot.works("install", "odd_names", "--registry", registry, "--prefix", folder / "prefix")
    shown = tfaot.works("show", "odd_names", "--registry", registry)
    assert shown["description"] == DESCRIPTION
    assert [tensor["name"] for tensor in shown["signature"]["inputs"]] == [INPUT]
    return folder / "prefix"


@pytest.mark.nightly
def test_a_consumer_builds_with_cmake_and_reads_the_names_as_they_are(prefix: Path, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("consumer.cpp"), tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    build = tmp_path / "build"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    options = ["-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}"]
    for argv in (["cmake", "-S", str(tmp_path), "-B", str(build), *options], ["cmake", "--build", str(build)]):
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    printed = subprocess.run([build / "consumer"], capture_output=True, check=True).stdout.decode()
    assert printed == f"{INPUT}|{OUTPUT}|2 4 6 8\n"
    assert not list(tmp_path.rglob("owned"))


@pytest.mark.nightly
def test_every_other_file_is_well_formed_and_says_the_same(prefix: Path, require_program: Callable[[str], str]) -> None:
    tool = ET.parse(prefix / "etc" / "scram.d" / "tfaot-model-odd-names.xml").getroot()
    assert tool.get("name") == "tfaot-model-odd-names"
    environment = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    pkg_config = [require_program("pkg-config"), "--libs", "--print-errors", "tfaot-model-odd-names"]
    libraries = subprocess.run(pkg_config, env=environment, capture_output=True, text=True, check=True).stdout
    assert libraries.split()[-1] == "-ltfaot-model-odd-names"
    share = prefix / "share" / "tfaot-model-odd-names"
    for path in share.glob("*.json"):
        json.loads(path.read_text())
    kept = yaml.safe_load((share / "spec.yaml").read_text())
    assert kept["model"]["description"] == DESCRIPTION
    assert not [name for name in tree(prefix) if "owned" in name]
