from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.registry.conftest import write_tree
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.package.prefix.install import install_built
from tfaot_pkg.package.tree import PackageTree


def tfaot(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_command(words, timeout=60)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Holds one package."""
    write_tree(tmp_path / "tree", {"lib/a": b"1", "lib/b": b"2"})
    built = PackageTree(
        root=tmp_path / "tree", key=key_of("test", 1, {}), package_name="tfaot-model-digits", version="1.0"
    )
    install_built(built, built.key, tmp_path / "external")
    return tmp_path / "external"


def test_an_untouched_prefix_is_ok(prefix: Path) -> None:
    done = tfaot("verify-install", prefix)
    assert (done.returncode, done.stdout, done.stderr) == (0, "tfaot-model-digits 1.0: ok\n", "")
    by_default = run_command(["verify-install"], cwd=prefix.parent)  # where `install` puts packages
    assert (by_default.returncode, by_default.stdout) == (0, done.stdout)


def test_a_package_without_hashes_of_answers_is_named_and_is_no_fault(prefix: Path) -> None:
    done = tfaot("verify-install", prefix, "--run")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == ["tfaot-model-digits 1.0"] * 2
    assert "no validation report" in done.stdout


def test_damage_is_told_file_by_file(prefix: Path) -> None:
    (prefix / "lib/a").write_bytes(b"changed")
    (prefix / "lib/b").unlink()
    done = tfaot("verify-install", prefix)
    assert done.returncode == 22
    assert done.stdout.splitlines()[:3] == ["tfaot-model-digits 1.0: damaged", "  missing: lib/b", "  changed: lib/a"]
    document = json.loads(tfaot("verify-install", prefix, "--json").stdout)
    assert (document["ok"], document["parts"][0]["changed"]) == (False, ["lib/a"])


def test_a_prefix_without_packages_is_an_error(tmp_path: Path) -> None:
    done = tfaot("verify-install", tmp_path)
    assert done.returncode == 22 and "no package is installed" in done.stderr and "hint:" in done.stderr


def test_doctor_says_each_remedy_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFAOT_HOME", str(tmp_path))
    said = tfaot("doctor").stdout.splitlines()
    assert sum(line.endswith(": not installed") for line in said) > 1
    assert sum("tfaot-pkg toolchain add" in line for line in said) == 1


def test_the_version_needs_no_command() -> None:
    done = tfaot("--version")
    assert done.returncode == 0 and done.stdout.startswith("tfaot-pkg ")
