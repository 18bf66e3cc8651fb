"""What a registry costs at 10, 1,000 and 100,000 packages: publish, search, resolve; unsigned and signed.

    python benchmarks/registry_scale.py [--sizes 10,1000,100000] [--kinds unsigned,signed] [--rounds 15] [--json FILE]

The registry's files are made directly and fast (index files, search shards, the metadata of every bin, signed once);
then real publishers and readers work on it. Times are medians in milliseconds on this machine, with what
the file system has cached. A reader that is "first" has verified nothing yet. `bins` is 8 bits, the default.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tfaot_pkg.ground.keys import key_of, sha256_bytes
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.registry.commit import Keys, open_keys
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.files.layout import blob_path, index_path
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import shard_path, summary_of
from tfaot_pkg.registry.signing import Plan, initialize
from tfaot_pkg.registry.trust.client import Anchor
from tfaot_pkg.registry.trust.roles import hashed_path
from tfaot_pkg.spec.rules import package_name

_SIGNATURE = Signature(
    inputs=(Tensor(name="image", dtype=DType.FLOAT32, shape=(None, 8, 8)),),
    outputs=(Tensor(name="digit", dtype=DType.FLOAT32, shape=(None, 10)),),
)
_WORDS = "jet tagger muon track vertex photon energy regression image digit anomaly autoencoder filter trigger".split()
_CONTENT = b"what is published"


def entry_of(model: str, version: str = "1.0") -> RegistryEntry:
    """One synthetic version; all share a blob, which costs nothing here."""
    number = int(sha256_bytes(model.encode())[:8], 16)
    words = " ".join(_WORDS[(number >> shift) % len(_WORDS)] for shift in (0, 5, 10))
    return RegistryEntry(
        name=package_name(model),
        model=model,
        version=version,
        key=key_of("benchmark", 1, {"model": model, "version": version}),
        tree=sha256_bytes(model.encode()),
        toolchain="2.17.1",
        targets=("x86-64-v2", "x86-64-v3"),
        batch_sizes=(1, 2, 4, 8, 16),
        signature=_SIGNATURE,
        license="Apache-2.0",
        description=f"A {words} of the year {2000 + number % 30}, number {number % 1000}",
        blobs={"prefix": BlobRef.of(_CONTENT)},
        published="2030-01-01T00:00:00Z",
    )


def models(size: int) -> Iterator[str]:
    """Names whose first letters are spread as those of words are."""
    for number in range(size):
        yield f"{_WORDS[number % len(_WORDS)][:4]}{sha256_bytes(str(number).encode())[:6]}_{number}"


def make(folder: Path, size: int, *, signed: bool) -> FolderRegistry:
    """A registry of `size` packages."""
    root = folder / "registry"
    if signed:
        plan = Plan(bits=8)
        initialize(root, folder / "keys", plan, passphrase=lambda: None, secrets=lambda _: "")
        registry = FolderRegistry.open(
            root, anchor=Anchor(folder=folder / "trust"), keys=open_keys([folder / "keys"], lambda _: "")
        )
    else:
        registry = FolderRegistry.create(root)
    _put(root / blob_path(BlobRef.of(_CONTENT).sha256), _CONTENT)
    shards: dict[str, list[tuple[str, bytes]]] = {}
    contents: list[tuple[str, bytes]] = []
    for model in models(size):
        entry = entry_of(model)
        contents.append((index_path(entry.name), entry.line()))
        line = summary_of(entry.name, [entry], None).line()
        shards.setdefault(shard_path(entry.name), []).append((entry.name, line))
    contents += [(path, b"".join(line for _, line in sorted(lines))) for path, lines in shards.items()]
    if signed:
        _sign_all(registry, contents)
    else:
        for path, data in contents:
            _put(root / path, data)
    return registry


def _sign_all(registry: FolderRegistry, contents: list[tuple[str, bytes]]) -> None:
    """All files at once, then one revision with all of them."""
    from tuf.api.metadata import TargetFile

    from tfaot_pkg.registry.commit import SignedCommit, write
    from tfaot_pkg.registry.trust.revision import Revision

    with registry.writing() as commit:
        assert isinstance(commit, SignedCommit)
        revision = Revision(commit.state)
        for path, data in contents:
            digest = sha256_bytes(data)
            role = revision.change(commit.state.role_for(path))
            role.signed.targets[path] = TargetFile(len(data), {"sha256": digest}, path)
            _put(registry.root / hashed_path(path, digest), data)
        signers = registry.keys.signers(commit.state, ("release", "snapshot", "timestamp"))
        write(registry.files, revision.files(signers, commit.now()))


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def measure(folder: Path, size: int, *, signed: bool, rounds: int) -> dict[str, float]:
    """Medians in ms of what people wait for, and what a publication writes."""
    registry = make(folder, size, signed=signed)
    names = list(models(size))
    keys = registry.keys if signed else Keys()

    def reader(trust: str) -> FolderRegistry:
        return FolderRegistry.open(registry.root, anchor=Anchor(folder=folder / trust), keys=keys)

    def median(work: Callable[[int], object], count: int = rounds) -> float:
        return statistics.median(timed(partial(work, number)) for number in range(count))

    publisher = reader("publisher")
    publish = median(lambda n: publisher.publish(replace(entry_of(f"new_{n}"), published=""), {"prefix": _CONTENT}))
    version = median(
        lambda n: publisher.publish(replace(entry_of(names[n % size], f"2.{n}"), published=""), {"prefix": _CONTENT})
    )
    before = {path: path.stat().st_mtime_ns for path in registry.root.rglob("*") if path.is_file()}
    publisher.publish(entry_of("the_last"), {"prefix": _CONTENT})
    written = [p for p in registry.root.rglob("*") if p.is_file() and before.get(p) != p.stat().st_mtime_ns]
    return {
        "publish": publish,
        "new version": version,
        "files written": len([path for path in written if not path.name.startswith(".")]),
        "bytes written": sum(path.stat().st_size for path in written),
        "resolve, first": median(lambda n: reader(f"r{n}").resolve(names[n % size]), min(rounds, 5)),
        "resolve": median(lambda n: reader("r0").resolve(names[n % size])),
        "search, first": median(lambda n: reader(f"s{n}").search("jet tagger number 7"), min(rounds, 3)),
        "search": median(lambda _: reader("s0").search("jet tagger number 7")),
        "list all": median(lambda _: reader("s0").search(""), min(rounds, 3)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10,1000,100000")
    parser.add_argument("--kinds", default="unsigned,signed")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--folder", type=Path, help="where to work [default: the temporary folder]")
    parser.add_argument("--json", type=Path, help="write the results there, too")
    arguments = parser.parse_args()
    results = []
    for kind in arguments.kinds.split(","):
        for size in map(int, arguments.sizes.split(",")):
            folder = Path(tempfile.mkdtemp(prefix="registry-scale-", dir=arguments.folder))
            try:
                figures = measure(folder, size, signed=kind == "signed", rounds=arguments.rounds)
            finally:
                shutil.rmtree(folder)
            results.append({"kind": kind, "packages": size, **figures})
            text = ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())
            print(f"{kind} {size:,}: {text}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
