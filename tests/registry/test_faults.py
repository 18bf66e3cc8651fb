"""Publishing while the machine fails: killed at any system call, disk full, I/O errors, read-only, several at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.registry.signing import keys_in, make_signed
from tests.registry.tiny import tiny_files
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry.audit import audit
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry, parse_index
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.trust.client import Anchor

MakePackage = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, bytes]]

REPOSITORY = Path(__file__).resolve().parents[2]
PUBLISHER = [sys.executable, str(Path(__file__).with_name("publisher.py"))]


def environment(**more: str) -> dict[str, str]:
    # Without bytecode files: the only files that the publisher writes are the registry's.
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", **more}


def run(argv: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, env=environment(**more), capture_output=True, text=True, timeout=60, check=False)


def hand_over(folder: Path, package: Any) -> Path:
    """Write what `publisher.py` reads."""
    folder.mkdir(parents=True)
    for role, blob in package.blobs.items():
        (folder / role).write_bytes(blob if isinstance(blob, bytes) else blob.read_bytes())
    (folder / "line").write_bytes(package.entry.line())
    return folder


SBOM = b'{"bomFormat":"CycloneDX"}'


def with_sbom(package: Any) -> Any:
    entry = replace(
        package.entry, blobs={**package.entry.blobs, "sbom": BlobRef.of(SBOM)}, published="2030-01-01T00:00:00Z"
    )
    return replace(package, entry=entry, blobs={**package.blobs, "sbom": SBOM})


@pytest.fixture
def start(tmp_path: Path, make_package: MakePackage) -> Path:
    """A registry that holds other things already."""
    registry = FolderRegistry.create(tmp_path / "start")
    for package in (make_package("jets"), make_package("digits", "1.0")):
        registry.publish(package.entry, package.blobs)
    return registry.root


@pytest.fixture
def new(tmp_path: Path, make_package: MakePackage) -> Path:
    """What is published while things go wrong."""
    files = {**tiny_files("digits", "2.0"), "share/tfaot-model-digits/sbom.cdx.json": SBOM}
    return hand_over(tmp_path / "new", with_sbom(make_package("digits", "2.0", files)))


def check_consistent(root: Path, trust: Path | None = None) -> dict[str, RegistryEntry]:
    """Read everything that the index promises; gives the entries by name and version."""
    registry = open_here(root, trust or root.with_name(f"trust of {root.name}"))
    found = audit(registry, Silent())
    assert not found.faults
    entries = {str(entry): entry for name in registry.names() for entry in registry.entries(name)}
    for entry in entries.values():
        for blob in entry.blobs.values():
            with registry.open_blob(blob) as file:
                assert len(file.read()) == blob.size
    return entries


FAULTS = [
    "rename:signal=KILL",
    "fsync:signal=KILL",
    "mkdir:signal=KILL",
    "write:signal=KILL",
    "rename:error=EIO",
    "fsync:error=EIO",
    "fchmod:error=EPERM",
    "mkdir:error=ENOSPC",
    "write:error=ENOSPC",
]


@pytest.fixture
def signed_start(tmp_path: Path, make_package: MakePackage) -> Path:
    """As `start`, signed; the keys are in `tmp_path/keys`."""
    registry = make_signed(tmp_path)
    for package in (make_package("jets"), make_package("digits", "1.0")):
        registry.publish(package.entry, package.blobs)
    return registry.root


@pytest.mark.sweep(
    "signed-rename:signal=KILL",
    night=[
        "unsigned-mkdir:signal=KILL",
        "unsigned-write:error=ENOSPC",
        "unsigned-fchmod:error=EPERM",
        "signed-rename:error=EIO",
        "unsigned-fsync:error=EIO",
    ],
)
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["unsigned", "signed"])
def test_a_fault_at_any_system_call_leaves_the_old_or_the_new_state_and_a_repeat_completes_it(
    *, tmp_path: Path, request: pytest.FixtureRequest, new: Path, kind: str, fault: str, require_program: Any
) -> None:
    start: Path = request.getfixturevalue("start" if kind == "unsigned" else "signed_start")
    old = check_consistent(start, tmp_path / "home")
    failed = when = 0
    for when in range(1, 200):
        root, home = tmp_path / f"run {when}", tmp_path / f"home {when}"
        shutil.copytree(start, root)
        done, injected = run_with_fault(require_program("strace"), fault, when, root, new)
        if not injected:
            break
        after = check_consistent(root, home)
        assert after.keys() - old.keys() <= {"tfaot-model-digits@2.0"}
        assert {name: entry for name, entry in after.items() if name in old} == old
        if done.returncode == 20:
            assert json.loads(done.stdout)["kind"] == "storage"
        elif done.returncode != -signal.SIGKILL:
            # The system call was one that may fail (mkdir of what exists), or the publisher's last word.
            assert after.keys() - old.keys(), done
        failed += done.returncode != 0
        publish_here(root, new)
        found = audit(open_here(root, home), Silent())
        assert (found.faults, found.notes, found.versions) == ([], [], 3)
        assert not list(root.rglob("*.part"))
        shutil.rmtree(root)
    assert done.returncode == 0 and failed >= 2 and when < 199


def signing(root: Path) -> dict[str, str]:
    """The environment of a publisher: keys, and a home for what it has verified."""
    keys = root.parent / "keys"
    return {"TEST_KEYS": str(keys) if keys.exists() else "", "TFAOT_HOME": str(root.parent / f"home of {root.name}")}


def open_here(root: Path, trust: Path) -> FolderRegistry:
    keys = root.parent / "keys"
    return FolderRegistry.open(root, anchor=Anchor(folder=trust), keys=keys_in(keys) if keys.exists() else None)


def run_with_fault(
    strace: str, fault: str, when: int, root: Path, new: Path
) -> tuple[subprocess.CompletedProcess[str], bool]:
    """Publish with `fault` at its `when`-th system call; says whether there were that many."""
    log = root.with_name("strace.log")
    call = fault.partition(":")[0]
    options = ["-f", "-qq", "-o", str(log), "-e", f"trace={call}", "-e", f"inject={fault}:when={when}"]
    done = run([strace, *options, *PUBLISHER, str(root), str(new)], **signing(root))
    return done, any(word in log.read_text() for word in ("INJECTED", "killed by SIGKILL"))


def publish_here(root: Path, new: Path) -> None:
    """The same command again, in this process to save time."""
    line = (new / "line").read_bytes()
    (one,) = parse_index(line, str(new), json.loads(line)["name"])
    assert one.entry is not None
    keys = root.parent / "keys"
    registry = FolderRegistry.create(
        root,
        anchor=Anchor(folder=root.with_name(f"trust of {root.name}")),
        keys=keys_in(keys) if keys.exists() else None,
    )
    registry.publish(one.entry, {role: new / role for role in one.entry.blobs})


@pytest.mark.sweep("rename", night=[])
@pytest.mark.slow
@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_killed_while_the_registry_itself_is_made(
    tmp_path: Path, new: Path, call: str, snapshot: Snapshot, require_program: Callable[[str], str]
) -> None:
    publish_here(tmp_path / "wanted", new)
    for when in range(1, 100):
        root = tmp_path / f"run {when}"
        done, injected = run_with_fault(require_program("strace"), f"{call}:signal=KILL", when, root, new)
        if not injected:
            break
        if (root / "config.json").exists():
            assert check_consistent(root).keys() <= {"tfaot-model-digits@2.0"}
        publish_here(root, new)
        assert snapshot(root) == snapshot(tmp_path / "wanted")
    assert done.returncode == 0 and when > 3


@pytest.mark.parametrize("kind", ["unsigned", "signed"])
def test_every_file_is_durable_before_its_name_and_the_commit_comes_last(
    tmp_path: Path, request: pytest.FixtureRequest, new: Path, kind: str, require_program: Callable[[str], str]
) -> None:
    start: Path = request.getfixturevalue("start" if kind == "unsigned" else "signed_start")
    log = tmp_path / "log"
    calls = ["-f", "-qq", "-y", "-s", "4096", "-o", str(log), "-e", "trace=rename,fsync"]
    assert run([require_program("strace"), *calls, *PUBLISHER, str(start), str(new)], **signing(start)).returncode == 0
    durable: set[str] = set()
    targets: list[str] = []
    pending_folder: str | None = None
    for line in log.read_text().splitlines():
        if found := re.search(r"fsync\(\d+<(.*)>\)", line):
            durable.add(found[1])
            if found[1] == pending_folder:
                pending_folder = None
        elif (found := re.search(r'rename\("(.*)", "(.*)"\)', line)) and found[2].startswith(f"{start}/"):
            assert pending_folder is None, "the rename before was not made durable"
            assert found[1] in durable
            targets.append(os.path.relpath(found[2], start))
            pending_folder = os.path.dirname(found[2])
    assert pending_folder is None
    if kind == "unsigned":
        assert [target.split("/")[0] for target in targets] == ["blobs", "blobs", "index", "search"]
    else:
        folders = [target.split("/")[0] for target in targets]
        assert folders == ["blobs", "blobs", "index", "search", "metadata", "metadata", "metadata", "metadata"]
        assert targets[-2].endswith(".snapshot.json") and targets[-1] == "metadata/timestamp.json"


@pytest.mark.sweep("signed-4", night=["unsigned-8"])
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("unsigned", 8), ("signed", 8), ("signed", 4)])
def test_processes_that_publish_five_packages_each_lose_none(
    tmp_path: Path, make_package: MakePackage, kind: str, count: int
) -> None:
    folders = [
        hand_over(tmp_path / f"p{number}", make_package(f"model{number % 10}", f"1.{number // 10}"))
        for number in range(5 * count)
    ]
    root = make_signed(tmp_path).root if kind == "signed" else tmp_path / "shared registry"
    # Each has five of its own, and one that its neighbour publishes as well.
    shares = [folders[5 * number : 5 * number + 6] for number in range(count)]
    processes = [
        subprocess.Popen(
            [*PUBLISHER, str(root), *map(str, share)],
            env=environment(**signing(root)),
            stdout=subprocess.PIPE,
            text=True,
        )
        for share in shares
    ]
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * count, outputs
    statuses = [json.loads(line)["status"] for output in outputs for line in output.splitlines()]
    assert (statuses.count("published"), statuses.count("already published")) == (5 * count, count - 1)
    assert len(check_consistent(root)) == 5 * count
    opened = open_here(root, tmp_path / "reader")
    assert [len(opened.entries(f"model{number}")) for number in range(10)] == [count // 2] * 10


@pytest.mark.sweep("signed")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unsigned", "signed"])
def test_a_reader_sees_a_consistent_registry_at_every_moment(
    tmp_path: Path, make_package: MakePackage, kind: str
) -> None:
    root = make_signed(tmp_path).root if kind == "signed" else FolderRegistry.create(tmp_path / "registry").root
    folders = [hand_over(tmp_path / f"p{number}", make_package("digits", f"1.{number}")) for number in range(15)]
    publisher = subprocess.Popen(
        [*PUBLISHER, str(root), *map(str, folders)], env=environment(**signing(root)), stdout=subprocess.DEVNULL
    )
    seen = rounds = 0
    while publisher.poll() is None:
        entries = check_consistent(root, tmp_path / "reader")
        assert len(entries) >= seen
        seen, rounds = len(entries), rounds + 1
    assert publisher.returncode == 0 and len(check_consistent(root)) == 15 and rounds >= 3


# --- a disk that refuses ------------------------------------------------------------------------------------------


def in_own_mounts(script: str, root: Path, new: Path) -> subprocess.CompletedProcess[str]:
    """Run the publisher where `script` has changed the mounts below `root`, for that process only."""
    user = [] if os.geteuid() == 0 else ["-r"]
    shell = ["sh", "-c", f'set -e; {script}; exec "$@"', "sh", *PUBLISHER, str(root), str(new)]
    done = run(["unshare", *user, "-m", *shell], ROOT=str(root))
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr.strip()}")
    return done


def test_a_full_disk_is_a_clear_error_and_changes_nothing(
    tmp_path: Path, start: Path, new: Path, snapshot: Snapshot
) -> None:
    with (new / "prefix").open("ab") as file:
        file.write(os.urandom(300_000))
    line = json.loads((new / "line").read_bytes())
    line["blobs"]["prefix"] = plain(BlobRef.of(new / "prefix"))
    (new / "line").write_text(json.dumps(line) + "\n")
    before = snapshot(start)
    script = (
        'cp -a "$ROOT" "$ROOT.copy"; mount -t tmpfs -o size=200k tmpfs "$ROOT"; cp -a "$ROOT.copy/." "$ROOT"; '
        'trap : EXIT; "$@" || code=$?; find "$ROOT" -name "*.part" -print; find "$ROOT" -type f -path "*2.0*"; exit $code'
    )
    done = in_own_mounts(script, start, new)
    error = json.loads(done.stdout)
    assert (done.returncode, error["kind"]) == (20, "storage")
    assert "No space left on device" in error["message"] and "free some space" in error["hint"]
    assert snapshot(start) == before


@pytest.mark.slow
@pytest.mark.parametrize("limit", [10, 100, 400])
def test_a_file_that_may_not_grow_is_a_clear_error_and_changes_nothing(
    start: Path, new: Path, snapshot: Snapshot, limit: int
) -> None:
    before = snapshot(start)
    done = run([*PUBLISHER, str(start), str(new)], TEST_FSIZE=str(limit))
    assert (done.returncode, json.loads(done.stdout)["kind"]) == (20, "storage")
    assert {path: data for path, data in snapshot(start).items() if path in before} == before
    assert "tfaot-model-digits@2.0" not in check_consistent(start)
    assert not list(start.rglob("*.part"))


def test_a_read_only_registry_can_be_read_but_not_written(tmp_path: Path, start: Path, new: Path) -> None:
    done = in_own_mounts('mount --bind "$ROOT" "$ROOT"; mount -o remount,ro,bind "$ROOT"', start, new)
    error = json.loads(done.stdout)
    assert (done.returncode, error["kind"]) == (20, "storage")
    assert "Read-only file system" in error["message"] and str(start) in error["message"] and error["hint"]


@pytest.mark.parametrize("path", ["config.json", "index/di/gi/tfaot-model-digits", ".publish.lock"])
def test_no_permission_is_a_clear_error(
    start: Path, new: Path, path: str, require_program: Callable[[str], str]
) -> None:
    # Injected, because root may do everything.
    strace = [require_program("strace"), "-f", "-qq", "-o", "/dev/null", "-P", str(start / path)]
    done = run([*strace, "-e", "inject=openat:error=EACCES", *PUBLISHER, str(start), str(new)])
    error = json.loads(done.stdout)
    assert (done.returncode, error["kind"]) == (20, "storage"), done
    assert "Permission denied" in error["message"] and error["hint"]
