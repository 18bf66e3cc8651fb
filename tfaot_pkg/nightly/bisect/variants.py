"""Builds with parts of two ends: each in a folder of its own, by the command that everybody can repeat."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from tfaot_pkg.errors import (
    CompilerError,
    ModelError,
    RunError,
    SourceError,
    SpecError,
    StorageError,
    ValidationError,
)
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.forms.document import Dumper
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.nightly.bisect.ends import OF_TOOL, ROWS, TEMPLATE, End, Files, Part
from tfaot_pkg.nightly.bisect.search import Undone
from tfaot_pkg.nightly.bisect.tools import SWAPPED, Tool, environment, mix
from tfaot_pkg.nightly.compare import Times
from tfaot_pkg.pipeline.package_key import COMPILER, TOOLCHAIN, TUNING
from tfaot_pkg.pipeline.rebuild import escaped
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.tuning import tuning_bytes, tuning_path
from tfaot_pkg.spec.types import CALIBRATION_KEY, INPUTS_KEY, LABELS_KEY, FolderSource, ModelSpec
from tfaot_pkg.verify.beside import Beside, beside
from tfaot_pkg.verify.report import ValidationReport
from tfaot_pkg.verify.turns import Speed

Metric = Literal["verdict", "answers", "size", "memory", "error", "speed"]
METRICS: tuple[Metric, ...] = get_args(Metric)

_OF_MODELS = frozenset(
    each.exit_code for each in (SpecError, SourceError, ModelError, CompilerError, ValidationError, RunError)
)
"""Exit codes that say something about what was built; all others are of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A variant: the `command` that builds it, and how that ended.

    `verdict` is "verified", or the error's kind; "" if the machine failed. `error` is its text; `library` the shared
    library, None without a package.
    """

    command: str
    verdict: str
    error: str = ""
    library: Path | None = None
    size: int = 0
    largest: float = 0.0


@dataclass(kw_only=True)
class Workshop:
    """Builds variants of `after` in folders of `root`; what is undone is as in `before`.

    `tools` and `compilers` are those of both ends, (before, after), None if they are the same or not here.
    """

    root: Path
    parts: Sequence[Part]
    before: tuple[End, Files]
    after: tuple[End, Files]
    tools: tuple[Tool, Tool] | None
    compilers: tuple[str, str]
    times: Times
    progress: Progress
    tried: dict[Undone, Made] = field(default_factory=dict)
    _beside: dict[tuple[Path, Path], Beside] = field(default_factory=dict)
    _speeds: dict[tuple[Path, Path], Mapping[tuple[str, int], Speed]] = field(default_factory=dict)

    @property
    def everything(self) -> Undone:
        return frozenset(part.name for part in self.parts)

    def made(self, undone: Undone) -> Made:
        """The variant, built now if it was not. Raises StorageError."""
        if undone not in self.tried:
            with self.progress.step(f"build {self._title(undone)}"):
                self.tried[undone] = self._build(undone)
        return self.tried[undone]

    def share(self, metric: Metric) -> Callable[[Undone], float | None]:
        """How much of the difference is gone in a variant (search.py)."""
        return lambda undone: self._share(metric, self.made(undone))

    def differences(self, wanted: Sequence[Metric]) -> Mapping[Metric, str]:
        """What of `wanted` differs between both ends as they are built here, in words. Raises ValidationError."""
        old, new = self._ends
        if not old.verdict or not new.verdict:
            failed = old if not old.verdict else new
            raise StorageError(f"this machine cannot build it: {failed.error}", hint=f"by hand: {failed.command}")
        if old.verdict != new.verdict and "verdict" in wanted:
            return {"verdict": f"{old.verdict} -> {new.verdict}: {old.error or new.error}"}
        if old.library is None or new.library is None:
            return {}
        found = {metric: self._difference(metric, old, new) for metric in wanted if metric != "verdict"}
        return {metric: text for metric, text in found.items() if text}

    @property
    def _ends(self) -> tuple[Made, Made]:
        return self.made(self.everything), self.made(frozenset())

    def _difference(self, metric: Metric, old: Made, new: Made) -> str:
        match metric:
            case "answers":
                apart = self._compared(old, new).apart
                return str(apart) if apart is not None else ""
            case "size" if old.size != new.size:
                return f"{old.size:,} B -> {new.size:,} B"
            case "memory" if (pair := self._compared(old, new).memory) and pair[0] != pair[1]:
                return f"{pair[0]:,} B -> {pair[1]:,} B"
            case "error" if old.largest != new.largest:
                return f"{old.largest:.3g} -> {new.largest:.3g}"
            case "speed" if (speed := self._worst) is not None:
                return (
                    f"{speed.kind}: {speed.target}, batch size {speed.batch_size}: in turns {speed.ratio:.3g} times as "
                    "long"
                )
        return ""

    def _share(self, metric: Metric, made: Made) -> float | None:
        old, new = self._ends
        if metric == "verdict":
            return float(made.verdict == old.verdict) if made.verdict else None
        if made.library is None:
            return None
        match metric:
            case "answers":
                if self._compared(old, made).apart is None:
                    return 1.0
                return 0.0 if self._compared(new, made).apart is None else 0.5
            case "size":
                return _gone(old.size, new.size, made.size)
            case "error":
                return _gone(old.largest, new.largest, made.largest)
            case "memory":
                ends, own = self._compared(old, new).memory, self._compared(old, made).memory
                return None if ends is None or own is None else _gone(*ends, own[1])
        assert self._worst is not None
        unit = (self._worst.target, self._worst.batch_size)
        found = self._timed(old, made).get(unit)
        return None if found is None else 1.0 - math.log(found.ratio) / math.log(self._worst.ratio)

    def _compared(self, one: Made, other: Made) -> Beside:
        assert one.library is not None and other.library is not None
        pair = (one.library, other.library)
        if pair not in self._beside:
            self._beside[pair] = beside(*pair, self._targets[-1])
        return self._beside[pair]

    @cached_property
    def _worst(self) -> Speed | None:
        """Of what differs in speed between both ends, the largest change."""
        old, new = self._ends
        changed = [one for one in self._timed(old, new).values() if one.kind in ("slower", "faster")]
        return max(changed, key=lambda one: abs(math.log(one.ratio)), default=None)

    def _timed(self, one: Made, other: Made) -> Mapping[tuple[str, int], Speed]:
        assert one.library is not None and other.library is not None
        pair = (one.library, other.library)
        if pair not in self._speeds:
            specs = [files.spec.compilation for _, files in (self.before, self.after)]
            sizes = [size for size in specs[1].batch_sizes if size in specs[0].batch_sizes]
            units = [(target, size) for target in self._targets for size in sizes]
            with self.progress.step("take turns"):
                speeds = self.times(*pair, units).speeds if units else ()
            self._speeds[pair] = {(each.target, each.batch_size): each for each in speeds}
        return self._speeds[pair]

    @cached_property
    def _targets(self) -> tuple[str, ...]:
        """Those of both ends that run here, the lowest first. Raises ValidationError if there is none."""
        specs = [files.spec.compilation for _, files in (self.before, self.after)]
        found = tuple(name for name in specs[1].targets if name in specs[0].targets and runs_here(TARGETS[name]))
        if not found:
            raise ValidationError("this machine can run no target that both have", hint="bisect on another machine")
        return found

    def _title(self, undone: Undone) -> str:
        if not undone:
            return "after"
        if undone == self.everything:
            return "before"
        others = self.everything - undone
        which, listed = ("without", undone) if len(undone) <= len(others) else ("only", others)
        return f"{which} {', '.join(sorted(listed))}"

    def _build(self, undone: Undone) -> Made:
        folder = self.root / self._title(undone).replace(", ", "+").replace(" ", "-").replace("'", "")
        spec = folder / "spec.yaml"
        with storage_errors(f"write {folder}"):
            folder.mkdir(parents=True)
            spec.write_bytes(self._spec(undone))
            tuning = (self.before if TUNING in undone else self.after)[1].spec.tuning
            if tuning is not None:
                tuning_path(spec).write_bytes(tuning_bytes(tuning))
        root = self._tool(undone, folder)
        words = [sys.executable, "-m", "tfaot_pkg", "build", str(spec), "-o", str(folder / "prefix")]
        set_ = {"PYTHONPATH": str(root)} if root is not None else {}
        compiler = self.compilers[0 if COMPILER in undone else 1]
        set_ |= {"CXX": compiler} if compiler else {}
        shown = [*(f"{name}={shlex.quote(text)}" for name, text in set_.items())]
        shown.append(shlex.join(words if root is not None else ["tfaot-pkg", *words[3:]]))
        own = environment(root if root is not None else Path(__file__).resolve().parents[3])
        return self._run([*words, "--json"], {**own, **set_}, " ".join(shown), folder / "prefix")

    def _run(self, argv: Sequence[str], env: Mapping[str, str], command: str, prefix: Path) -> Made:
        try:
            document: Any = read_json(run(argv, env=env).stdout.encode())
        except CommandFailed as error:
            kind, exit_code, message = _failure(error)
            return Made(command=command, verdict=kind if exit_code in _OF_MODELS else "", error=message)
        library = prefix / "lib" / f"lib{document['package']}.so"
        return Made(
            command=command, verdict="verified", library=library, size=library.stat().st_size,
            largest=ValidationReport.from_dict(document["validation"]).max_absolute,
        )  # fmt: skip

    def _tool(self, undone: Undone, folder: Path) -> Path | None:
        """The root of the tool of a variant; None for this tool as it is."""
        if self.tools is None:
            return None
        old, new = self.tools
        parts = [name for name in SWAPPED if name in undone]
        # Parts that are the same in both go with the tool's code.
        mixed = tuple(name for name in (*OF_TOOL, TOOLCHAIN) if name in self.everything)
        if not parts or set(parts) == set(mixed):
            return (old if parts else new).root
        into = folder / "tool"
        mix(new, old, parts, into)
        return into

    def _spec(self, undone: Undone) -> bytes:
        """The spec of a variant: that of `after`, with fields of `before`."""
        old, new = (_document(files.spec) for _, files in (self.before, self.after))
        for part in self.parts:
            if part.name not in undone:
                continue
            if part.name == "source":
                new["source"] = old["source"]
                _swap(old, new, "model", (self.before[1].spec.model.files.format,))
            elif part.name == TOOLCHAIN:
                _swap(old, new, "compilation", ("tensorflow",))
            elif part.name == ROWS:
                _swap(old, new, "validation", ("inputs", "labels"))
                _swap_calibration(old, new)
            elif part.name not in (TUNING, COMPILER, TEMPLATE, *SWAPPED):
                section, _, name = part.name.partition(".")
                _swap(old, new, section, (name,))
        return yaml.dump(escaped(new), Dumper=Dumper, allow_unicode=True).encode()


def _gone(old: float, new: float, own: float) -> float:
    return (new - own) / (new - old)


def _failure(error: CommandFailed) -> tuple[str, int, str]:
    """Kind, exit code and message of a command that failed."""
    for line in reversed(error.output.splitlines()):
        try:
            told: Any = json.loads(line)["error"]
            return str(told["kind"]), int(told["exit_code"]), str(told["message"]).partition("\n")[0]
        except (ValueError, KeyError, TypeError):
            continue
    return "", 0, error.tail or error.reason


def _swap(old: dict[str, Any], new: dict[str, Any], section: str, names: Sequence[str]) -> None:
    """Fields of a section as they are in `old`, also if they are missing there."""
    for name in names:
        new.get(section, {}).pop(name, None)
        if name in old.get(section, {}):
            new.setdefault(section, {})[name] = old[section][name]


def _swap_calibration(old: dict[str, Any], new: dict[str, Any]) -> None:
    here, there = (each["compilation"].get("precision") for each in (new, old))
    if isinstance(here, dict) and isinstance(there, dict) and "calibration" in there:
        here["calibration"] = there["calibration"]


def _document(spec: ModelSpec) -> dict[str, Any]:
    """The spec's document with the paths of this machine, so that it can be read in any folder."""
    found = spec_document(spec)
    if isinstance(spec.source, FolderSource):
        found["source"] = {"path": str(spec.source.path)}
    elif hasattr(spec.source, "url"):  # with what is needed to fetch it
        found["source"]["url"] = spec.source.url
    for key, path in spec.data_files.items():
        if key == CALIBRATION_KEY:
            found["compilation"]["precision"]["calibration"] = os.fspath(path)
        else:
            found["validation"]["inputs" if key == INPUTS_KEY else "labels"] = os.fspath(path)
            assert key in (INPUTS_KEY, LABELS_KEY)
    return found
