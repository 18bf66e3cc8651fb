"""Wheels and conda packages of a sample model with their clients: pip, CMake, pkg-config, and conda's solver."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.kept import kept
from tests.samples import REPOSITORY, Published, Sample, assert_agrees, recipe, tfaot
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run

TOOLS = Path(sys.executable).parent
ACCURATE = "accuracy on 360 held-out images: 99.2 %"
_CALL = """
import importlib.util, sys
import numpy as np
from tfaot_model_digits import RunError, __version__, load, model
assert importlib.util.find_spec("tfaot_pkg") is None and __version__ == "1.0.0"
rows = np.load(sys.argv[1])
found = model(image=rows)
np.savez(sys.argv[2], **found)
assert all((load(threads=2)(rows)[name] == each).all() for name, each in found.items())
try:
    model(image=rows[:, :3])
except RunError as error:
    assert "image" in str(error)
"""


def environment(**more: str) -> dict[str, str]:
    """A consumer's: CMake and Ninja, the system's compilers, and nothing of this tool."""
    return {"PATH": f"{TOOLS}{os.pathsep}/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C", **more}


@pytest.fixture(scope="session")
def installed(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with NumPy, into which pip has installed the wheel of the digits."""
    root = tmp_path_factory.mktemp("a wheel")
    tfaot(published.home, "export", "digits@1.0.0", "--registry", published.registry, "--wheel", root / "wheels")
    run([sys.executable, "-m", "venv", "--without-pip", root / "venv"])
    python = root / "venv" / "bin" / "python"
    packages = Path(np.__file__).parent.parent
    (root / "numpy").mkdir()
    for path in [*packages.glob("numpy"), *packages.glob("numpy.libs"), *packages.glob("numpy-*.dist-info")]:
        (root / "numpy" / path.name).symlink_to(path)
    (site,) = (root / "venv" / "lib").glob("python*/site-packages")
    (site / "numpy.pth").write_text(f"{root / 'numpy'}\n")
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "--disable-pip-version-check",
        "--python",
        python,
    ]
    wheels = [*(root / "wheels").iterdir()]
    run([*pip, "install", "--quiet", "--no-index", "--no-compile", *wheels], env=environment(), timeout=120)
    return python


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_numpy_alone_calls_a_model_from_its_wheel(
    installed: Path, samples: Mapping[str, Sample], tmp_path: Path
) -> None:
    sample = samples["digits"]
    np.save(tmp_path / "rows.npy", sample.inputs["image"])
    run([installed, "-I", "-c", _CALL, tmp_path / "rows.npy", tmp_path / "answers.npz"], env=environment())
    with np.load(tmp_path / "answers.npz") as answers:
        for name, theirs in sample.answers.items():
            assert_agrees(answers[name], theirs)
    assert "digits 1.0.0" in run([installed, "-m", "tfaot_model_digits"], env=environment()).stdout


@pytest.mark.nightly
@pytest.mark.needs_tensorflow
@pytest.mark.parametrize("kind", ["OFF", "ON"])
def test_cmake_and_pkg_config_find_a_model_in_its_wheel(installed: Path, tmp_path: Path, kind: str) -> None:
    printed = run([installed, "-m", "tfaot_model_digits", "--prefix"], env=environment()).stdout.strip()
    accuracy(tmp_path, printed, kind)
    in_c(tmp_path, run([installed, "-m", "tfaot_model_digits", "--pkg-config"], env=environment()).stdout.strip())


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_cmake_and_pkg_config_find_a_model_through_current_of_a_tree(published: Published, tmp_path: Path) -> None:
    tfaot(published.home, "export", "digits", "--registry", published.registry, "--tree", tmp_path / "built")
    (tmp_path / "built").rename(tmp_path / "shared")
    prefix = tmp_path / "shared" / "tfaot-model-digits" / "current" / platform.machine()
    accuracy(tmp_path, str(prefix), "ON")
    in_c(tmp_path, str(prefix / "lib" / "pkgconfig"))


