from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.package.conftest import HERE, SIGNATURE, make_contents, make_spec, write_tree
from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.keys import Key, files_below, sha256_file
from tfaot_pkg.package.listing import Tree, headers_version, scan_tree
from tfaot_pkg.package.tree import (
    MEMBER_NAMES,
    PackageContents,
    PackageTree,
    make_package,
    render,
)
from tfaot_pkg.spec.document import spec_document

GOLDEN = HERE / "golden"


def test_the_rendered_tree_is_the_golden_one() -> None:
    """UPDATE_GOLDEN=1 writes the golden copy anew; then the diff is to be read."""
    rendered = {path: data for path, data in render(make_contents()).items() if not path.startswith("include/tfaot/")}
    if os.environ.get("UPDATE_GOLDEN"):
        for path in files_below(GOLDEN):
            path.unlink()
        for name, data in rendered.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_bytes(data)
    golden = {path.relative_to(GOLDEN).as_posix(): path.read_bytes() for path in files_below(GOLDEN)}
    assert sorted(rendered) == sorted(golden)
    for name, data in rendered.items():
        assert data.decode() == golden[name].decode(), name


def test_all_headers_of_the_project_are_in_the_package() -> None:
    headers = {path for path in render(make_contents()) if path.startswith("include/tfaot/")}
    assert headers == {f"include/{path.relative_to(resources.headers())}" for path in files_below(resources.headers())}


def test_what_is_shared_says_how_the_package_was_made() -> None:
    contents = make_contents()
    files = render(contents)
    assert yaml.safe_load(files["share/tfaot-model-affine/spec.yaml"]) == spec_document(contents.spec)
    info = json.loads(files["share/tfaot-model-affine/info.json"])
    assert (info["symbol"], info["uid"]) == (contents.symbol, contents.uid)
    assert {"inputs": info["inputs"], "outputs": info["outputs"]} == plain(SIGNATURE)
    assert json.loads(files["share/tfaot-model-affine/validation.json"]) == contents.validation
    assert files["share/tfaot-model-affine/licenses/LICENSE.tensorflow"] == b"Apache License 2.0\n"


def test_a_notice_cannot_leave_its_folder() -> None:
    with reported(ValueError):
        render(replace(make_contents(), notices={"../../evil": b""}))


@pytest.mark.parametrize("name", sorted(MEMBER_NAMES))
def test_a_model_with_the_name_of_a_class_member_is_refused(name: str) -> None:
    with reported(SpecError):
        render(make_contents(make_spec(name)))


def test_a_package_names_no_place_of_this_machine(make_tree: Callable[..., PackageTree], tmp_path: Path) -> None:
    make_tree(tmp_path / "prefix")
    for file in files_below(tmp_path / "prefix"):
        assert str(tmp_path).encode() not in file.read_bytes(), file


def cached_contents(folder: Path) -> PackageContents:
    contents = make_contents(libraries=folder)
    contents.static_library.write_bytes(b"static")
    contents.shared_library.write_bytes(b"shared")
    return contents


def test_the_same_contents_give_the_same_package(tmp_path: Path) -> None:
    contents, cache = cached_contents(tmp_path), BuildCache(root=tmp_path / "cache")
    tree = make_package(contents, cache)
    assert make_package(contents, cache) == tree
    assert tree.static_library.read_bytes() == b"static"
    assert tree.shared_library.read_bytes() == b"shared"
    assert os.access(tree.shared_library, os.X_OK)


def test_only_libraries_of_the_cache_are_shared_with_the_package(tmp_path: Path) -> None:
    cache = BuildCache(root=tmp_path / "cache")
    outside = cached_contents(tmp_path)
    made = cache.get_or_make("native", Key("0" * 64), lambda folder: _copied(outside, folder))
    inside = replace(
        outside, static_library=made / outside.static_library.name, shared_library=made / outside.shared_library.name
    )
    for contents, shares in ((inside, True), (replace(outside, uid="ba9876543210"), False)):
        tree = make_package(contents, cache)
        for given, packaged in (
            (contents.static_library, tree.static_library),
            (contents.shared_library, tree.shared_library),
        ):
            assert given.samefile(packaged) == shares
            assert given.read_bytes() == packaged.read_bytes()
        assert os.access(tree.shared_library, os.X_OK)


def _copied(contents: PackageContents, folder: Path) -> None:
    for library in (contents.static_library, contents.shared_library):
        shutil.copy(library, folder)


def test_digests_that_are_known_are_not_computed_again(tmp_path: Path) -> None:
    contents = cached_contents(tmp_path)
    known = contents.binary_digests()
    assert known == {path: sha256_file(file) for path, file in contents.binaries.items()}
    assert replace(contents, digests=known, static_library=tmp_path / "gone").binary_digests() == known


@pytest.mark.parametrize(
    "change",
    [
        lambda c: replace(c, uid="ba9876543210"),
        lambda c: replace(c, validation={"passed": True, "results": [1]}),
        lambda c: replace(c, notices={}),
        lambda c: replace(c, spec=make_spec(version="1.2.1")),
        lambda c: (c.static_library.write_bytes(b"other"), c)[1],
    ],
)
def test_other_contents_give_another_package(
    change: Callable[[PackageContents], PackageContents], tmp_path: Path
) -> None:
    contents, cache = cached_contents(tmp_path), BuildCache(root=tmp_path / "cache")
    before = make_package(contents, cache)
    assert make_package(change(contents), cache).key != before.key


def test_the_version_of_headers_is_read_from_their_text() -> None:
    assert headers_version("// x\n#define TFAOT_HEADERS_VERSION 10203\n") == 10203
    assert headers_version("nothing") == 0
    assert headers_version((resources.headers() / "tfaot" / "version.h").read_text()) >= 10000


def test_programs_go_into_bin_and_can_be_executed(tmp_path: Path) -> None:
    contents = cached_contents(tmp_path)
    program = tmp_path / "affine_test"
    program.write_bytes(b"a program")  # not executable here: the place decides
    listed: list[Tree] = []

    def provenance(tree: Tree) -> dict[str, object]:
        listed.append(tree)
        return {}

    contents = replace(contents, programs=(program,), answers=b"answers", provenance=provenance)
    root = write_tree(contents, tmp_path / "prefix").root
    found = scan_tree(root)
    assert {m.path: m.kind for m in found.members}["bin/affine_test"] == "program"
    assert (root / "share/tfaot-model-affine/reference.bin").read_bytes() == b"answers"
    assert [m for m in found.members if not m.path.endswith("provenance.json")] == list(listed[0].members)
    info = json.loads((root / "share/tfaot-model-affine/info.json").read_text())
    assert info["programs"] == ["bin/affine_test"]
