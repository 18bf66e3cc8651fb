from __future__ import annotations

from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS
from tfaot_pkg.frontends.toolchain.environment import requirements_file
from tfaot_pkg.provenance.materials import Pin, pins_of

LOCK = """# Made by a tool.
absl-py==2.5.1 \\
    --hash=sha256:286e71c8 \\
    --hash=sha256:721200f2
h5py==3.16.0 ; python_full_version < '3.11' \\
    --hash=sha256:00
"""


def test_the_pins_of_a_lock_file_are_its_packages_with_their_markers() -> None:
    assert pins_of(LOCK) == (
        Pin(name="absl-py", version="2.5.1", marker=""),
        Pin(name="h5py", version="3.16.0", marker="python_full_version < '3.11'"),
    )


def test_every_toolchains_lock_file_pins_tensorflow_and_numpy() -> None:
    for version, toolchain in TOOLCHAINS.items():
        pins = {(pin.name, pin.version) for pin in pins_of(requirements_file(toolchain).read_text())}
        assert ("tensorflow-cpu", version) in pins
        assert "numpy" in {name for name, _ in pins}


def test_a_pins_package_url_is_that_of_the_python_package_index() -> None:
    assert Pin(name="absl-py", version="2.5.1", marker="").purl == "pkg:pypi/absl-py@2.5.1"
