"""The engines to measure: our library and its peers, ready to start, or the reason why one cannot start."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import TfaotError, ToolchainError
from tfaot_pkg.frontends.toolchain.environment import ToolchainEnvironment
from tfaot_pkg.frontends.toolchain.pinned import PythonEnvironment
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.signature import Tensor
from tfaot_pkg.ground.targets import lowest
from tfaot_pkg.measure.bench.measure import Inputs
from tfaot_pkg.measure.bench.peers import PROGRAM, Converter, Peer, Programs, ensure_packages, installed_here
from tfaot_pkg.measure.bench.results import OURS, Row
from tfaot_pkg.measure.bench.serving import COPIES, Program, native_program, python_program
from tfaot_pkg.measure.bench.trees import Trees
from tfaot_pkg.measure.bench_program.messages import Options, Output
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.types import Compilation, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """An engine and its row of the table; `program` is None if `row.reason` says why it cannot run.

    `given` is its only result, if it does not compute all outputs of the model.
    """

    row: Row
    program: Program | None = None
    given: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """All inputs of contenders. `targets` are those that libraries are measured for.

    `engine` says what computes the model in `library`, if it is known. `trees` is the model for other engines, if it
    consists of decision trees.
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
    trees: Trees | None = None

    def contenders(self, peers: Sequence[Peer]) -> Iterator[Contender]:
        """Our library first, a row for each target; then `peers`. Missing packages of peers are installed now."""
        version = f"{__version__}, {self._tensorflow}" if self.toolchain.toolchain.has_tensorflow else __version__
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
        return self.toolchain.toolchain.title

    def _of(self, peer: Peer) -> Iterator[Contender]:
        row = Row(name=peer.name, title=peer.title, how=peer.how, without_overhead=peer.without_overhead)
        # Before anything is installed for a peer that cannot take this model.
        if (reason := _other_kind(peer, self.spec, is_of_trees=self.trees is not None)) != "":
            yield Contender(row=replace(row, reason=reason))
            return
        try:
            if peer.name == "xla":
                yield from self._alone(row, replace(self.spec.compilation, engine="xla", kernels="none"))
            elif peer.name == "program":
                yield from self._alone(row, replace(self.spec.compilation, engine="program"))
            elif peer.name == "incumbent":
                yield self._incumbent(row)
            elif self.trees is not None:
                yield self._engine_of_trees(peer, row, self.trees)
            else:
                yield self._engine(peer, row)
        except TfaotError as error:
            # An engine that cannot be installed, or cannot take the model, must not end the benchmark.
            yield Contender(row=replace(row, reason=error.message.splitlines()[0].rstrip(":")))

    def _alone(self, row: Row, compilation: Compilation) -> Iterator[Contender]:
        """Our library with other settings: one row for each target."""
        library = self._built(replace(self.spec, compilation=compilation))
        for target in self.targets:
            named = replace(row, name=f"{row.name}-{target}", title=f"{row.title} {target}", target=target)
            yield self._library(replace(named, version=self._tensorflow), library)

    def _incumbent(self, row: Row) -> Contender:
        """The code of tfcompile with its defaults, called through a library of ours."""
        # As saved_model_cli calls it: no shared weights, no flags, and no tuning file.
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
        # Branches of trees depend on their inputs: each run gets other rows (_LEAST_BATCHES in run.py).
        copies = self._copies(library)
        program = native_program(
            self.programs.library, library, copies / "copy", row.target, self.inputs.file, str(self.inputs.rows),
            *(["turning"] if self.trees is not None else []), readable=(library, copies, self.inputs.file),
        )  # fmt: skip
        return Contender(row=replace(row, model_bytes=library.stat().st_size), program=program)

    def _copies(self, library: Path) -> Path:
        """The folder with the copies of `library` that cold calls need (templates/bench/library.cc)."""
        folder = self.programs.library.parent / f"copies-{sha256_file(library)}"
        if not folder.exists():
            folder.mkdir()
            for number in range(1, COPIES):
                copyfile(library, folder / f"copy{number}")
        return folder

    def _engine(self, peer: Peer, row: Row) -> Contender:
        environment = self._environment(peer)
        files = self.converter.files(peer.form, self.spec.compilation.batch_sizes, environment)
        identity = self.converter.identity(peer.form, environment)
        return self._of_files(peer, row, environment or self.toolchain, files, self.inputs.outputs, identity)

    def _engine_of_trees(self, peer: Peer, row: Row, trees: Trees) -> Contender:
        peer = trees.named(peer)
        row = replace(row, title=peer.title, how=peer.how)
        environment = self._environment(peer) or trees.library
        prepared = trees.prepared(peer, self.spec.compilation.batch_sizes, environment)
        given = prepared.given
        outputs = (Output(name=given.name, dtype=given.dtype.value, shape=given.shape),)
        made = self._of_files(peer, row, environment, prepared.files, outputs)
        return replace(made, given=given)

    def _environment(self, peer: Peer) -> PythonEnvironment | None:
        """The environment of the peer's own packages; None if it is part of the toolchain."""
        if not peer.packages:
            return None
        # Packages that the user has installed beside this one need no download.
        found = installed_here(peer.distributions)
        return found or ensure_packages(peer.packages, self.toolchain.python, self.pipeline)

    def _of_files(
        self,
        peer: Peer,
        row: Row,
        environment: PythonEnvironment,
        files: Mapping[int, Path],
        outputs: tuple[Output, ...],
        identity: Path | None = None,
    ) -> Contender:
        site = environment.site_packages
        # Resolved, so that several links to one file count once.
        runtime = {path.resolve() for pattern in peer.runtime for path in site.glob(pattern)}
        filled = replace(
            row,
            version=_versions(site, peer),
            # Some peers have one file for all batch sizes, others one for each.
            model_bytes=sum(file.stat().st_size for file in set(files.values())),
            runtime_bytes=sum(path.stat().st_size for path in runtime),
        )
        readable = (*([identity] if identity else []), *files.values(), site)
        start = self._in_c if peer.program else self._in_python
        return Contender(row=filled, program=start(peer, environment, files, outputs, identity, readable))

    def _in_c(
        self,
        peer: Peer,
        environment: PythonEnvironment,
        files: Mapping[int, Path],
        outputs: tuple[Output, ...],
        identity: Path | None,
        readable: tuple[Path, ...],
    ) -> Program:
        """The program of templates/bench/sessions.h."""
        library = next(iter(sorted(environment.site_packages.glob(peer.library))), None)
        if library is None:
            raise ToolchainError(f"the package of {peer.title} has no {peer.library}")
        tensors = [("input", each) for each in self.inputs.inputs] + [("output", each) for each in outputs]
        words = (
            *peer.words,
            *(["turning"] if self.trees is not None else []),
            *(f"{size}={file}" for size, file in files.items()),
            *([f"0={identity}"] if identity else []),
            *(
                f"{kind}:{each.dtype}:{','.join(str(-1 if axis is None else axis) for axis in each.shape)}"
                for kind, each in tensors
            ),
        )
        return native_program(
            self.programs.engines[peer.program], library, self.inputs.file, str(self.inputs.rows), *words,
            readable=(*readable, self.inputs.file), has_overhead=identity is not None,
        )  # fmt: skip

    def _in_python(
        self,
        peer: Peer,
        environment: PythonEnvironment,
        files: Mapping[int, Path],
        outputs: tuple[Output, ...],
        identity: Path | None,
        readable: tuple[Path, ...],
    ) -> Program:
        options = Options(
            engine=peer.name,
            identity=str(identity or ""),
            models={str(size): str(file) for size, file in files.items()},
            inputs=self.inputs.inputs,
            outputs=outputs,
            rows=self.inputs.rows,
            calls=str(self.programs.calls),
            turning=self.trees is not None,
        )
        readable = (*readable, *self.inputs.files.values(), self.programs.calls)
        return python_program(environment.python, PROGRAM, options, readable)


def _other_kind(peer: Peer, spec: ModelSpec, *, is_of_trees: bool) -> str:
    """The reason why the peer does not run models of this kind; "" if it does."""
    if peer.form in ("trees", "c"):
        return "" if is_of_trees else "it computes decision trees only"
    if is_of_trees and peer.name not in ("program", "onnxruntime"):
        return "TensorFlow, from which its model is made, has no decision trees"
    if spec.is_lowered and peer.name != "program" and peer.form not in ("onnx", "iree"):
        return "its model is made from TensorFlow's, and this one has none"
    return ""


def _versions(site: Path, peer: Peer) -> str:
    wanted = peer.distributions or ("tensorflow-cpu", "tensorflow")
    # Names of distributions compare without case, and "_" equals "-" (PEP 503).
    found = {each.metadata["Name"].replace("_", "-").lower(): each.version for each in _distributions(site)}
    return next((str(found[name]) for name in wanted if name in found), "")


def _distributions(site: Path) -> Iterator[importlib.metadata.Distribution]:
    yield from importlib.metadata.distributions(path=[str(site)])
