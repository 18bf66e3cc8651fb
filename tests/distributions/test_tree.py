"""`export --tree`: readers of a shared folder see whole versions only, and `current` is never missing."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.distributions.conftest import Publish
from tests.registry.conftest import install
from tests.wording import reported
from tfaot_pkg.errors import StorageError
from tfaot_pkg.package.listing import scan_tree
from tfaot_pkg.package.prefix.manifest import LOCK, verify_install
from tfaot_pkg.pipeline.distributions.described import Described
from tfaot_pkg.pipeline.distributions.exporting import export_installed, export_published
from tfaot_pkg.pipeline.distributions.tree import place
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.verified import installed_tree

PACKAGE = "tfaot-model-digits"
INFO = f"share/{PACKAGE}/info.json"
x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the cross compiler is that of x86-64")


def state(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Everything in `folder`: mode, time of change, and target."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        known = path.lstat()
        target = os.readlink(path) if path.is_symlink() else ""
        found[str(path.relative_to(folder))] = (known.st_mode, known.st_mtime_ns, target)
    return found


def content(folder: Path) -> dict[str, bytes | str]:
    found = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {
        path.relative_to(folder).as_posix(): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in found
    }


def test_each_version_is_a_read_only_prefix_that_current_leads_to(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("1.0")
    publish("1.2.3+tf2.17.1.b10")
    root = tmp_path / "a tree"
    (first,) = export_published(registry, "digits@1.0", "tree", root).files
    done = export_published(registry, "digits", "tree", root)
    home = root / PACKAGE
    assert first == home / "1.0" / platform.machine() and os.readlink(home / "current") == "1.2.3+tf2.17.1.b10"
    assert done.notes == (f"{home / 'current'} is 1.2.3+tf2.17.1.b10 (was 1.0)",)
    install(registry, "digits@1.0", tmp_path / "prefix")
    (tmp_path / "prefix" / LOCK).unlink()
    wanted = scan_tree(tmp_path / "prefix")
    assert scan_tree(first) == wanted and verify_install(first).ok
    for path in first.rglob("*"):
        if path.is_symlink():
            assert not os.readlink(path).startswith("/")
        else:
            assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o444)
    before = state(root)
    assert export_published(registry, "digits", "tree", root).files == done.files
    assert state(root) == before, "the same command changes nothing"
    shutil.move(root, tmp_path / "elsewhere")
    assert verify_install(tmp_path / "elsewhere" / PACKAGE / "current" / platform.machine()).ok
    export_installed(tmp_path / "prefix", "digits", "tree", tmp_path / "from a prefix")
    assert scan_tree(tmp_path / "from a prefix" / PACKAGE / "current" / platform.machine()) == wanted


@x86_64
def test_architectures_come_one_by_one_and_none_is_taken_from_readers(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    for version in ("1.0", "2.0"):
        publish(version)
        publish(version, compiler="aarch64-linux-gnu-gcc", target="aarch64")
    current = tmp_path / "out" / PACKAGE / "current"

    def export(version: str, architecture: str = "") -> str:
        done = export_published(registry, f"digits@{version}", "tree", tmp_path / "out", architecture)
        assert all(path.is_dir() for path in done.files)
        return os.readlink(current)

    assert export("1.0", "x86_64") == "1.0"
    assert {path.name for path in current.iterdir()} == {"x86_64", "x86-64-v2", "x86-64-v3", "x86-64-v4"}
    assert (current / "x86-64-v4" / INFO).is_file(), "a CPU of a higher level runs the code of a lower one"
    assert export("1.0", "aarch64") == "1.0"
    assert export("2.0", "x86_64") == "1.0", "2.0 has no aarch64 here"
    assert export("2.0", "aarch64") == "2.0"
    assert export("1.0", "x86_64") == "2.0", "a part of an older version"
    assert export("1.0") == "1.0", "the whole version"


def test_what_is_there_with_other_content_stays(registry: FolderRegistry, publish: Publish, tmp_path: Path) -> None:
    publish("1.0")
    home = tmp_path / "out" / PACKAGE
    prefix = home / "1.0" / platform.machine()
    export_published(registry, "digits", "tree", tmp_path / "out")

    def rewrite(path: Path) -> None:
        path.chmod(0o644)
        path.write_text("mine")

    def become(path: Path, make: Callable[[Path], object]) -> None:
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
        make(path)

    ways: list[Callable[[], None]] = [
        lambda: rewrite(prefix / INFO),
        lambda: become(prefix, lambda path: path.write_text("mine")),
        lambda: become(home / "current", Path.mkdir),
    ]
    if platform.machine() == "x86_64":
        ways.append(lambda: become(home / "1.0" / "x86-64-v2", lambda path: path.symlink_to("/")))
    for way in ways:
        shutil.copytree(home, tmp_path / "kept", symlinks=True)
        way()
        before = state(tmp_path / "out")
        with reported(StorageError):
            export_published(registry, "digits", "tree", tmp_path / "out")
        assert state(tmp_path / "out") == before
        shutil.rmtree(home)
        (tmp_path / "kept").rename(home)


def test_a_reader_finds_a_whole_version_at_every_moment(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    versions = ("1.0", "2.0")
    for version in versions:
        publish(version)
        export_published(registry, f"digits@{version}", "tree", tmp_path / "out")
    home = tmp_path / "out" / PACKAGE
    described = [Described.of(installed_tree(home / each / platform.machine(), PACKAGE)) for each in versions]
    info = home / "current" / platform.machine() / INFO
    known = {(tmp_path / "out" / PACKAGE / version / platform.machine() / INFO).read_bytes() for version in versions}
    # A process of its own: a thread would take the interpreter's lock from the exports.
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _READER, info], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout and reader.stdout.readline() == b"begun\n"
        for _ in range(60):
            for each in described:
                place([each], tmp_path / "out", whole=True)
        printed, _ = reader.communicate(timeout=60)
    assert reader.returncode == 0
    assert set(json.loads(printed)) == {data.decode() for data in known}, "and no error of a missing file"


_READER = """
import json, select, sys
seen = set()
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    with open(sys.argv[1]) as file:
        seen.add(file.read())
