"""`export --recipe`: package managers build the sources, and no text of an author becomes code of their languages."""

from __future__ import annotations

import ast
import json
import shlex
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from tests.distributions.conftest import HEADERS
from tests.distributions.test_clients import TOOLS, environment
from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files, tiny_info
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, StorageError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.package.listing import headers_version
from tfaot_pkg.pipeline.distributions.exporting import export_installed, export_published
from tfaot_pkg.pipeline.distributions.recipe import MANAGERS, Manager, debian_version, spack_version
from tfaot_pkg.registry.dependencies.install import install_entries
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import resolve

PACKAGE = "tfaot-model-digits"
HOSTILE = (
    '''"; exit(1) ${Newline}Depends: evil ''${x} $(touch pwned) `touch pwned` ]] ]=] \\" """ #{x} {{ 1 }} %s @x@ \\'''
)
SOURCES = {
    "CMakeLists.txt": f"""
cmake_minimum_required(VERSION 3.13...4.0)
project({PACKAGE} VERSION 1.0 LANGUAGES C)
add_library({PACKAGE} SHARED model.c)
set_target_properties({PACKAGE} PROPERTIES SOVERSION abc)
install(TARGETS {PACKAGE} LIBRARY DESTINATION lib)
install(DIRECTORY include/ DESTINATION include)
install(DIRECTORY etc licenses DESTINATION .)
install(FILES {PACKAGE}.pc DESTINATION lib/pkgconfig)
""",
    "BUILD.bazel": "# as the package has it\n",
    "model.c": "int answer(void) { return 42; }\n",
    f"{PACKAGE}.pc": "prefix=${pcfiledir}/../..\n\n"
    f"Name: digits\nDescription: digits\nVersion: 1.0\nCflags: -I${{prefix}}/include\nLibs: -L${{prefix}}/lib -l{PACKAGE}\n",
    "include/tfaot/version.h": "// as the package has it\n",
    f"include/{PACKAGE}/model.h": '#include <tfaot/version.h>\nextern "C" int answer(void);\n',
    "etc/scram.d/x.xml": "",
    "licenses/LICENSE.txt": "free\n",
}
CONSUMER = f"#include <{PACKAGE}/model.h>\nint main() {{ return answer() - 42; }}\n"
VERSION = headers_version((resources.headers() / "tfaot" / "version.h").read_text())
Export = Callable[..., Path]


@pytest.fixture
def export(registry: FolderRegistry, tmp_path: Path) -> Export:
    """`export("debian", model=..., description=...)`: the folder with the recipe of a package that has `SOURCES`."""

    def make(manager: Manager, *, version: str = "1.0", model: str = "digits", **texts: str) -> Path:
        info = json.dumps({**json.loads(tiny_info(model, version)), **texts}).encode()
        name = f"tfaot-model-{model.replace('_', '-')}"
        files = {
            **tiny_files(model, version),
            **HEADERS,
            f"share/{name}/info.json": info,
            **{f"share/{name}/source/{path}": text.encode() for path, text in SOURCES.items()},
        }
        told = {key: texts[key] for key in ("description", "license") if key in texts}
        package = package_of(tmp_path, model, version, files, **told)
        registry.publish(package.entry, package.blobs)
        # Not from the registry, which has only sources that a release of the tool renders.
        prefix = tmp_path / f"prefix of {manager}"
        install_entries(registry, [resolve(registry, f"{model}@{version}")], prefix, custom=True)
        export_installed(prefix, model, manager, tmp_path / manager)
        return tmp_path / manager

    return make


def used(folder: Path, root: Path) -> None:
    """Builds and runs a program with the files in `root`, found by pkg-config, without its usual folders."""
    variables = environment(PKG_CONFIG_LIBDIR=str(root / "lib" / "pkgconfig"))
    flags = shlex.split(run(["pkg-config", "--cflags", "--libs", PACKAGE], env=variables).stdout)
    (folder / "main.cc").write_text(CONSUMER)
    words: list[str | Path] = [folder / "main.cc", f"-I{root / 'include'}", *flags, "-o", folder / "main"]
    run(["c++", "-std=c++17", *words], env=environment(), timeout=60)
    run([folder / "main"], env=environment(LD_LIBRARY_PATH=str(root / "lib")))


