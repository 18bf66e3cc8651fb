"""What `tfaot-pkg tune` found, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfaot_pkg.batching.planner import Planner, unseen, written
from tfaot_pkg.compiled.assignment import Unit
from tfaot_pkg.spec.tuning import tuning_document
from tfaot_pkg.tuning.flags import FlagsFound
from tfaot_pkg.tuning.kernels import LayersFound
from tfaot_pkg.tuning.measure import Tuned


def document(tuned: Tuned, file: Path) -> dict[str, object]:
    """`file` is where it was written."""
    return {
        "file": str(file),
        "tuning": tuning_document(tuned.tuning),
        "measured": list(tuned.measured),
        "kept": list(tuned.kept),
        "dropped": list(tuned.dropped),
        "outdated": list(tuned.outdated),
        "not_run": list(tuned.not_run),
        "kernels": [_layers_document(unit, found) for unit, found in (tuned.layers or {}).items()],
        "xla_flags": _flags_document(tuned.flags) if tuned.flags is not None else None,
        "compositions": {
            name: {str(rows): list(sizes) for rows, sizes in _compositions(tuned, name).items()}
            for name in tuned.measured
        },
    }


def _layers_document(unit: Unit, found: LayersFound) -> dict[str, object]:
    size, target = unit
    return {
        "target": target,
        "batch_size": size,
        "layers": sorted(found.chosen),
        "nanoseconds": {"xla": found.xla, "cost_model": found.estimated, "tuned": found.tuned},
    }


def _flags_document(found: FlagsFound) -> dict[str, object]:
    chosen = [
        {
            "target": target,
            "batch_size": size,
            "flags": list(flags),
            "ratio": found.ratios[size, target].value,
            "error": found.ratios[size, target].error,
        }
        for (size, target), flags in found.flags.items()
    ]
    return {"chosen": chosen, "skipped": dict(found.skipped)}


def text(tuned: Tuned, file: Path) -> str:
    lines = [f"measured on {tuned.tuning.machine['cpu']}, one thread, interleaved rounds"]
    if tuned.layers is not None:
        lines += _layers_table(tuned.layers)
    if tuned.flags is not None:
        lines += _flags_table(tuned.flags)
    for target in tuned.measured:
        lines += _costs_table(tuned, target)
    lines.append("")
    for what, names in (
        ("not measured, because this machine cannot run them", tuned.not_run),
        ("kept from the file as it was", tuned.kept),
        ("dropped, because they were measured on another CPU or for other layers", tuned.dropped),
        ("costs dropped, because the code is another one now (--batch-costs measures them)", tuned.outdated),
    ):
        if names:
            lines.append(f"{what}: {', '.join(names)}")
    lines.append(f"wrote {file}: commit it with the spec; the next build takes the findings from it")
    return "\n".join(lines)


def _layers_table(layers: Mapping[Unit, LayersFound]) -> list[str]:
    """Times in nanoseconds; the gain is over the cost model's choice."""
    columns = ("XLA alone", "cost model", "tuned", "gain")
    lines = [
        "",
        f"{'layers by kernels':<18}{'batch size':>12}" + "".join(f"{name:>14}" for name in columns) + "  chosen",
    ]
    before = ""
    for (size, target), found in layers.items():
        shown = target if target != before else ""
        gain = found.estimated / found.tuned
        times = "".join(f"{time:>14.0f}" for time in (found.xla, found.estimated, found.tuned))
        lines.append(f"{shown:<18}{size:>12}{times}{f'x {gain:.2f}':>14}  {found.words}")
        before = target
    return lines


def _flags_table(found: FlagsFound) -> list[str]:
    lines = ["", "flags of XLA"]
    for (size, target), flags in found.flags.items():
        ratio = found.ratios[size, target]
        lines.append(f"{target:<18}{size:>12}{f'x {1 / ratio.value:.2f}':>14}  {' '.join(flags)}")
    lines += [f"  not used: {flags} ({reason})" for flags, reason in found.skipped.items()]
    return lines if len(lines) > 2 else [*lines, "  none gains"]


def _costs_table(tuned: Tuned, target: str) -> list[str]:
    costs = tuned.tuning.batch_costs.get(target, {})
    if not costs:
        return []
    lines = ["", f"{target:<18}{'batch size':>12}{'ns':>14}{'ns per row':>14}"]
    lines += [f"{size:>30}{cost:>14.0f}{cost / size:>14.1f}" for size, cost in costs.items()]
    lines += [f"{rows:>30} rows are run as {written(sizes)}" for rows, sizes in _compositions(tuned, target).items()]
    return lines


def _compositions(tuned: Tuned, target: str) -> Mapping[int, tuple[int, ...]]:
    """What a few sizes that are not compiled are made of; nothing where no batch can be put together, or is known."""
    costs = tuned.tuning.batch_costs.get(target, {})
    frozen = tuned.build.frozen
    if (
        not costs
        or not frozen.rows.independent
        or not all(tensor.has_batch_axis for tensor in frozen.signature.outputs)
    ):
        return {}
    planner = Planner(costs)
    return {rows: planner.sizes(rows) for rows in unseen(sorted(costs))}