def in_c(place: Path, folder: str, *options: str) -> None:
    """Builds the example in C with what `pkg-config OPTIONS` says by the files in `folder`, and runs it."""
    variables = environment(PKG_CONFIG_PATH=folder)
    flags = run(["pkg-config", "--cflags", "--libs", *options, "tfaot-model-digits"], env=variables).stdout
    source = REPOSITORY / "examples" / "c" / "main.c"
    run(["cc", "-std=c11", source, *shlex.split(flags), "-o", place / "in-c"], env=environment(), timeout=60)
    loading = environment(LD_LIBRARY_PATH=str(Path(folder).parent))
    done = run([place / "in-c", recipe("digits") / "data" / "held-out.csv"], env=loading, timeout=60)
    assert ACCURATE in done.stdout


def accuracy(folder: Path, prefix: str, shared: str) -> None:
    """Builds the example against the model in `prefix`, and runs it."""
    options = ["-GNinja", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DBUILD_SHARED_LIBS={shared}"]
    source = REPOSITORY / "examples" / "cmake-consumer"
    run([TOOLS / "cmake", "-S", source, "-B", folder / "build", *options], env=environment(), timeout=120)
    run([TOOLS / "cmake", "--build", folder / "build"], env=environment(), timeout=120)
    program = folder / "build" / "digits-accuracy"
    done = run([program, recipe("digits") / "data" / "held-out.csv"], env=environment(), timeout=60)
    assert ACCURATE in done.stdout


_SOLVE = """
import asyncio, json, sys
from pathlib import Path
from rattler import Channel, Gateway, GenericVirtualPackage, PackageName, Platform, Version, install, solve
from rattler.index import index_fs
from rattler.package import BuildString

async def main(channel, prefix, cache, glibc, *specs):
    await index_fs(Path(channel))
    libc = GenericVirtualPackage(PackageName("__glibc"), Version(glibc), BuildString("0"))
    records = await solve(
        [Channel(Path(channel).as_uri())], list(specs), platforms=[Platform("linux-64"), Platform("noarch")],
        gateway=Gateway(cache_dir=cache), virtual_packages=[libc],
    )
    if prefix:
        await install(records, target_prefix=prefix, cache_dir=cache, platform=Platform("linux-64"))
    print(json.dumps(sorted(f"{one.name.normalized} {one.version}" for one in records)))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def rattler(shared_home_folder: Path) -> Path:
    """The Python of an environment with conda's solver."""
    lock = REPOSITORY / "requirements" / "conda.txt"

    def make(folder: Path) -> None:
        run([sys.executable, "-m", "venv", folder / "venv"])
        pip: list[str | Path] = [
            folder / "venv" / "bin" / "python",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
        ]
        run([*pip, "--no-compile", "--require-hashes", "--only-binary", ":all:", "-r", lock], timeout=600)

    parts = {"lock": sha256_file(lock), "python": sys.version}
    return kept(shared_home_folder, "rattler", parts, make) / "venv" / "bin" / "python"


@pytest.mark.nightly
@pytest.mark.needs_tensorflow
def test_conda_solves_and_installs_models_for_programs(published: Published, rattler: Path, tmp_path: Path) -> None:
    channel = tmp_path / "channel"
    for name in ("digits", "wine"):
        tfaot(published.home, "export", name, "--registry", published.registry, "--conda", channel)

    def solved(prefix: str | Path, glibc: str, *specs: str) -> list[str]:
        words = [rattler, "-I", "-c", _SOLVE, channel, prefix, tmp_path / "cache", glibc, *specs]
        found = json.loads(run(words, env=environment(HOME=str(tmp_path)), timeout=120).stdout.splitlines()[-1])
        assert isinstance(found, list)
        return found

    names = solved(tmp_path / "env", "2.36", "tfaot-model-digits >=1,<2", "tfaot-model-wine")
    assert [name.split()[0] for name in names] == ["tfaot-headers", "tfaot-model-digits", "tfaot-model-wine"]
    accuracy(tmp_path, str(tmp_path / "env"), "ON")
    with pytest.raises(Exception, match="__glibc"):
        solved("", "2.5", "tfaot-model-digits")
