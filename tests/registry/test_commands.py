"""The commands of a registry's maintainer, as they are typed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command
from tests.registry.signing import clock_at, make_signed

MakePackage = Callable[..., Any]
REPOSITORY = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow  # a process for each command


@pytest.fixture
def tfaot(tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """`tfaot("registry", "verify", ...)`: exit code, JSON document, standard error."""

    def run(*arguments: str | Path, **environment: str) -> tuple[int, dict[str, Any], str]:
        variables = {**os.environ, "TFAOT_HOME": str(tmp_path / "home"), **environment}
        done = run_command([*arguments, "--json"], cwd=tmp_path, env=variables)
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    return run


def test_a_registry_from_its_making_to_its_keeping(tmp_path: Path, tfaot: Any, make_package: MakePackage) -> None:
    (tmp_path / "passphrase").write_text("geheim\n")
    signing = ("--keys", "keys", "--passphrase-file", "passphrase")
    code, made, error = tfaot(
        "registry", "init", "reg", *signing, "--bins", "1", "--root-keys", "2", "--threshold", "2"
    )
    assert (code, len(made["fingerprint"])) == (0, 64), error
    assert tfaot("registry", "keys", "add", "release", "reg", *signing)[0] == 0
    keys = tfaot("registry", "keys", "list", "reg", "--keys", "keys")[1]["keys"]
    assert [key["role"] for key in keys] == ["root", "root", "release", "release", "snapshot", "timestamp"]
    assert all(key["at_hand"] for key in keys)
    assert tfaot("registry", "keys", "revoke", "release", keys[2]["keyid"], "reg", *signing)[0] == 0
    by_environment = {"TFAOT_REGISTRY_KEYS": "keys", "TFAOT_REGISTRY_PASSPHRASE": "geheim"}
    code, refreshed, error = tfaot("registry", "refresh", "reg", **by_environment)
    assert (code, refreshed["signed"]) == (0, ["timestamp"]), error
    code, audit, error = tfaot("registry", "verify", "reg")
    assert (code, audit["ok"], audit["signed"]) == (0, True, True), error
    code, collected, error = tfaot("registry", "gc", "reg", "--grace", "0s", "--dry-run")
    assert code == 0 and collected["removed"], error


def test_verify_ends_with_18_and_all_faults(tmp_path: Path, tfaot: Any, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    for version in ("1.0", "2.0"):
        package = make_package("digits", version)
        registry.publish(package.entry, package.blobs)
        registry.blob_file(package.entry.blobs["prefix"]).unlink()
    code, audit, _ = tfaot("registry", "verify", "registry")
    assert (code, len(audit["faults"])) == (18, 2) and "lacks the blob" in audit["faults"][0]


def test_yank_unyank_and_deprecate(tmp_path: Path, tfaot: Any, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    package = make_package("digits", "1.0")
    registry.publish(package.entry, package.blobs)
    there = ("--registry", "registry", "--keys", "keys")
    assert tfaot("yank", "digits@1.0", "--reason", "bad", *there)[1]["entry"]["yanked"] == "bad"
    found = tfaot("search", "--registry", "registry")[1]
    assert (found["found"], found["yanked"]) == ([], ["tfaot-model-digits"])
    assert tfaot("unyank", "digits@1.0", *there)[1]["entry"]["yanked"] is False
    code, document, error = tfaot("deprecate", "digits", "--reason", "old", *there)
    assert (code, document["deprecated"]) == (0, {"use": "", "reason": "old"}), error
    assert tfaot("search", "--registry", "registry")[1]["found"][0]["deprecated"] == "old"
    assert tfaot("deprecate", "digits", "--undo", *there)[1]["deprecated"] is None
    code, document, _ = tfaot("yank", "digits@1.0", "--registry", "registry")
    assert (code, document["error"]["kind"]) == (18, "trust") and "--keys FOLDER" in document["error"]["hint"]


def test_what_cannot_be_is_said(tmp_path: Path, tfaot: Any) -> None:
    make_signed(tmp_path, clock=clock_at(-8))
    for arguments, code, message in [
        (("search", "--registry", "registry"), 18, "this machine's clock says"),
        (("registry", "verify", "registry"), 18, ""),
        (("registry", "init", "registry", "--keys", "k", "--no-passphrase"), 16, "is a registry already"),
        (("registry", "init", "new", "--keys", "k"), 18, "no terminal to ask on"),
        (("registry", "init", "new", "--keys", "k", "--key", "bins=x"), 16, "--key"),
        (("registry", "keys", "add", "bins", "registry", "--keys", "keys"), 16, "'bins' is not a role"),
        (("registry", "refresh", "registry", "--keys", "nowhere"), 18, "there are no keys in nowhere"),
        (("yank", "digits", "--registry", "registry"), 16, "names no version"),
        (("registry", "gc", "registry", "--grace", "soon"), 16, "is not a period"),
    ]:
        got, document, error = tfaot(*arguments)
        assert (got, error) == (code, "") or arguments[1] == "verify", (arguments, got, error)
        if message:
            assert message in document["error"]["message"] and document["error"]["hint"]
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").glob("[!.]*"))
    shutil.rmtree(tmp_path / "registry")
    unsigned = tfaot("registry", "refresh", "registry", "--keys", "keys")
    assert unsigned[0] == 16


def test_a_registry_that_could_not_be_made_leaves_nothing(tmp_path: Path, tfaot: Any) -> None:
    code, document, _ = tfaot("registry", "init", "new/reg", "--keys", "k")
    assert code == 18 and "no terminal to ask on" in document["error"]["message"]
    (tmp_path / "mine").mkdir()
    assert tfaot("registry", "init", "mine", "--keys", "k")[0] == 18
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["mine"] and not list((tmp_path / "mine").iterdir())
    (tmp_path / "nowhere").touch()
    assert tfaot("registry", "init", "other", "--keys", "nowhere/k", "--no-passphrase")[0] == 20
    assert not (tmp_path / "other").exists()


def test_gc_names_a_few_files_and_counts_the_others(tmp_path: Path, tfaot: Any, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    for number in range(40):
        orphan = registry.root / "blobs/sha256/ab" / f"{number:062x}"
        orphan.parent.mkdir(parents=True, exist_ok=True)
        orphan.write_bytes(b"orphan")
    shown = subprocess.run(
        [sys.executable, "-m", "tfaot_pkg", "registry", "gc", "registry", "--grace", "0s", "--dry-run"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TFAOT_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    *files, more, count = shown.stdout.splitlines()
    assert len(files) == 5 and more == "... and 35 more (--json lists all)"
    assert count == "40 files would be removed (240 bytes)"
    assert len(tfaot("registry", "gc", "registry", "--grace", "0s", "--dry-run")[1]["removed"]) == 40
