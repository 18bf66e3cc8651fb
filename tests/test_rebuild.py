"""Building published packages again: the sample models, in conditions as different as one machine allows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.commands import run_command
from tests.samples import REPOSITORY, Published, recipe, tfaot
from tests.wording import reported
from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.package.listing import scan_tree
from tfaot_pkg.pipeline.rebuild import Means, rebuild_check
from tfaot_pkg.registry.archive import pack, unpack
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

DIFFERS, CANNOT = 18, 23


@pytest.fixture(scope="session")
def registry(published: Published) -> FolderRegistry:
    return FolderRegistry.open(published.registry)


@pytest.fixture
def means(published: Published) -> Means:
    folders = Folders(cache=published.home / "cache", data=published.home / "data")
    return Means(folders=folders, progress=Silent(), source=recipe("wine"))


def tool(*arguments: str | Path, before: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> tuple[int, Any]:
    """Exit code and JSON answer of `tfaot-pkg ARGUMENTS --json`; `before` goes before Python."""
    words = [*map(str, arguments), "--json"]
    if before:
        argv = [*before, sys.executable, "-m", "tfaot_pkg", *words]
        done = subprocess.run(argv, cwd="/", env=env, capture_output=True, text=True, check=False)
    else:
        done = run_command(words, cwd="/", env=env)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def another_user() -> tuple[str, ...]:
    """Words that make a command run as a user without a name; none where the kernel does not allow that."""
    words = ("unshare", "--user", "--map-user=12345", "--map-group=12345")
    return words if shutil.which("unshare") and subprocess.run([*words, "true"], check=False).returncode == 0 else ()


def one_core() -> tuple[str, ...]:
    core = min(os.sched_getaffinity(0))
    return ("taskset", "-c", str(core)) if shutil.which("taskset") else ()


def another_checkout(folder: Path) -> Path:
    """The project's files in a folder whose name is hard on scripts."""
    checkout = folder / "another place, ünusual"
    for name in ("tfaot_pkg", "templates", "recipes/tfaot", "recipes/tfaot-kernels", "recipes/tfaot-model-digits"):
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conanfile.py", "LICENSE"):
        shutil.copy(REPOSITORY / name, checkout / name)
    return checkout


@pytest.mark.nightly
def test_digits_is_the_same_on_another_path_user_locale_time_zone_and_core_count(
    published: Published, tmp_path: Path
) -> None:
    home = tmp_path / "another home"
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "toolchains").symlink_to(published.home / "cache" / "toolchains")
    checkout = another_checkout(tmp_path)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TFAOT_HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": str(checkout),
        "PYTHONHASHSEED": "4242",
        "LC_ALL": "POSIX",
        "LANG": "tr_TR.UTF-8",
        "TZ": "Pacific/Kiritimati",
    }
    umask = ("sh", "-c", 'umask 077; exec "$@"', "sh")
    source = checkout / "recipes" / "tfaot-model-digits" / "all"
    code, found = tool(
        "rebuild-check", "digits@1.0.0", "--registry", published.registry, "--source", source,
        before=(*another_user(), *one_core(), *umask), env=env,
    )  # fmt: skip
    assert (found.get("differing"), found.get("reasons")) == ([], []), found
    assert (code, found["verdict"]) == (0, "reproducible")
    assert found["files"] == len(scan_tree(published_tree(published, tmp_path)).members)


def published_tree(published: Published, folder: Path, name: str = "digits") -> Path:
    opened = FolderRegistry.open(published.registry)
    tree = folder / f"tree of {name}"
    tree.mkdir()
    with opened.open_blob(opened.resolve(name).blobs["prefix"]) as archive:
        unpack(archive, tree, what=name)
    return tree


def publish_tampered(published: Published, folder: Path, *, lie: bool) -> FolderRegistry:
    """A registry with a wine whose library was changed; with `lie` its provenance tells of the changed one."""
    tree = published_tree(published, folder, "wine")
    library = tree / "lib" / "libtfaot-model-wine.so"
    content = bytearray(library.read_bytes())
    content[5000] ^= 0xFF
    library.write_bytes(content)
    if lie:
        path = tree / "share" / "tfaot-model-wine" / "provenance.json"
        document = json.loads(path.read_bytes())
        files = scan_tree(tree).files
        for subject in document["subject"][1:]:
            subject["digest"]["sha256"] = files[subject["name"]]
        path.write_text(json.dumps(document))
    return publish_tree(published, tree, folder / "tampered")


def publish_tree(published: Published, tree: Path, root: Path, **changes: Any) -> FolderRegistry:
    archive = root.with_suffix(".tar.gz")
    with archive.open("w+b") as file:
        digest = pack(tree, file).digest
    genuine: RegistryEntry = FolderRegistry.open(published.registry).resolve("wine")
    entry = replace(genuine, tree=digest, blobs={"prefix": BlobRef.of(archive)}, **changes)
    registry = FolderRegistry.create(root)
    registry.publish(entry, {"prefix": archive})
    return registry


@pytest.mark.nightly
def test_a_library_that_did_not_come_from_the_source_is_found(
    published: Published, means: Means, tmp_path: Path
) -> None:
    found = rebuild_check(publish_tampered(published, tmp_path, lie=True), "wine", means)
    assert found.verdict == "differs"
    assert found.exit_code == DIFFERS
    assert not found.same_libraries
    library = next(each for each in found.differing if each.path == "lib/libtfaot-model-wine.so")
    assert library.detail.startswith("from byte 5000 on is ")


def test_provenance_of_other_files_is_refused_before_anything_is_built(
    published: Published, means: Means, tmp_path: Path
) -> None:
    with reported(TrustError):
        rebuild_check(publish_tampered(published, tmp_path, lie=False), "wine", means)


