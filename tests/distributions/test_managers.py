"""Spack and vcpkg themselves, where they are installed: they build exported recipes of a real model, which a program uses.

Neither may have a network. `SPACK_PYTHON` names a Python with clingo; what else they need is the system's.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.distributions.test_clients import ACCURATE, TOOLS, accuracy, environment, in_c
from tests.distributions.test_recipes import HOSTILE
from tests.samples import REPOSITORY, recipe, tfaot
from tfaot_pkg.ground.process import Finished, run

pytestmark = [
    pytest.mark.release,
    pytest.mark.needs_tensorflow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="triplets and targets of x86-64"),
]

FIRST, SECOND = "1.0.0", "1.1.0+tf2.17.1.b1"
# Specs have {{ }} of their own.
TEXT = f"{HOSTILE.replace('{{', '{').replace('}}', '}')} pwned"
_NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
Export = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def export(shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """`export("spack", "digits@1.0.0")`: the folder of that recipe, whose path has a blank."""
    root = tmp_path_factory.mktemp("recipes of models")
    (root / "home").mkdir()
    (root / "home" / "cache").symlink_to(shared_home_folder / "cache")
    for name, version in (("digits", FIRST), ("digits", SECOND), ("wine", FIRST)):
        folder = root / f"{name} {version}"
        shutil.copytree(recipe(name), folder)
        text = (folder / "spec.yaml").read_text().replace(f"version: {FIRST}", f"version: {version}")
        if version == SECOND:
            lines = [line for line in text.splitlines() if "description:" not in line and "author:" not in line]
            told = [f"  {field}: {json.dumps(TEXT)}" for field in ("description", "author")]
            text = "\n".join([*lines, ""]).replace("model:\n", "\n".join(["model:", *told, ""]))
        (folder / "spec.yaml").write_text(f"{text}\npackage:\n  source: true\n")
        tfaot(root / "home", "publish", folder / "spec.yaml", "--no-conan", "--registry", root / "registry")

    def make(manager: str, package: str) -> Path:
        folder = root / f"{manager} {package}"
        tfaot(root / "home", "export", package, "--registry", root / "registry", "--recipe", manager, folder)
        return folder

    return make


@pytest.fixture
def spack(tmp_path: Path) -> Callable[..., str]:
    """`spack("install", ...)`: what it prints, with everything that it writes below `tmp_path`."""
    found = shutil.which("spack", path=os.pathsep.join([f"{os.environ.get('SPACK_ROOT', '')}/bin", os.environ["PATH"]]))
    if found is None:
        pytest.skip("no Spack: put it on PATH, or set SPACK_ROOT; no package index has it")
    places = {name: str(tmp_path / name) for name in ("install", "stage", "sources")}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "bootstrap.yaml").write_text("bootstrap:\n  enable: false\n")
    (tmp_path / "config" / "config.yaml").write_text(
        json.dumps({"config": {
            "install_tree": {"root": places["install"]}, "build_stage": [places["stage"]],
            "source_cache": places["sources"], "build_jobs": 2,
        }})
    )  # fmt: skip
    variables = environment(
        HOME=str(tmp_path),
        SPACK_USER_CONFIG_PATH=str(tmp_path / "config"),
        SPACK_USER_CACHE_PATH=str(tmp_path / "cache"),
        **_NO_NETWORK,
        **{name: os.environ[name] for name in ("SPACK_PYTHON",) if name in os.environ},
    )

    def call(*words: str | Path) -> str:
        return run([found, *words], env=variables, timeout=1200).stdout

    call("compiler", "find", "--scope", "user")
    call("external", "find", "--scope", "user", "cmake", "gmake")
    return call


def add(spack: Callable[..., str], folder: Path) -> None:
    (repository,) = folder.iterdir()
    spack("repo", "add", "--scope", "user", repository)


def test_spack_installs_versions_beside_each_other_and_a_view_has_two_models(
    export: Export, spack: Callable[..., str], tmp_path: Path
) -> None:
    add(spack, export("spack", f"digits@{FIRST}"))
    spack("install", "tfaot-model-digits")
    accuracy(tmp_path / "first", spack("location", "-i", f"tfaot-model-digits@{FIRST}").strip(), "OFF")

    # One namespace: the old repository goes, what was installed from it stays.
    spack("repo", "rm", "--scope", "user", "tfaot_model_digits")
    add(spack, export("spack", f"digits@{SECOND}"))
    second = "tfaot-model-digits@1.1.0-tf2.17.1.b1"
    assert "".join(TEXT.split()) in "".join(spack("info", "tfaot-model-digits").split())
    spack("install", second, "tfaot_targets=x86-64-v2,x86-64-v4")
    for version, shared in ((f"tfaot-model-digits@{FIRST}", "ON"), (second, "ON"), (second, "OFF")):
        prefix = spack("location", "-i", version).strip()
        accuracy(tmp_path / version / shared, prefix, shared)
        in_c(tmp_path, str(Path(prefix) / "lib" / "pkgconfig"))
    library = (Path(prefix) / "lib" / "libtfaot-model-digits.so").read_bytes()
    assert b"\0x86-64-v4\0" in library and b"\0x86-64-v3\0" not in library

    # Both have the shared headers; what was compiled with a version is compiled again with the next.
    add(spack, export("spack", f"wine@{FIRST}"))
    spack("install", "tfaot-model-wine")
    view = ("view", "--dependencies", "no")
    spack(*view, "symlink", tmp_path / "view", f"tfaot-model-digits@{FIRST}", "tfaot-model-wine")
    accuracy(tmp_path / "in a view", str(tmp_path / "view"), "OFF")
    spack(*view, "remove", tmp_path / "view", f"tfaot-model-digits@{FIRST}")
    spack(*view, "symlink", tmp_path / "view", second)
    spack(*view, "remove", tmp_path / "view", "tfaot-model-wine")
    accuracy(tmp_path / "in a view", str(tmp_path / "view"), "OFF")

    audit = spack("audit", "packages", "tfaot-model-digits", "tfaot-model-wine").splitlines()
    assert audit and all(line.endswith(": 0 issues found.") for line in audit)
    assert not list(tmp_path.rglob("pwned"))


@pytest.fixture
def vcpkg(tmp_path: Path) -> Callable[..., Finished]:
    """`vcpkg("install", ...)`, with everything that it writes below `tmp_path`."""
    found = shutil.which("vcpkg", path=os.pathsep.join([os.environ.get("VCPKG_ROOT", ""), os.environ["PATH"]]))
    if found is None:
        pytest.skip("no vcpkg: put it on PATH, or set VCPKG_ROOT; no package index has it")

    def call(*words: str | Path) -> Finished:
        return run([found, *words], env=_of_vcpkg(tmp_path), timeout=1200)

    return call


def _of_vcpkg(folder: Path) -> dict[str, str]:
    found = shutil.which("vcpkg")
    root = os.environ.get("VCPKG_ROOT") or str(Path(found or "").resolve().parent)
    (folder / "downloads").mkdir(exist_ok=True)
    more = {"VCPKG_FORCE_SYSTEM_BINARIES": "1", "VCPKG_DISABLE_METRICS": "1", "VCPKG_BINARY_SOURCES": "clear"}
    places = {"HOME": str(folder), "VCPKG_ROOT": root, "VCPKG_DOWNLOADS": str(folder / "downloads")}
    return environment(VCPKG_MAX_CONCURRENCY="2", **more, **places, **_NO_NETWORK)


_DYNAMIC = """
set(VCPKG_TARGET_ARCHITECTURE x64)
set(VCPKG_CRT_LINKAGE dynamic)
set(VCPKG_LIBRARY_LINKAGE dynamic)
set(VCPKG_CMAKE_SYSTEM_NAME Linux)
set(VCPKG_CMAKE_CONFIGURE_OPTIONS "-DTFAOT_TARGETS=x86-64-v2\\\\;x86-64-v4")
"""


def test_vcpkg_installs_ports_for_static_and_shared_triplets(
    export: Export, vcpkg: Callable[..., Finished], tmp_path: Path
) -> None:
    (tmp_path / "triplets").mkdir()
    (tmp_path / "triplets" / "x64-shared.cmake").write_text(_DYNAMIC)
    for version, triplet, names in (
        (FIRST, "x64-linux", {"libtfaot-model-digits.a"}),
        (SECOND, "x64-linux", {"libtfaot-model-digits.a"}),
        (SECOND, "x64-shared", {"libtfaot-model-digits.so"}),
    ):
        ports = tmp_path / f"ports {version}"
        if not ports.exists():
            shutil.copytree(export("vcpkg", f"digits@{version}"), ports)
        manifests = {path: path.read_bytes() for path in ports.glob("*/vcpkg.json")}
        vcpkg("format-manifest", *manifests)
        assert {path: path.read_bytes() for path in manifests} == manifests
        # A project with a manifest; its installation is that of the version before.
        project = tmp_path / "project"
        shutil.copytree(REPOSITORY / "examples" / "cmake-consumer", project, dirs_exist_ok=True)
        dependencies = {"name": "consumer", "version": "1.0", "dependencies": ["tfaot-model-digits"]}
        (project / "vcpkg.json").write_text(json.dumps(dependencies))
        places = {"overlay-ports": [str(ports)], "overlay-triplets": [str(tmp_path / "triplets")]}
        (project / "vcpkg-configuration.json").write_text(json.dumps(places))
        variables = _of_vcpkg(tmp_path)
        build = project / f"build for {triplet}"
        options = [
            f"-DCMAKE_TOOLCHAIN_FILE={variables['VCPKG_ROOT']}/scripts/buildsystems/vcpkg.cmake",
            f"-DVCPKG_TARGET_TRIPLET={triplet}",
            f"-DVCPKG_INSTALL_OPTIONS=--x-buildtrees-root={tmp_path / 'trees'};--x-packages-root={tmp_path / 'packages'}",
        ]
        said = run([TOOLS / "cmake", "-S", project, "-B", build, "-GNinja", *options], env=variables, timeout=1200)
        assert "warning" not in f"{said.stdout}{said.stderr}".lower(), said.stdout
        run([TOOLS / "cmake", "--build", build], env=variables, timeout=120)
        done = run([build / "digits-accuracy", recipe("digits") / "data" / "held-out.csv"], env=variables, timeout=60)
        assert ACCURATE in done.stdout
        prefix = build / "vcpkg_installed" / triplet
        assert {path.name for path in prefix.glob("lib/*.*") if path.suffix in (".a", ".so")} == names
        in_c(tmp_path, str(prefix / "lib" / "pkgconfig"), *(["--static"] if triplet == "x64-linux" else []))
    library = (prefix / "lib" / "libtfaot-model-digits.so").read_bytes()
    assert b"\0x86-64-v4\0" in library and b"\0x86-64-v3\0" not in library
    assert not list(tmp_path.rglob("pwned"))