@pytest.mark.nightly
def test_debian_builds_two_packages_that_pkg_config_finds(
    export: Export, require_program: Callable[[str], str], tmp_path: Path
) -> None:
    require_program("dh")
    folder = export("debian", description=HOSTILE, author=HOSTILE, license=HOSTILE, homepage="https://a/${Newline}X:y")
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"tfaot-headers-{VERSION}", f"{PACKAGE}-1.0"]
    root = tmp_path / "installed"
    for name in names:
        # -d: CMake is that of this environment, and no package.
        run(["dpkg-buildpackage", "-us", "-uc", "-b", "-d"], cwd=folder / name, env=environment(), timeout=300)
    for built in sorted(folder.glob("*.deb")):
        if "dbgsym" not in built.name:
            run(["dpkg", "-x", built, root])
            fields = run(["dpkg-deb", "--field", built]).stdout
            assert "evil" not in fields.partition("Description:")[0] and "\nX:" not in fields
    assert HOSTILE in run(["dpkg-deb", "--field", next(folder.glob(f"{PACKAGE}_*.deb")), "Description"]).stdout
    assert f"Depends: tfaot-headers (>= {VERSION}), tfaot-headers (<< 20000)" in fields
    used(tmp_path, root / "usr")
    for header in (f"{PACKAGE}/model.h", "tfaot/version.h"):  # later than what was compiled with an older version
        made = (root / "usr" / "include" / header).stat().st_mtime
        assert made >= int((folder / f"{PACKAGE}-1.0" / "debian" / "control").stat().st_mtime) - 1
    assert not (root / "usr" / "etc").exists() and not list(tmp_path.rglob("pwned"))
    assert "as its author states it" in (root / "usr" / "share" / "doc" / PACKAGE / "copyright").read_text()


STUBS = """
set(CURRENT_PACKAGES_DIR {out})
set(VCPKG_LIBRARY_LINKAGE dynamic)
function(vcpkg_extract_source_archive place)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCHIVE" "")
  file(ARCHIVE_EXTRACT INPUT ${{arg_ARCHIVE}} DESTINATION {out}/source)
  file(GLOB found {out}/source/*)
  set(${{place}} ${{found}} PARENT_SCOPE)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "")
  execute_process(COMMAND ${{CMAKE_COMMAND}} -S ${{arg_SOURCE_PATH}} -B {out}/build -DCMAKE_INSTALL_PREFIX={out} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND ${{CMAKE_COMMAND}} --build {out}/build --target install COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "COMMENT" "FILE_LIST")
  file(APPEND {out}/copyright "${{arg_COMMENT}}\\n${{arg_FILE_LIST}}\\n")
endfunction()
include({port}/portfile.cmake)
"""


def test_ports_of_vcpkg_install_disjoint_files_with_stubs_for_its_functions(export: Export, tmp_path: Path) -> None:
    folder = export("vcpkg", description=HOSTILE, license=HOSTILE)
    out = tmp_path / "out"
    for port, version in (("tfaot-headers", str(VERSION)), (PACKAGE, "1.0")):
        manifest = json.loads((folder / port / "vcpkg.json").read_text())
        assert (manifest["name"], manifest["version"]) == (port, version)
        (tmp_path / "stubs.cmake").write_text(STUBS.format(out=tmp_path / port, port=folder / port))
        run([TOOLS / "cmake", "-P", tmp_path / "stubs.cmake"], env=environment(CMAKE_GENERATOR="Ninja"), timeout=60)
        run(["cp", "-R", f"{tmp_path / port}/.", out])
    assert manifest["description"] == HOSTILE and manifest["license"] is None
    assert not (tmp_path / PACKAGE / "include" / "tfaot").exists()
    used(tmp_path, out)
    assert f"states it: {HOSTILE}\n" in (out / "copyright").read_text()
    assert "licenses/LICENSE.txt" in (out / "copyright").read_text()
    # The archive has no time, and what includes a header is compiled again for a newer one.
    header = out / "include" / PACKAGE / "model.h"
    assert header.stat().st_mtime >= (folder / PACKAGE / "portfile.cmake").stat().st_mtime


SPACK = """
import hashlib, pathlib, sys, types, urllib.request
class CMakePackage: pass
class Values:
    def __init__(self, *sets): pass
    def prohibit_empty_set(self): return self
    def with_default(self, default): return self
said = {}
def record(name):
    return lambda *words, **named: said.setdefault(name, []).append((words, named))
module = types.ModuleType("spack.package")
module.CMakePackage, module.disjoint_sets = CMakePackage, Values
for name in ("license", "version", "variant", "depends_on"): setattr(module, name, record(name))
sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), module
"""


def test_a_package_of_spack_names_an_archive_that_is_there_with_stubs_for_its_modules(
    export: Export, tmp_path: Path
) -> None:
    made = export("spack", description=HOSTILE, license=HOSTILE)
    repository = made.rename(made.parent / "100 % of #1") / f"{PACKAGE}-1.0"
    assert (repository / "repo.yaml").read_text() == "repo:\n  namespace: tfaot_model_digits\n"
    file = repository / "packages" / PACKAGE / "package.py"
    (stated,) = (node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef))
    assert (stated.name, ast.get_docstring(stated, clean=False)) == ("TfaotModelDigits", HOSTILE)
    code = (
        SPACK
        + f"""
found = dict(__file__={str(file)!r})
exec(compile(open({str(file)!r}).read(), {str(file)!r}, "exec"), found)
archive = pathlib.Path(urllib.request.url2pathname(found["TfaotModelDigits"].url.removeprefix("file://")))
(((version,), named),) = said["version"]
assert version == "1.0" and named == dict(sha256=hashlib.sha256(archive.read_bytes()).hexdigest()), said
assert said["license"] == [(({HOSTILE!r},), {{}})]
print(archive)
"""
    )
    (tmp_path / "stand_in.py").write_text(code)
    archive = run([TOOLS / "python", "-I", tmp_path / "stand_in.py"], env=environment()).stdout.strip()
    with tarfile.open(archive) as opened:
        assert {info.name for info in opened} == {f"{PACKAGE}-1.0/{path}" for path in SOURCES}