print(json.dumps(sorted(seen)))
"""
_STEPS = ("os.rename", "os.symlink", "os.mkdir", "os.chmod")


def killed(export: Callable[[], object], step: int, below: Path) -> bool:
    """Whether `export`, in a process that is killed before its `step`-th change of `below`, was killed."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            return True
        assert os.WEXITSTATUS(status) == 0
        return False
    left = [step]

    def count(event: str, arguments: tuple[object, ...]) -> None:
        # Of a prefix that nobody sees yet, its share/ stands for all.
        path = str(arguments)
        if event in _STEPS and str(below) in path and not any(each in path for each in ("/include/", "/lib")):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    try:
        export()
    except BaseException:  # noqa: BLE001
        os._exit(1)
    os._exit(0)


@pytest.mark.nightly
def test_an_export_that_is_killed_leaves_what_readers_had_and_the_next_one_completes_it(
    registry: FolderRegistry, publish: Publish, tmp_path: Path
) -> None:
    publish("1.0")
    publish("2.0")
    export_published(registry, "digits@1.0", "tree", tmp_path / "old")
    export_published(registry, "digits@2.0", "tree", tmp_path / "new")
    before = content(tmp_path / "old" / PACKAGE / "1.0")
    wanted = content(tmp_path / "new" / PACKAGE / "2.0")
    step = 0
    is_killed = True
    while is_killed:
        step += 1
        out = tmp_path / f"out {step}"
        shutil.copytree(tmp_path / "old", out, symlinks=True)
        home = out / PACKAGE
        is_killed = killed(partial(export_published, registry, "digits", "tree", out), step, home)
        assert os.readlink(home / "current") == ("1.0" if is_killed else "2.0")
        assert content(home / "1.0") == before
        seen = content(home / "2.0") if (home / "2.0").exists() else {}
        assert seen.items() <= wanted.items() and (is_killed or seen == wanted)
        assert not any("/" in path for path in seen) or len(seen) >= len(wanted) - 3, "a prefix is whole"
        export_published(registry, "digits", "tree", out)
        assert content(home / "2.0") == wanted and os.readlink(home / "current") == "2.0"
        left = [path.name for path in home.iterdir() if path.name.startswith(".")]
        assert left == [".tfaot-tree.lock"]
        shutil.rmtree(out)
    assert step > 8, "folders, their modes, a rename, links, and current"
