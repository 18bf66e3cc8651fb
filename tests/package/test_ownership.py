"""Which paths a package may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.package.conftest import build_fake_libraries, make_contents, make_spec, write_tree
from tfaot_pkg.package.listing import foreign_path, scan_tree


@pytest.mark.parametrize(
    "path",
    [
        "bin/cmake",
        "bin/digits",
        "bin/other_test",
        "include/stdio.h",
        "include/tfaot-model-other/model.h",
        "include/tfaot-model-digits2/model.h",
        "include/tfaot_kernels/kernels.h",
        "include/tfaot-model-digits/model.so",
        "lib/libtfaot-model-other.so",
        "lib/libtfaot-model-digits2.so",
        "lib/libtfaot-model-digits.so.x",
        "lib/libc.so.6",
        "lib/other_common.o",
        "lib/cmake/tfaot-model-other/tfaot-model-otherConfig.cmake",
        "lib/cmake/tfaot-model-digits/FindCUDA.cmake",
        "lib/pkgconfig/zlib.pc",
        "lib/python3/site-packages/sitecustomize.py",
        "etc/profile.d/digits.sh",
        "etc/scram.d/gcc.xml",
        "share/tfaot/manifest.json",
        "share/tfaot-model-other/info.json",
        "share/tfaot-model-digits/manifest.json",
        "share/tfaot-model-digits/pending.json",
        "share/tfaot-model-digits/other.json",
        "share/tfaot-model-digits/licenses/more/LICENSE",
        "share/tfaot-model-digits/data/info.json",
        "share/aclocal/digits.m4",
    ],
)
def test_what_is_not_of_the_package_is_nobodys(path: str) -> None:
    assert foreign_path("tfaot-model-digits", path)


@pytest.mark.parametrize("spelling", ["test_simple", "test-simple"])
def test_a_package_may_have_files_of_its_name_in_both_spellings(spelling: str) -> None:
    name = f"tfaot-model-{spelling}"
    paths = [
        f"include/{name}/model.h",
        f"lib/lib{name}.a",
        f"lib/lib{name}.so",
        f"lib/lib{name}.so.0123456789ab",
        "lib/test_simple_bs16.o",
        "lib/test_simple_common.o",
        "bin/test_simple_test",
        f"lib/cmake/{name}/{name}Config.cmake",
        f"lib/pkgconfig/{name}.pc",
        f"etc/scram.d/{name}-objects.xml",
        f"share/{name}/licenses/tensorflow-LICENSE",
    ]
    for package in ("tfaot-model-test_simple", "tfaot-model-test-simple"):
        assert [foreign_path(package, path) for path in paths] == [""] * len(paths)


def test_the_tool_of_a_packages_objects_is_no_other_packages() -> None:
    """Specs refuse the name `jet_objects`, but packages were published by other means and before that rule."""
    path = "etc/scram.d/tfaot-model-jet-objects.xml"
    assert foreign_path("tfaot-model-jet", path) == ""
    for package in ("tfaot-model-jet-objects", "tfaot-model-jet_objects"):
        assert foreign_path(package, path)
        assert foreign_path(package, "etc/scram.d/tfaot-model-jet-objects-objects.xml") == ""
        assert foreign_path(package, "etc/scram.d/tfaot-model-jet_objects.xml") == ""
        assert foreign_path(package, "share/tfaot-model-jet-objects/info.json") == ""


def test_all_that_a_package_is_made_of_is_its_own(tmp_path: Path) -> None:
    build_fake_libraries(tmp_path, "affine", slope=2)
    tree = write_tree(make_contents(make_spec("affine"), libraries=tmp_path), tmp_path / "tree")
    members = scan_tree(tree.root).members
    assert len(members) > 30
    assert {foreign_path(tree.package_name, member.path) for member in members} == {""}
