"""Headers and build files of a package are what a release of this tool renders from the package itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.package.conftest import make_contents, make_spec
from tests.package.test_source_form import CODE
from tfaot_pkg._version import __version__
from tfaot_pkg.analysis.rows import Meeting, Rows
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.rendering import releases
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.package.custom_files import custom_files
from tfaot_pkg.package.listing import scan_tree
from tfaot_pkg.package.tree import PackageContents, render

DEPENDENT = Rows(meetings=(Meeting(output="y", node="n", operation="dot", reason="rows are added"),))
COMPLEX = Signature(
    inputs=(Tensor(name="größe", dtype=DType.COMPLEX64, shape=(None, 2, 2)),),
    outputs=(Tensor(name="class", dtype=DType.BOOL, shape=(4,)),),
)


def contents(name: str = "affine", **fields: str) -> PackageContents:
    made = make_contents(make_spec(name, **fields))  # type: ignore[arg-type]
    return replace(made, code=CODE)


def with_cmssw() -> PackageContents:
    made = contents("jet_tagger")
    package = replace(made.spec.package, cmssw=True, objects=True)
    objects = tuple(map(Path, ("jet_tagger_bs2.o", "jet_tagger_common.o")))
    return replace(made, spec=replace(made.spec, package=package), objects=objects)


KINDS: dict[str, Callable[[], PackageContents]] = {
    "of a usual model": contents,
    "with a former spelling, objects and headers of CMSSW": with_cmssw,
    "of a name like an expression": lambda: contents(description="{{ 7 * 7 }} {% x %} {# 'a': \"b\" #}", homepage=""),
    "of a description in other letters": lambda: contents(description="zählt, 数える; $x @y@ \\ # </info>"),
    "of any batch size": lambda: replace(contents(), any_batch_size=True, rows=DEPENDENT, origin="ONNX, opset 18"),
    "of other tensors": lambda: replace(contents(), signature=COMPLEX),
    "without sources": lambda: replace(contents(), code=None),
}


def written(made: PackageContents, root: Path) -> Mapping[str, bytes]:
    files = render(made)
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    for each in made.objects:
        (root / "lib" / each.name).write_bytes(b"")
    return files


def custom(root: Path, made: PackageContents, tool: str = __version__) -> tuple[str, ...]:
    return custom_files(root, scan_tree(root), made.package_name, made.signature, tool)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_rendered_is_not_custom_and_every_other_byte_is(kind: str, tmp_path: Path) -> None:
    made = KINDS[kind]()
    files = written(made, tmp_path)
    assert custom(tmp_path, made) == ()
    folder = f"share/{made.package_name}/source/"
    used = [
        path
        for path in files
        if path.startswith(
            ("include/", "lib/", "etc/", *(f"{folder}{name}" for name in ("CMake", "include/", "install/")))
        )
        and not path.startswith("include/tfaot/")
    ]
    assert len(used) >= 7
    for path in used:
        (tmp_path / path).write_bytes(files[path] + b"\n#define X 1\nexecute_process(COMMAND touch x)\n")
    # Equal copies of the package's own headers are told once.
    copies = {f"{folder}{path}" for path in used}
    assert custom(tmp_path, made) == tuple(sorted(set(used) - copies))


ATTACKS: dict[str, tuple[str, str]] = {
    "a command at configuration": ("lib/cmake/{0}/{0}Config.cmake", "execute_process(COMMAND touch /tmp/x)\n"),
    "a command at a build": ("lib/cmake/{0}/{0}Targets.cmake", "add_custom_target(x ALL COMMAND touch /tmp/x)\n"),
    "a file that CMake includes": ("lib/cmake/{0}/more.cmake", "file(DOWNLOAD https://x y)\n"),
    "a flag of the linker": ("lib/pkgconfig/{0}.pc", "Libs: -L/tmp -levil\n"),
    "a flag of SCRAM": ("etc/scram.d/{0}.xml", "<flags CXXFLAGS='-include /tmp/x'/>\n"),
    "a tool of SCRAM": ("etc/scram.d/more.xml", "<tool/>\n"),
    "code in a header": ("include/{0}/model.h", 'inline int x = system("x");\n'),
    "a header more": ("include/{0}/more.h", "#define private public\n"),
    "a header without a comment's end": ("include/{0}/more.h", "// \\\n#define private public\n"),
    "a comment that is none": ("lib/cmake/{0}/more.cmake", "#[[\n]]execute_process(COMMAND x)\n"),
    "a build file of the sources": ("share/{0}/source/CMakeLists.txt", "execute_process(COMMAND x)\n"),
    "a shared header of the sources": ("share/{0}/source/include/tfaot/model.h", "#define x\n"),
    "a module of the sources": ("share/{0}/source/cmake/x.cmake", "execute_process(COMMAND x)\n"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_would_run_in_a_build_of_a_user_is_custom(name: str, tmp_path: Path) -> None:
    made = contents()
    written(made, tmp_path)
    place, text = ATTACKS[name]
    path = place.format(made.package_name)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    with (tmp_path / path).open("a") as file:
        file.write(text)
    assert custom(tmp_path, made) == (path,)


def test_a_shared_header_changed_in_both_places_is_custom_in_the_sources(tmp_path: Path) -> None:
    """An installation replaces the other one."""
    made = contents()
    written(made, tmp_path)
    copy = f"share/{made.package_name}/source/include/tfaot/span.h"
    for path in ("include/tfaot/span.h", copy):
        (tmp_path / path).write_text("#define x\n")
    assert custom(tmp_path, made) == (copy,)


def test_comments_are_not_custom(tmp_path: Path) -> None:
    made = contents()
    written(made, tmp_path)
    (tmp_path / "include" / made.package_name / "note.h").write_text("// ä note\n\n  // more\n")
    assert custom(tmp_path, made) == ()


@pytest.mark.parametrize("damage", ["spec.yaml", "info.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "\0"])
def test_a_package_that_does_not_say_what_it_is_is_custom(damage: str, text: str, tmp_path: Path) -> None:
    made = contents()
    written(made, tmp_path)
    (tmp_path / "share" / made.package_name / damage).write_text(text)
    assert f"include/{made.package_name}/model.h" in custom(tmp_path, made)


def test_values_of_a_hostile_package_cannot_become_code(tmp_path: Path) -> None:
    """It says the same in all places, so it is what would be rendered: then nothing of it may be outside of comments."""
    made = replace(contents(), toolchain='1\n#include "x"\n', origin="a\\\n#define y\n??/\nint z;")
    files = written(made, tmp_path)
    assert custom(tmp_path, made) == ()
    header = files[f"include/{made.package_name}/model.h"].decode()
    code = [line for line in header.splitlines() if not line.strip().startswith("//")]
    assert not any(word in line for line in code for word in ('include "x"', "define y", "int z"))


@pytest.mark.parametrize("release", releases()[1:])
def test_what_a_release_rendered_stays_as_it_is(release: str, tmp_path: Path) -> None:
    from tfaot_pkg.package.tree import for_users

    made = replace(contents(), code=None)
    files = {**render(made), **for_users(made, release)}
    for path, data in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    assert custom(tmp_path, made, release) == () == custom(tmp_path, made, "0.9")


def test_the_templates_of_this_release_are_kept() -> None:
    """`make release` does that: packages of this version must stay installable when templates change."""
    folder = resources.templates() / "released" / __version__
    assert {path.name for path in folder.iterdir()} == {
        "cmssw",
        "former",
        "headers.json",
        "package",
        "source",
        "version.h",
    }
    assert "tfaot/model.h" in json.loads((folder / "headers.json").read_text())
