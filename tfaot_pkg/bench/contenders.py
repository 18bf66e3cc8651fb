"""What is measured: our library and its peers, each ready to be started, or the reason why one cannot be."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg._version import __version__
from tfaot_pkg.bench.measure import Inputs
from tfaot_pkg.bench.peers import PROGRAM, Converter, Peer, Programs, ensure_packages, installed_here
from tfaot_pkg.bench.results import OURS, Row
from tfaot_pkg.bench.serving import Program, native_program, python_program
from tfaot_pkg.bench_program.messages import Options
from tfaot_pkg.errors import TfaotError
from tfaot_pkg.pipeline import Pipeline
from tfaot_pkg.spec.types import Compilation, ModelSpec
from tfaot_pkg.targets import lowest
from tfaot_pkg.toolchain.environment import ToolchainEnvironment


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A row of the table to be; `program` is None if `row.reason` says why it cannot run."""

    row: Row
    program: Program | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What contenders are built from. `targets` are those that libraries are measured for.

    `engine` says what computes the model in `library`, if it is known.
    """

    spec: ModelSpec
    targets: tuple[str, ...]
    library: Path
    engine: str
    toolchain: ToolchainEnvironment
    converter: Converter
    inputs: Inputs
    programs: Programs
    pipeline: Pipeline

    def contenders(self, peers: Sequence[Peer]) -> Iterator[Contender]:
        """Ours first, a row for each target; then `peers`. Missing packages of peers are installed now."""
        version = f"{__version__}, {self._tensorflow}"
        for target in self.targets:
            row = Row(
                name=f"{OURS}-{target}", title=f"tfaot {target}", how="this tool's library, through its C interface",
                version=version, target=target, engine=self.engine,
            )  # fmt: skip
            yield self._library(row, self.library)
        for peer in peers:
            yield from self._of(peer)

    @property
    def _tensorflow(self) -> str:
        return f"TensorFlow {self.toolchain.toolchain.version}"

    def _of(self, peer: Peer) -> Iterator[Contender]:
        row = Row(name=peer.name, title=peer.title, how=peer.how, without_overhead=peer.without_overhead)
        if self.spec.model.format == "trees" and peer.name != "program":
            yield Contender(row=replace(row, reason="TensorFlow, from which its model is made, has no decision trees"))
            return
        try:
            if peer.name == "xla":
                yield from self._alone(row, replace(self.spec.compilation, engine="xla", kernels="none"))
            elif peer.name == "program":
                yield from self._alone(row, replace(self.spec.compilation, engine="program"))
            elif peer.name == "incumbent":
                yield self._incumbent(row)
            else:
                yield self._engine(peer, row)
        except TfaotError as error:
            # One engine that cannot be installed, or cannot take the model, must not end the benchmark.
            yield Contender(row=replace(row, reason=error.message.splitlines()[0].rstrip(":")))

    def _alone(self, row: Row, compilation: Compilation) -> Iterator[Contender]:
        """Ours with other settings: one row for each target."""
        library = self._built(replace(self.spec, compilation=compilation))
        for target in self.targets:
            named = replace(row, name=f"{row.name}-{target}", title=f"{row.title} {target}", target=target)
            yield self._library(replace(named, version=self._tensorflow), library)

    def _incumbent(self, row: Row) -> Contender:
        """The defaults of tfcompile, in a library of ours: what is called is the same code."""
        baseline = lowest("x86_64").name
        compilation = replace(
            self.spec.compilation,
            engine="xla",
            kernels="none",
            weights="embedded",
            targets=(baseline,),
            xla_flags=(),
            tf_xla_flags=(),
        )
        library = self._built(replace(self.spec, compilation=compilation, tuning=None))
        return self._library(replace(row, version=self._tensorflow, target=baseline), library)

    def _built(self, spec: ModelSpec) -> Path:
        return self.pipeline.build(self.pipeline.plan(spec)).library.shared

    def _library(self, row: Row, library: Path) -> Contender:
        program = native_program(
            self.programs.library, library, row.target, self.inputs.file, str(self.inputs.rows),
            readable=(library, self.inputs.file),
        )  # fmt: skip
        return Contender(row=replace(row, model_bytes=library.stat().st_size), program=program)

    def _engine(self, peer: Peer, row: Row) -> Contender:
        python, site, environment = self.toolchain.python, self.toolchain.site_packages, None
        if peer.packages:
            environment = installed_here(peer.distributions) or ensure_packages(peer.packages, python, self.pipeline)
            python, site = environment.python, environment.site_packages
        files = self.converter.files(peer.form, self.spec.compilation.batch_sizes, environment)
        identity = self.converter.identity(peer.form, environment)
        options = Options(
            engine=peer.name,
            identity=str(identity),
            models={str(size): str(file) for size, file in files.items()},
            inputs=self.inputs.inputs,
            outputs=self.inputs.outputs,
            rows=self.inputs.rows,
            calls=str(self.programs.calls),
        )
        # Resolved: several links to one file count once.
        runtime = {path.resolve() for pattern in peer.runtime for path in site.glob(pattern)}
        filled = replace(
            row,
            version=_versions(site, peer),
            model_bytes=sum(file.stat().st_size for file in files.values()),
            runtime_bytes=sum(path.stat().st_size for path in runtime),
        )
        readable = (identity, *files.values(), *self.inputs.files.values(), self.programs.calls, site)
        return Contender(row=filled, program=python_program(python, PROGRAM, options, readable))


def _versions(site: Path, peer: Peer) -> str:
    wanted = peer.distributions or ("tensorflow-cpu", "tensorflow")
    found = {each.metadata["Name"].replace("_", "-").lower(): each.version for each in _distributions(site)}
    return next((str(found[name]) for name in wanted if name in found), "")


def _distributions(site: Path) -> Iterator[importlib.metadata.Distribution]:
    yield from importlib.metadata.distributions(path=[str(site)])
