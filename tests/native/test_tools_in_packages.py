"""package.tools: the programs of a published model, from the build to a prefix."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.native.archived_code import members_in
from tests.samples import tfaot
from tests.wording import reported
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.keys import Key, sha256_file
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.native.tools import build_tools
from tfaot_pkg.package.binary.findings import glibc_floor_of, numbers
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.parse import load_spec

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

SPEC = """
model: {name: two, version: 1.0.0, license: MIT}
compilation: {batch_sizes: [1, 3], targets: [x86-64-v2, x86-64-v3]}
validation: {samples: 3}
package: {tools: true}
"""


@pytest.fixture(scope="module")
def spec(models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    shutil.copytree(models["two_inputs"], folder / "saved_model")
    (folder / "spec.yaml").write_text(SPEC)
    return folder / "spec.yaml"


@pytest.fixture(scope="module")
def registry(spec: Path, shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "registry"
    tfaot(shared_home_folder, "publish", spec, "--registry", folder, "--no-conan")
    return folder


@pytest.fixture
def prefix(registry: Path, shared_home_folder: Path, tmp_path: Path) -> Path:
    tfaot(shared_home_folder, "install", "two", "--registry", registry, "--prefix", tmp_path / "installed")
    return (tmp_path / "installed").rename(tmp_path / "moved")


def test_installed_programs_run_wherever_the_prefix_is(prefix: Path, tmp_path: Path) -> None:
    assert {path.name: os.access(path, os.X_OK) for path in (prefix / "bin").iterdir()} == {
        "two_benchmark": True,
        "two_test": True,
    }
    nothing = {"PATH": "/nowhere"}
    said = run([prefix / "bin" / "two_test"], env=nothing, cwd=tmp_path).stdout
    assert re.search(r"two 1\.0\.0 \(tfaot-pkg \S+\): all \d+ comparisons with the framework agree", said)
    run([prefix / "bin" / "two_benchmark", "--seconds", "0"], env=nothing, cwd=tmp_path)
    for program in (prefix / "bin").iterdir():
        needed = set(re.findall(r"NEEDED.*\[(.+)\]", run(["readelf", "-dW", program]).stdout))
        assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


def test_no_product_holds_code_of_the_compilers_runtime_and_the_documents_say_so(prefix: Path, tmp_path: Path) -> None:
    products = [path for folder in ("bin", "lib") for path in (prefix / folder).glob("*") if path.is_file()]
    assert {path.suffix for path in products} == {"", ".a", ".so"} | {p.suffix for p in products if p.is_symlink()}
    archives = {
        name: Path(run(["g++", f"-print-file-name={name}"]).stdout.strip())
        for name in ("libgcc.a", "libgcc_eh.a", "libstdc++.a")
    }
    for name, archive in archives.items():
        found = members_in(products, archive, tmp_path / name)
        assert not any(found.values()), name
    share = prefix / "share" / "tfaot-model-two"
    components = {each["name"]: each for each in json.loads((share / "sbom.cdx.json").read_text())["components"]}
    assert "libgcc" not in components
    assert components["libstdc++"]["description"].startswith("Templates of its headers only")
    assert "not linked with libstdc++" in (share / "licenses" / "gcc-runtime.txt").read_text()


def test_code_of_the_compilers_runtime_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a.cc").write_text("int main(int argc, char**) { if (argc > 1) throw 1; }\n")
    run(["g++", "-O1", "-static-libstdc++", "-static-libgcc", "a.cc", "-o", "program"], cwd=tmp_path)
    for name, member in {"libgcc_eh.a": "unwind-dw2.o", "libstdc++.a": "eh_throw.o"}.items():
        archive = Path(run(["g++", f"-print-file-name={name}"]).stdout.strip())
        assert member in members_in([tmp_path / "program"], archive, tmp_path / name)["program"]


def test_all_that_is_loaded_needs_an_old_c_library_only(prefix: Path) -> None:
    loaded = [*(prefix / "bin").iterdir(), prefix / "lib" / "libtfaot-model-two.so"]
    for path in loaded:
        assert numbers(glibc_floor_of([path])) <= (2, 28), path.name
    stated = json.loads((prefix / "share" / "tfaot-model-two" / "info.json").read_text())["glibc"]
    assert stated == glibc_floor_of(loaded)


def test_programs_are_verified_and_uninstalled_like_any_file(prefix: Path, shared_home_folder: Path) -> None:
    tfaot(shared_home_folder, "verify-install", prefix)
    with (prefix / "bin" / "two_test").open("ab") as file:
        file.write(b"x")
    with reported(CommandFailed, varies=r"tfaot \d+: ok"):
        tfaot(shared_home_folder, "verify-install", prefix)
    (prefix / "bin" / "two_test").unlink()
    tfaot(shared_home_folder, "uninstall", "two", "--prefix", prefix)
    assert not (prefix / "bin").exists()


def test_programs_are_told_in_the_package_s_documents(prefix: Path) -> None:
    share = prefix / "share" / "tfaot-model-two"
    for document in ("info.json", "sbom.cdx.json", "provenance.json"):
        assert "bin/two_benchmark" in (share / document).read_text(), document
    assert sha256_file(prefix / "bin" / "two_test") in (share / "provenance.json").read_text()


@pytest.mark.nightly
def test_the_programs_are_the_same_bytes_when_built_again_elsewhere(
    prefix: Path, spec: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    pipeline = Pipeline(folders=folders, progress=Silent())
    plan = pipeline.plan(load_spec(spec))
    found = next(prefix.glob("lib/libtfaot-model-two.so.*"))
    key = Key("0" * 64)
    library = NativeLibrary(folder=prefix / "lib", key=key, name="tfaot-model-two", uid=found.suffix[1:])
    cache = BuildCache(root=tmp_path / "another cache")
    made = build_tools(plan.spec, library, key=key, compiler=plan.compiler, cache=cache, progress=Silent())
    assert {path.name: sha256_file(path) for path in made.paths} == {
        path.name: sha256_file(path) for path in (prefix / "bin").iterdir()
    }
