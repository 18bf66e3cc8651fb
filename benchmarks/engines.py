"""The seven networks of networks.py beside other inference engines: what docs/benchmarks/engines.* hold.

    .venv/bin/python benchmarks/engines.py [--networks NAME,...] [--peers NAME,...] [--rounds 15]
        [--batch-sizes 1,2,...] [--folder docs/benchmarks] [--work build/engines] [--from engines.json]

Each network is measured as `tfaot-pkg bench` does it, with both of the highest targets that this machine runs. Written
are engines.json (all results), engines.md (tables, and what they were measured on), engines-latency.svg and
engines-resources.svg. Results of networks that are done stay in the work folder: a run that was stopped goes on there.

--from draws tables and plots anew from an engines.json, and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tfaot_pkg.cli.command import make_progress  # noqa: E402
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION  # noqa: E402
from tfaot_pkg.frontends.toolchain.environment import ensure  # noqa: E402
from tfaot_pkg.ground.documents import convert, plain  # noqa: E402
from tfaot_pkg.ground.process import run  # noqa: E402
from tfaot_pkg.ground.settings import Folders  # noqa: E402
from tfaot_pkg.ground.targets import TARGETS, runs_here  # noqa: E402
from tfaot_pkg.measure.bench import table  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.measure.bench.peers import peers_named  # noqa: E402
from tfaot_pkg.measure.bench.plot import latency_plot, resources_plot  # noqa: E402
from tfaot_pkg.measure.bench.results import Bench  # noqa: E402
from tfaot_pkg.measure.bench.run import Request, bench  # noqa: E402
from tfaot_pkg.pipeline.pipeline import Pipeline  # noqa: E402
from tfaot_pkg.spec.parse import load_spec  # noqa: E402

NETWORKS = (
    *("dnn_5x128_tanh", "dnn_10x128_elu", "dnn_10x256_elu", "dnn_20x256_elu"),
    *("cnn_i32c1v1l10u128", "cnn_i32c1v3l10u128", "cnn_i64c3v4l20u128"),
)
_PEERS = (
    "xla,incumbent,litert,onnxruntime,openvino,openvino_default,iree,tensorflow,tensorflow_jit"  # others are for trees
)
GOALS = {"dnn": 1.25, "cnn": 1.5}  # times the roofline
EXTRA_MEMORY = 6 * 1024  # kB beyond weights and largest activations
EXTRA_SIZE = 400 * 1024  # bytes beyond 1.15 times the weights


_COLUMNS = ("network", "time / roofline", "goal", "size / goal", "memory / goal", "first run ms")
_HEAD = """\
# Inference engines compared

Made by `benchmarks/engines.py`; [bench](../how-to/bench.md) describes the method. One thread on one core; medians
of {rounds} rounds in which all engines take turns; smaller is better.

{machine}

![latency per item over batch size](engines-latency.svg)
"""
_MACHINE = """\
Measured on {date} with tfaot-pkg {version}.

Machine: {cpu}, {cores} cores ({kind}), {caches}, {memory_gib} GiB, highest target {target}; Linux {kernel};
{compiler}. Load at the end: {load}."""
_NOTE = """\
Time / roofline is the geometric mean over batch sizes, each target by its own roofline; the goal is 1.25 for dense and
1.5 for convolutional networks. The other goals: a library of at most 1.15 times the weights + 400 KB; peak memory of at
most weights + inputs and outputs of the largest batch + 6 MB; a first run within 8 ms."""


@dataclass(frozen=True, kw_only=True)
class Options:
    name: str
    networks: tuple[str, ...]
    request: Request
    folder: Path
    work: Path
    source: Path | None


def options(
    description: str | None,
    networks: Sequence[str],
    *,
    peers: str,
    rounds: int,
    batch_sizes: str,
    name: str,
    levels: int = 1,
) -> Options:
    """The command line, with these defaults: the work folder is build/NAME, `levels` how many of the best targets."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(networks))
    parser.add_argument("--peers", default=peers)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--batch-sizes", default=batch_sizes)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "benchmarks")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / name)
    parser.add_argument("--from", dest="source", type=Path)
    given = parser.parse_args()
    best = sorted(filter(runs_here, TARGETS.values()), key=lambda target: target.level)
    request = Request(
        peers=peers_named(given.peers.split(",")),
        batch_sizes=tuple(map(int, given.batch_sizes.split(","))),
        targets=tuple(target.name for target in best[-levels:]),
        rounds=given.rounds,
    )
    return Options(
        name=name, networks=tuple(given.networks.split(",")), request=request, folder=given.folder, work=given.work,
        source=given.source,
    )  # fmt: skip