def test_a_package_without_provenance_is_refused(published: Published, means: Means, tmp_path: Path) -> None:
    tree = published_tree(published, tmp_path, "wine")
    (tree / "share" / "tfaot-model-wine" / "provenance.json").unlink()
    with reported(TrustError):
        rebuild_check(publish_tree(published, tree, tmp_path / "bare"), "wine", means)


def with_provenance(published: Published, folder: Path, old: str, new: str) -> FolderRegistry:
    """A registry with a wine whose provenance says `new` where it said `old`."""
    tree = published_tree(published, folder, "wine")
    path = tree / "share" / "tfaot-model-wine" / "provenance.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return publish_tree(published, tree, folder / "edited")


def test_another_compiler_is_told_and_nothing_is_built(published: Published, means: Means, tmp_path: Path) -> None:
    registry = with_provenance(published, tmp_path, '"linker": "GNU ld', '"linker": "GNU ld, a newer one,')
    found = rebuild_check(registry, "wine", means)
    assert (found.verdict, found.exit_code) == ("cannot", CANNOT)
    (reason,) = found.reasons
    assert reason.startswith("another compiler (linker): GNU ld ")
    assert "a newer one" in reason


def test_another_version_of_the_tool_is_told(published: Published, means: Means, tmp_path: Path) -> None:
    found = rebuild_check(with_provenance(published, tmp_path, '"tfaot-pkg": "', '"tfaot-pkg": "9.'), "wine", means)
    assert found.verdict == "cannot"
    assert found.reasons[0].startswith("it was built by tfaot-pkg 9.")


def test_a_folder_that_only_the_publisher_had_must_be_named(registry: FolderRegistry, means: Means) -> None:
    found = rebuild_check(registry, "wine", replace(means, source=None))
    assert found.verdict == "cannot"
    assert "--source" in found.reasons[0]


def test_other_files_than_those_it_was_built_from_are_told(registry: FolderRegistry, means: Means) -> None:
    found = rebuild_check(registry, "wine", replace(means, source=recipe("digits")))
    assert found.verdict == "cannot"
    assert found.reasons[0].startswith("the model's files are not those it was built from")


def test_a_source_that_is_not_there_is_told(registry: FolderRegistry, means: Means, tmp_path: Path) -> None:
    found = rebuild_check(registry, "wine", replace(means, source=tmp_path / "nothing"))
    assert found.verdict == "cannot"
    assert "nothing" in found.reasons[0]


def test_show_prints_the_documents_as_they_are_in_the_package(published: Published, tmp_path: Path) -> None:
    share = published_tree(published, tmp_path) / "share" / "tfaot-model-digits"
    for option, name in (
        ("provenance", "provenance.json"),
        ("sbom", "sbom.cdx.json"),
        ("validation", "validation.json"),
    ):
        shown = tfaot(published.home, "show", "digits", "--registry", published.registry, f"--{option}")
        assert shown == (share / name).read_text()
    both = json.loads(
        tfaot(published.home, "show", "digits", "--registry", published.registry, "--sbom", "--provenance")
    )
    assert sorted(both) == ["provenance", "sbom"]


def test_show_reads_documents_without_fetching_the_package(published: Published, tmp_path: Path) -> None:
    copy = tmp_path / "registry"
    shutil.copytree(published.registry, copy)
    opened = FolderRegistry.open(copy)
    opened.blob_file(opened.resolve("wine").blobs["prefix"]).unlink()
    assert "machine-learning-model" in tfaot(published.home, "show", "wine", "--registry", copy, "--sbom")


def test_a_version_without_documents_says_so(published: Published, tmp_path: Path) -> None:
    registry = publish_tree(published, published_tree(published, tmp_path, "wine"), tmp_path / "old")
    env = {**os.environ, "TFAOT_HOME": str(published.home), "PYTHONPATH": str(REPOSITORY)}
    code, answer = tool("show", "wine", "--registry", registry.root, "--sbom", env=env)
    assert (code, answer["error"]["kind"]) == (16, "registry")
    assert "published without sbom" in answer["error"]["message"]


@pytest.mark.parametrize(("name", "has_kernels"), [("digits", True), ("wine", True)])
def test_the_bill_of_materials_of_a_real_package_is_valid_and_lists_what_was_linked(
    published: Published, tmp_path: Path, name: str, has_kernels: bool
) -> None:
    text = tfaot(published.home, "show", name, "--registry", published.registry, "--sbom")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    properties = [each for component in document["components"] for each in component.get("properties", ())]
    linked = [each["value"] for each in properties if each["name"] == "tfaot:linked-part"]
    names = {each["name"] for each in document["components"]}
    assert {"libstdc++", name} <= names
    assert "tensorflow" not in names  # nothing of XLA's code is in a program
    assert any("conv" in part for part in linked) == ("eigen" in names)
    assert any("kernels" in part for part in linked) == has_kernels
    hashes = {each["name"]: each["hashes"][0]["content"] for each in document["metadata"]["component"]["components"]}
    files = scan_tree(published_tree(published, tmp_path, name)).files
    assert hashes == {path: digest for path, digest in files.items() if path.endswith((".a", ".so"))}


def test_no_document_of_a_real_package_names_this_machine(published: Published, tmp_path: Path) -> None:
    share = published_tree(published, tmp_path) / "share" / "tfaot-model-digits"
    for path in share.glob("*.json"):
        text = path.read_text()
        for word in (str(REPOSITORY), str(published.home), os.uname().nodename, str(Path.home())):
            assert word not in text, f"{path.name} names {word}"