_PACKAGES = """
rec {
  cmake = null;
  stdenv.mkDerivation = given: derivation {
    name = given.pname + "-" + given.version;
    system = builtins.currentSystem;
    builder = "/bin/sh";
    args = [ "-ec" "PATH=$tools; cmake -GNinja -S $src -B build -DCMAKE_INSTALL_PREFIX=$out; cmake --build build --target install; printf %s \\"$description\\" > $out/description" ];
    tools = builtins.getEnv "PATH";
    src = given.src;
    description = given.meta.description;
  };
}
"""


@pytest.mark.nightly
def test_nix_builds_the_derivation_with_a_stand_in_for_nixpkgs(
    export: Export, require_program: Callable[[str], str], tmp_path: Path
) -> None:
    folder = export("nix", description=HOSTILE, license=HOSTILE) / f"{PACKAGE}-1.0"
    (tmp_path / "packages.nix").write_text(_PACKAGES)
    places = {f"NIX_{name}_DIR": str(tmp_path / "nix" / name) for name in ("STORE", "STATE", "LOG", "CONF")}
    words = ["--no-out-link", "--arg", "pkgs", f"import {tmp_path / 'packages.nix'}"]
    for name, value in (("sandbox", "false"), ("build-users-group", ""), ("substitute", "false")):
        words += ["--option", name, value]
    done = run(
        [require_program("nix-build"), *words, folder], env=environment(HOME=str(tmp_path), **places), timeout=300
    )
    built = Path(done.stdout.strip())
    assert (built / "description").read_text() == HOSTILE
    used(tmp_path, built)


def test_texts_in_other_languages_are_what_they_were(export: Export) -> None:
    nix = (export("nix", description=HOSTILE) / f"{PACKAGE}-1.0" / "default.nix").read_text()
    (line,) = (line.strip() for line in nix.splitlines() if "description =" in line)
    assert unescaped(line.removeprefix('description = "').removesuffix('";')) == HOSTILE
    control = (
        export("debian", version="1.1", description=HOSTILE) / f"{PACKAGE}-1.1" / "debian" / "control"
    ).read_text()
    assert control.splitlines()[-1] == f" {HOSTILE}".replace("$", "${}"), "no variable of dpkg-gencontrol"


def unescaped(literal: str) -> str:
    """What Nix reads: a backslash takes the next character as it is; nothing else may end or open anything."""
    made, rest = "", iter(literal)
    for letter in rest:
        assert letter not in '"$', "ends the string, or begins an expression"
        made += next(rest) if letter == "\\" else letter
    return made


def test_recipes_need_sources_and_replace_nothing(
    registry: FolderRegistry, export: Export, publish: Callable[..., Any], tmp_path: Path
) -> None:
    publish("2.0")
    for manager in MANAGERS:
        with reported(RegistryError):
            export_published(registry, "digits@2.0", manager, tmp_path / "none")
    folder = export("nix")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    export_installed(tmp_path / "prefix of nix", "digits", "nix", folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    (folder / f"{PACKAGE}-1.0" / "model.c").write_text("mine")
    with reported(StorageError):
        export_installed(tmp_path / "prefix of nix", "digits", "nix", folder)
    with reported(RegistryError):
        export("vcpkg", model="a__b")


def test_a_bazel_module_names_itself_and_what_its_build_file_loads(
    export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = export("bazel", version="1.0rc1", description=HOSTILE, author=HOSTILE) / f"{PACKAGE}-1.0rc1"
    assert (folder / "BUILD.bazel").read_text() == SOURCES["BUILD.bazel"]
    module, *needed = [each.value for each in ast.parse((folder / "MODULE.bazel").read_text()).body]  # type: ignore[attr-defined]
    said = {each.arg: ast.literal_eval(each.value) for each in module.keywords}
    assert said == {"name": PACKAGE, "version": "1.0rc1"}
    assert {ast.literal_eval(each.keywords[0].value) for each in needed} == {"platforms", "rules_cc"}
    # Packages of older releases.
    monkeypatch.delitem(SOURCES, "BUILD.bazel")
    with reported(RegistryError):
        export("bazel", version="2.0")


def test_versions_keep_their_order_in_debian_and_spack() -> None:
    versions = [Version(text) for text in ("1.0.dev1", "1.0a1", "1.0rc1", "1.0", "1.0+tf2.17.1.b1", "1.0.1")]
    made = [debian_version(version) for version in versions]
    assert made == ["1.0~dev1", "1.0~a1", "1.0~rc1", "1.0", "1.0+tf2.17.1.b1", "1.0.1"]
    # As Spack 0.23 sorts them; it knows alpha, beta and rc alone, at the end.
    made = [spack_version(version) for version in versions]
    assert made == ["1.0.dev1", "1.0-alpha1", "1.0-rc1", "1.0", "1.0-tf2.17.1.b1", "1.0.1"]