def toolchain_python(pipeline: Pipeline) -> Path:
    return ensure(DEFAULT_VERSION, folders=pipeline.folders, progress=pipeline.progress).python


def compared(
    chosen: Options,
    write: Callable[[Sequence[str], Path, Pipeline], None],
    markdown: Callable[[list[Bench]], str],
    *,
    kind: str = "networks",
    beside: Callable[[str], Collection[str]] | None = None,
) -> list[Bench]:
    """Measure what `write` puts into a folder, and write NAME.json, with results as its `kind`, and NAME.md.

    `beside` names the chosen peers that a network is measured beside, if not all.
    """
    chosen.work.mkdir(parents=True, exist_ok=True)
    if chosen.source:
        benches = [convert(Bench, item) for item in json.loads(chosen.source.read_text())[kind]]
    else:
        folder = chosen.work / kind
        pipeline = Pipeline(folders=Folders.of_user(), progress=make_progress(verbose=False))
        if missing := [name for name in chosen.networks if not (folder / name / "spec.yaml").exists()]:
            write(missing, folder, pipeline)
        requests = {
            name: _beside(chosen.request, beside(name)) if beside else chosen.request for name in chosen.networks
        }
        benches = measured(requests, networks=folder, work=chosen.work, pipeline=pipeline)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    document = {"format": 1, kind: [plain(each) for each in benches]}
    (chosen.folder / f"{chosen.name}.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
    (chosen.folder / f"{chosen.name}.md").write_text(markdown(benches))
    return benches


def write_networks(names: Sequence[str], folder: Path, pipeline: Pipeline) -> None:
    """Write the networks `names`, by TensorFlow of the toolchain."""
    maker = ROOT / "benchmarks" / "networks.py"
    run([toolchain_python(pipeline), "-I", "-B", maker, folder, *names], timeout=600)


def _beside(request: Request, names: Collection[str]) -> Request:
    return replace(request, peers=tuple(each for each in request.peers if each.name in names))


def measured(requests: Mapping[str, Request], *, networks: Path, work: Path, pipeline: Pipeline) -> list[Bench]:
    """Of networks/NAME/spec.yaml for each name; those that `work` has results of are not measured again."""
    found = []
    for name, request in requests.items():
        kept = work / f"{name}.json"
        if not kept.exists():
            print(f"== {name}", file=sys.stderr, flush=True)
            spec = load_spec(networks / name / "spec.yaml")
            compilation = replace(spec.compilation, targets=request.targets)  # no others: its size is judged
            result = bench(replace(spec, compilation=compilation), request, pipeline)
            kept.write_text(json.dumps(plain(result)))
        found.append(convert(Bench, json.loads(kept.read_text())))
    return found


def markdown(benches: list[Bench]) -> str:
    lines = [_HEAD.format(rounds=benches[0].rounds, machine=on(benches[0])), *summary(benches)]
    for each in benches:
        lines += ["", f"## {each.model}", "", f"{each.description}; {each.weights / 1024:.0f} KB of weights.", ""]
        lines += [table.latencies(each).markdown(), ""]
        lines += [cold.markdown(), ""] if (cold := table.cold_calls(each)) else []
        lines += [table.resources(each).markdown()]
        lines += ["", *[f"- {line}" for line in table.notes(each)]] if table.notes(each) else []
    lines += ["", "## Memory and size of the largest networks", "", "![memory and sizes](engines-resources.svg)", ""]
    lines += ["## What was run", "", *how(benches)]
    return "\n".join(lines) + "\n"


def on(bench: Bench) -> str:
    """When, with which version and on which machine it was measured."""
    return on_machine(bench.machine, next(row.version for row in bench.engines if row.is_ours))


def on_machine(machine: Mapping[str, Any], version: str) -> str:
    """As `on`, of `description`."""
    kind = "a virtual machine" if machine["hypervisor"] else "no virtual machine"
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    return _MACHINE.format(**{**machine, "kind": kind, "caches": caches, "version": version})


def summary(benches: list[Bench]) -> list[str]:
    """Where this tool stands against others and its goals, in numbers."""
    goals = table.Table(head=_COLUMNS, rows=tuple(_goals(each) for each in benches))
    return [*standing(benches), "", goals.markdown(), "", _NOTE]


def standing(benches: list[Bench]) -> list[str]:
    """In how many cells this tool is first, and where it is not."""
    cells = [(each, size, table.ratio_to_peers(each, size)) for each in benches for size in each.batch_sizes]
    cells = [cell for cell in cells if not math.isnan(cell[2])]
    behind = [cell for cell in cells if cell[2] > 1]
    mean = table.geometric_mean([ratio for _, _, ratio in cells])
    first = f"First in {len(cells) - len(behind)} of {len(cells)} cells (network and batch size)"
    lines = [f"{first}; our time over the best other engine's, geometric mean: {mean:.2f}."]
    lines += [""] if behind else []
    for each, size, ratio in behind:
        peer = table.best_peer(each, size)
        lines.append(f"- behind: {each.model}, batch size {size}: {ratio:.2f} times {peer.title if peer else ''}")
    return lines


def _goals(each: Bench) -> tuple[str, ...]:
    ours = [row for row in each.engines if row.is_ours and row.cells]
    shares = []
    for row in ours:
        mean = table.geometric_mean([table.share_of_roof(each, row, size) for size in each.batch_sizes])
        shares.append(f"{mean:.2f} ({row.target})")
    size = max(row.model_bytes for row in ours) / (1.15 * each.weights + EXTRA_SIZE)
    memory = max(row.memory for row in ours) / ((each.weights + each.largest_tensors) / 1024 + EXTRA_MEMORY)
    first = max(row.first_inference for row in ours) / 1e6
    goal = GOALS.get(each.model[:3], math.nan)
    return each.model, ", ".join(shares), f"{goal:.2f}", f"{size:.2f}", f"{memory:.2f}", f"{first:.2f}"


def how(benches: list[Bench]) -> list[str]:
    """What was run, engine by engine."""
    rows = {row.name: row for each in benches for row in each.engines if row.cells}
    return [f"- {row.title} ({row.version}): {row.how}." for row in rows.values()]


def largest(benches: list[Bench]) -> list[Bench]:
    """Of each kind of network the one with most weights."""
    kinds = dict.fromkeys(each.model[:3] for each in benches)
    return [max((b for b in benches if b.model.startswith(kind)), key=lambda b: b.weights) for kind in kinds]


def main() -> None:
    chosen = options(
        __doc__, list(NETWORKS), peers=_PEERS, rounds=15, batch_sizes="1,2,4,8,16,64,256", name="engines", levels=2
    )
    benches = compared(chosen, write_networks, markdown)
    (chosen.folder / "engines-latency.svg").write_bytes(latency_plot(benches, ".svg"))
    (chosen.folder / "engines-resources.svg").write_bytes(resources_plot(largest(benches), ".svg"))
    print("\n".join(summary(benches)))


if __name__ == "__main__":
    main()
