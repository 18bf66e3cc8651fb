"""Conda packages: what is in them, and the shared headers beside them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from tests.distributions.conftest import Publish, conda_tree, members
from tfaot_pkg.ground import resources
from tfaot_pkg.package.listing import headers_version
from tfaot_pkg.pipeline.distributions.conda import conda_packages_of
from tfaot_pkg.pipeline.distributions.exporting import export_published
from tfaot_pkg.pipeline.distributions.facts import Facts, Platform
from tfaot_pkg.pipeline.distributions.files import File
from tfaot_pkg.registry.folder import FolderRegistry

OURS = resources.headers() / "tfaot"


def test_a_package_is_its_prefix_and_headers_are_a_package_of_their_own(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("1.2.3+tf2.17.1.b10")
    publish("1.0", model="jet_tagger")
    headers, package = export_published(registry, "digits", "conda", tmp_path / "out").files
    again, other = export_published(registry, "jet_tagger", "conda", tmp_path / "out").files
    assert again == headers and headers.parent.name == "noarch" and package.parent.name == other.parent.name
    info, tree = conda_tree(package, "info"), conda_tree(package, "pkg")
    index = json.loads(info["info/index.json"][1])
    assert (index["name"], index["version"]) == ("tfaot-model-digits", "1.2.3+tf2.17.1.b10")
    ours = {path.relative_to(resources.headers().parent).as_posix(): path.read_bytes() for path in OURS.rglob("*.h")}
    version = headers_version(ours["include/tfaot/version.h"].decode())
    assert index["depends"] == ["__glibc", f"tfaot-headers >={version},<20000"]
    assert index["subdir"] == package.parent.name and package.name == (
        f"{index['name']}-{index['version']}-{index['build']}.conda"
    )
    assert info["info/licenses/LICENSE.txt"][1] == b"free\n"
    shared = {path: data for path, (_, data) in conda_tree(headers, "pkg").items()}
    assert shared == ours, "as in an installation: nobody has checked those of the package"
    assert not any(path.startswith("include/tfaot/") for path in tree)
    for path in json.loads(info["info/paths.json"][1])["paths"]:
        member, data = tree[path["_path"]]
        is_link = path["path_type"] == "softlink"
        assert member.issym() == is_link
        content = tree[os.path.join(os.path.dirname(member.name), member.linkname)][1] if is_link else data
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (path["sha256"], path["size_in_bytes"])
    assert tree.keys() == {path["_path"] for path in json.loads(info["info/paths.json"][1])["paths"]}


def test_a_text_or_a_large_file_of_a_package_breaks_no_document(tmp_path: Path) -> None:
    large = os.urandom(1 << 17) + bytes(3 << 17) + b"end"
    info = json.dumps({"description": 'two\nlines "quoted"', "license": "\x00"}).encode()
    facts = Facts.of("tfaot-model-digits", "1.0", info, Platform(architecture="aarch64", glibc=28))
    (made,) = conda_packages_of(facts, [File.made("lib/libtfaot-model-digits.a", large)])
    made.write_to(tmp_path / made.name)
    assert made.folder == "linux-aarch64" and members(tmp_path / made.name)["metadata.json"]
    read = conda_tree(tmp_path / made.name, "info")
    assert json.loads(read["info/index.json"][1])["depends"] == ["__glibc >=2.28"]
    assert json.loads(read["info/about.json"][1])["summary"] == 'two lines "quoted"'
    assert conda_tree(tmp_path / made.name, "pkg")["lib/libtfaot-model-digits.a"][1] == large
