"""A toolchain whose TensorFlow is a tiny wheel, so that making its environment takes seconds and no network."""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, Toolchain, toolchain

TINY_VERSION = "2.17.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """The toolchain, its lock file, and the folder with its wheel."""

    toolchain: Toolchain
    requirements: Path
    wheelhouse: Path


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """A pure Python wheel."""
    info = f"{name}-{version}.dist-info"
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return wheel


def write_lock(path: Path, wheels: Sequence[Path]) -> Path:
    lines = []
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{digest}\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("tiny")
    wheel = write_wheel(
        folder / "wheels",
        "tensorflow_cpu",
        TINY_VERSION,
        {
            "tensorflow/__init__.py": "raise ImportError('nobody may import me')\n",
            "tensorflow/THIRD_PARTY_NOTICES.txt": "notices\n",
            "tensorflow/include/LICENSE": "licence\n",
        },
    )
    return Tiny(
        toolchain=dataclasses.replace(toolchain(DEFAULT_VERSION), version=TINY_VERSION),
        requirements=write_lock(folder / "lock.txt", [wheel]),
        wheelhouse=wheel.parent,
    )
