"""What `tfaot-pkg nightly plan` costs where nothing has changed: 3,000 tasks in under 5 s, without TensorFlow.

    python benchmarks/nightly_plan.py [--tasks 3000] [--rounds 5] [--profile] [--json FILE]

Synthetic specs, each with a small folder in the layout of a SavedModel (planning reads bytes only), for all toolchains
that there are, and a registry whose index says that all of them are published. The first plan has to read everything,
the others know digests of files and parsed specs. Times are of the whole program, from its start to its end. TensorFlow
is made impossible to import.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS
from tfaot_pkg.ground.keys import canonical_json, sha256_bytes
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.nightly.definition import load_definition
from tfaot_pkg.nightly.inputs import cache_file
from tfaot_pkg.nightly.planning import plan_night, state_folder
from tfaot_pkg.nightly.types import Decision
from tfaot_pkg.registry.entry import BlobRef, RegistryEntry
from tfaot_pkg.registry.files.layout import PREFIX, index_path
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import VALIDATION
from tfaot_pkg.spec.rules import package_name

ROOT = Path(__file__).resolve().parent.parent
_SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 16)),),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 4)),),
)
_FILES = ("saved_model.pb", "fingerprint.pb", "variables/variables.index", "variables/variables.data-00000-of-00001")


def write_models(root: Path, count: int) -> None:
    """`count` specs below `root`, and the definition that names them."""
    for number in range(count):
        folder = root / "recipes" / f"tfaot-model-m{number}" / "all"
        for name in _FILES:
            path = folder / "saved_model" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"{number} {name} ".encode() * (40 if "data" in name else 4))
        (folder / "spec.yaml").write_text(
            f"model:\n  name: m{number}\n  version: 1.0.0\n  license: Apache-2.0\n  description: Synthetic, {number}\n"
            f"compilation:\n  batch_sizes: [1, 2, 4, {8 + number % 8}]\nvalidation:\n  seed: {number}\n"
        )
    (root / "registry.yaml").write_text(
        f"registry: registry\nmodels:\n  - spec: recipes/*/all/spec.yaml\ntoolchains: [{', '.join(TOOLCHAINS)}]\n"
    )


def publish_all(root: Path, decisions: tuple[Decision, ...]) -> None:
    """Write the index that a night leaves which has built all of `decisions`."""
    registry = FolderRegistry.create(root / "registry")
    blobs = {}
    for role, content in ((PREFIX, b"package"), (VALIDATION, b'{"not_run": []}')):
        blobs[role] = BlobRef.of(content)
        registry.files.place(registry.blob_path(blobs[role]), blobs[role], content)
    lines: dict[str, bytes] = {}
    for decision in decisions:
        task = decision.task
        entry = RegistryEntry(
            name=package_name(task.model),
            model=task.model,
            version=decision.release,
            key=decision.key,
            tree=sha256_bytes(task.id.encode()),
            toolchain=f"tensorflow {task.toolchain}",
            targets=task.targets,
            batch_sizes=(1, 2, 4, 8),
            signature=_SIGNATURE,
            license="Apache-2.0",
            description="Synthetic",
            blobs=blobs,
            published="2026-11-01T03:00:00Z",
        )
        lines[entry.name] = lines.get(entry.name, b"") + entry.line()
    for name, content in lines.items():
        path = registry.root / index_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def run_plan(root: Path) -> tuple[float, dict[str, int]]:
    """Seconds of one run of the program, and what it counts."""
    blocked = root / "blocked"
    (blocked / "tensorflow").mkdir(parents=True, exist_ok=True)
    (blocked / "tensorflow" / "__init__.py").write_text("raise SystemExit('TensorFlow was imported')\n")
    environment = {**os.environ, "PYTHONPATH": f"{blocked}:{ROOT}", "TFAOT_HOME": str(root / "home")}
    argv = [sys.executable, "-m", "tfaot_pkg", "nightly", "plan", str(root / "registry.yaml"), "--json"]
    start = time.perf_counter()
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    counts: dict[str, int] = json.loads(done.stdout)["counts"]
    return seconds, counts


def plan_here(root: Path) -> tuple[Decision, ...]:
    folders = Folders(cache=root / "home" / "cache", data=root / "home" / "data")
    loaded = load_definition(root / "registry.yaml")
    return plan_night(loaded, state=state_folder(loaded), folders=folders, progress=Silent()).decisions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="show where the time of a plan goes")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfaot-nightly-") as folder:
        root = Path(folder)
        os.environ["TFAOT_HOME"] = str(root / "home")
        write_models(root, -(-asked.tasks // len(TOOLCHAINS)))
        publish_all(root, plan_here(root))
        cache_file(Folders.of_user(), root / "nightly-state").unlink(missing_ok=True)
        time.sleep(2.5)  # files that have just been written are not cached (inputs.py)
        first, counts = run_plan(root)
        times = [run_plan(root)[0] for _ in range(asked.rounds)]
        result = {
            "models": counts["up to date"] // len(TOOLCHAINS),
            "toolchains": len(TOOLCHAINS),
            "counts": counts,
            "first_seconds": round(first, 3),
            "unchanged_seconds": round(statistics.median(times), 3),
            "slowest_seconds": round(max(times), 3),
        }
        print(json.dumps(result, indent=2))
        if asked.json:
            asked.json.write_bytes(canonical_json(result) + b"\n")
        if asked.profile:
            profile = cProfile.Profile()
            profile.runcall(plan_here, root)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
        if sum(counts.values()) != counts["up to date"]:
            sys.exit("something is to be built, although nothing has changed")


if __name__ == "__main__":
    main()
