"""Installed libraries are run on the pinned inputs, and their answers compared with those of the build.

The library is a stand-in (scaled.cpp): y = 2 x.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import run_command
from tests.registry.conftest import write_tree
from tfaot_pkg.cli.packages import _answers_text
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.package.prefix.install import install_built
from tfaot_pkg.package.prefix.manifest import verify_install
from tfaot_pkg.package.tree import PackageTree
from tfaot_pkg.verify.corpus import MOST, SIZES, corpus
from tfaot_pkg.verify.hashes import Group, Hashes, digests
from tfaot_pkg.verify.installed import AnswersReport, check_answers

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the stand-in has targets of x86-64")

NAME = "tfaot-model-scaled"
SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3)),),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 3)),),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    made = tmp_path_factory.mktemp("scaled") / "library.so"
    source = Path(__file__).with_name("scaled.cpp")
    run(["g++", "-std=c++17", "-shared", "-fPIC", f"-I{resources.headers()}", source, "-o", made])
    return made.read_bytes()


def hashes(factor: float = 2, *, targets: tuple[str, ...] = ("x86-64-v2",)) -> Hashes:
    x = corpus(SIGNATURE, SIZES)["x"]
    with np.errstate(all="ignore"):
        y = x * np.float32(factor)
    answers = {f"{size}/y": y[: min(MOST, len(y) // size) * size] for size in SIZES}
    return Hashes(groups=(Group(targets=targets, run=targets, batches=digests(answers, SIGNATURE, SIZES)),))


def checked(folder: Path, library: bytes, report: object) -> AnswersReport:
    """What is found in a prefix with the library and a validation report."""
    text = report if isinstance(report, str) else json.dumps(report)
    files = {f"lib/lib{NAME}.so": library, f"share/{NAME}/validation.json": text.encode()}
    write_tree(folder / "tree", files)
    tree = PackageTree(root=folder / "tree", key=key_of("test", 1, {}), package_name=NAME, version="1.0")
    install_built(tree, tree.key, folder / "prefix")
    (found,) = check_answers(verify_install(folder / "prefix"))
    text = _answers_text(found)
    assert text.startswith(
        f"{NAME} 1.0: answers {'ok' if found.checked and found.ok else 'not checked' if found.ok else 'are not'}"
    )
    assert all(target in text for target in (*found.failed, *(each.target for each in found.different)))
    return found


def test_the_bits_of_the_build_are_ok(library: bytes, tmp_path: Path) -> None:
    found = checked(tmp_path, library, {"hashes": plain(hashes())})
    assert (found.ok, found.checked, found.not_checked) == (True, ("x86-64-v2",), "")


def test_other_bits_are_told_by_output_batch_size_and_target(library: bytes, tmp_path: Path) -> None:
    found = checked(tmp_path, library, {"hashes": plain(hashes(np.nextafter(np.float32(2), np.float32(3))))})
    assert [(each.target, each.output, each.batch_size) for each in found.different] == [
        ("x86-64-v2", "y", size) for size in SIZES
    ]
    done = run_command(["verify-install", tmp_path / "prefix", "--run", "--json"], timeout=60)
    document = json.loads(done.stdout)
    assert (done.returncode, document["ok"], document["answers"]) == (15, True, [plain(found)])


def test_a_library_that_crashes_is_told_and_the_next_target_is_run(library: bytes, tmp_path: Path) -> None:
    found = checked(tmp_path, library, {"hashes": plain(hashes(targets=("x86-64", "x86-64-v2")))})
    assert (list(found.failed), found.different, found.ok) == (["x86-64"], (), False)
    assert "SIGABRT" in found.failed["x86-64"]


def test_a_target_that_the_library_lacks_is_told(library: bytes, tmp_path: Path) -> None:
    found = checked(tmp_path, library, {"hashes": plain(hashes(targets=("x86-64-v3",)))})
    assert not found.ok and "no code for this target" in found.failed["x86-64-v3"]


def test_what_is_no_library_is_told(tmp_path: Path) -> None:
    assert list(checked(tmp_path, b"no library", {"hashes": plain(hashes())}).failed) == ["x86-64-v2"]


def spoiled(**changes: object) -> Mapping[str, Any]:
    return {"hashes": {**plain(hashes()), **changes}}


@pytest.mark.parametrize(
    "report",
    [
        {},
        [],
        "{",
        {"hashes": 5},
        spoiled(format=2),
        spoiled(groups=[], reason="XLA's code"),
        spoiled(groups=[{**plain(hashes())["groups"][0], "batches": {"100000000": {"y": 64 * "0"}}}]),
        {"hashes": plain(hashes(targets=("aarch64",)))},
    ],
    ids=["none", "a list", "no JSON", "a number", "format 2", "XLA", "batch size", "aarch64"],
)
def test_a_package_without_usable_hashes_is_not_checked(tmp_path: Path, report: object) -> None:
    found = checked(tmp_path, b"not loaded", report)
    assert found.ok and not found.checked and found.not_checked


def test_a_package_with_changed_files_is_not_run(library: bytes, tmp_path: Path) -> None:
    checked(tmp_path, library, {"hashes": plain(hashes())})
    (tmp_path / "prefix" / "lib" / f"lib{NAME}.so").write_bytes(b"changed")
    (found,) = check_answers(verify_install(tmp_path / "prefix"))
    assert found.not_checked and not found.checked
