"""The sample model's own recipe, built by the real tool, used as the example says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.samples import conan_consumer
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.pipeline.conan.package import ConanHome, conan_argv, conan_environment, create

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPE = REPOSITORY / "recipes" / "tfaot-model-digits" / "all"

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]


def accuracy(home: Path, folder: Path, *, shared: bool) -> str:
    """What the example prints on the held-out images, built by the README's steps in the new folder `folder`."""
    consumer, build = conan_consumer(folder), folder / "build"
    environment = conan_environment(home)
    install = conan_argv(["install", str(consumer), "-of", str(build), "-o", f"*:shared={shared}"])
    run(install, env=environment)
    toolchain = next(build.rglob("conan_toolchain.cmake"))
    configure = ["cmake", "-S", str(consumer), "-B", str(build), "-GNinja", "-DCMAKE_BUILD_TYPE=Release"]
    run([*configure, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"], env=environment)
    run(["cmake", "--build", str(build)], env=environment)
    # What Conan gives a program to find its shared libraries at run time.
    script = '. "$1" && "$2" "$3"'
    arguments = [next(build.rglob("conanrun.sh")), build / "digits-accuracy", RECIPE / "data" / "held-out.csv"]
    return run(["bash", "-c", script, "bash", *map(str, arguments)], env=environment).stdout


@pytest.mark.release
def test_a_verified_prefix_becomes_packages_that_the_example_uses(shared_home: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "a prefix"
    run([sys.executable, "-m", "tfaot_pkg", "build", str(RECIPE / "spec.yaml"), "-o", str(prefix)])
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "conan.log")
    package = create(RECIPE, "1.0.0", home=home, prefix=prefix, progress=Silent())
    assert package.reference == "tfaot-model-digits/1.0.0"
    for shared in (False, True):
        printed = accuracy(home.root, tmp_path / f"shared-{shared}", shared=shared)
        assert printed == "accuracy on 360 held-out images: 99.2 %\n"


@pytest.mark.release
def test_conan_builds_the_model_from_the_repository_as_a_remote(
    shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))  # as if the tool were installed in Conan's Python
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "conan.log")
    with home.opened() as opened:
        opened.conan("remote", "add", "checkout", str(REPOSITORY))
        opened.conan(
            "install", "--requires=tfaot-model-digits/[>=1 <2]", "--build=missing", "-of", str(tmp_path / "of")
        )
    assert "99.2 %" in accuracy(home.root, tmp_path / "consumer", shared=False)
