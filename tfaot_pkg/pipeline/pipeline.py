"""The sequence of stages from a spec to a verified package tree.

`Pipeline.plan` computes all keys without running a stage (no TensorFlow, and the compiler only for its version), which
is enough to decide whether a package is up to date; `Pipeline.build` runs the stages that are not in the build cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from tfaot_pkg.analysis.accuracy import require_bars
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.frozen.model import FrozenModel, freeze, frozen_key
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.definition import OWN, toolchain
from tfaot_pkg.frontends.toolchain.environment import (
    ToolchainEnvironment,
    ensure,
    external,
    identity_of,
    own,
    requirements_file,
)
from tfaot_pkg.frontends.toolchain.fork_servers import ForkServers, KeptServers
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.keys import Key, key_of, sha256_file
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.sandbox import Level
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.build import build_native, native_key
from tfaot_pkg.native.common import check_headers
from tfaot_pkg.native.compiled.flags import require_flags
from tfaot_pkg.native.compiled.model import CompiledModel, compile_model, compiled_key
from tfaot_pkg.native.compiled.program import Engine, ProgramCode, make_program, program_code, require_sources
from tfaot_pkg.native.content import code_key, toolchain_of
from tfaot_pkg.native.cxx.compiler import ArchiveMember, Compiler, find_compiler
from tfaot_pkg.native.library import NativeLibrary, library_uid
from tfaot_pkg.native.model_source import ModelSource, state_offset
from tfaot_pkg.native.source_form import code_files
from tfaot_pkg.native.tools import build_tools, tools_key
from tfaot_pkg.package.binary.findings import glibc_floor_of
from tfaot_pkg.package.listing import Tree
from tfaot_pkg.package.tree import PackageContents, PackageTree, check_class_name, make_package
from tfaot_pkg.pipeline.package_key import components
from tfaot_pkg.provenance.materials import Made, Materials, ToolchainFacts, pins_of
from tfaot_pkg.provenance.statement import statement
from tfaot_pkg.spec.row_files import digest_in
from tfaot_pkg.spec.source.sniffing import require_whole
from tfaot_pkg.spec.source.tree import SourceTree, fetch, source_tree
from tfaot_pkg.spec.tuning import outdated_note
from tfaot_pkg.spec.types import CALIBRATION_KEY, FULL, FolderSource, ModelSpec
from tfaot_pkg.verify import latency
from tfaot_pkg.verify.latency import Gain
from tfaot_pkg.verify.report import ValidationReport
from tfaot_pkg.verify.runs import runnable_targets
from tfaot_pkg.verify.validate import inputs_document, stored_answers, validate, validation_key


@dataclass(frozen=True, slots=True, kw_only=True)
class StageKeys:
    """The keys of the stages up to the compiled code, from their inputs (decision 031).

    Those of later stages begin with what the code is, not how it came about: native/content.py (decision 104).
    """

    frozen: Key
    compiled: Key

    def as_dict(self) -> dict[str, Key]:
        """The keys for the provenance, which are the same on every machine."""
        return {"frozen": self.frozen, "compiled": self.compiled}


@dataclass(frozen=True, kw_only=True)  # no slots: `keys` is kept
class Plan:
    """A spec with all inputs of its package.

    `key` is that of the whole package, `components` are the parts of the key (package_key.py), `inputs` describes the
    inputs of validation (`inputs_document`).
    """

    spec: ModelSpec
    source: SourceTree
    toolchain: ToolchainFacts
    compiler: Compiler
    components: Mapping[str, str]
    inputs: Mapping[str, object]
    key: Key

    @cached_property
    def keys(self) -> StageKeys:
        """The keys of all stages, computed on demand: planning a night needs none of them."""
        return self.keys_for(self.spec)

    def library_in(self, folder: Path, code: Key) -> NativeLibrary:
        """The library of `code` (native/content.py) with the files in `folder`, built anywhere."""
        spec = self.spec
        return NativeLibrary(
            folder=folder,
            key=native_key(spec, code, self.compiler),
            name=spec.model.package_name,
            uid=library_uid(spec, code),
        )

    def keys_for(self, spec: ModelSpec) -> StageKeys:
        """The keys of the stages of a variant of the spec, which has the same model and toolchain."""
        return stage_keys(spec, self.source, self.toolchain, inputs=self.inputs)

    def validation_key(self, spec: ModelSpec, library: NativeLibrary) -> Key:
        """The key of the validation of `library` by the rules of `spec`, a variant of the plan's."""
        return validation_key(spec, self.source, self.keys.frozen, library.key, self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A verified package; one of reduced precision with its gains on this machine."""

    plan: Plan
    frozen: FrozenModel
    engine: Engine
    library: NativeLibrary
    report: ValidationReport
    tree: PackageTree
    gains: tuple[Gain, ...] = ()

    @property
    def confinement(self) -> Level:
        """The weakest level of the sandbox in which the model or its library ran, even if the build was cached."""
        return _confinement(self.frozen, self.report)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The results of `Pipeline.validate`: model, engine, code, library, report, and the answers for NAME_test.

    `program` is None if XLA compiles the model; its files exist as long as the pool of workers.
    """

    frozen: FrozenModel
    engine: Engine
    program: ProgramCode | None
    library: NativeLibrary
    report: ValidationReport
    answers: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The results of `Pipeline.compared`."""

    library: NativeLibrary
    engine: Engine
    report: ValidationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The folders and tools of builds.

    `toolchain_python` is the user's own interpreter with TensorFlow; `source_folder` contains the model's files and
    replaces the source that specs name. `candidate` is a toolchain that is not defined yet, for specs that name its
    version (`toolchain try`). `servers` fork workers of toolchains, if they are given (decision 117).
    """

    folders: Folders
    progress: Progress
    toolchain_python: Path | None = None
    wheelhouse: Path | None = None
    source_folder: Path | None = None
    candidate: ToolchainEnvironment | None = None
    servers: ForkServers | KeptServers | None = None
    cache: BuildCache = field(init=False)

    def __post_init__(self) -> None:
        # The dataclass is frozen; this field is computed from another one.
        object.__setattr__(self, "cache", BuildCache(root=self.folders.builds))

    def source(self, spec: ModelSpec) -> SourceTree:
        """The model's files. Raises SourceError, NetworkError, StorageError."""
        chosen = spec.source if self.source_folder is None else FolderSource(path=self.source_folder)
        root = fetch(chosen, folders=self.folders, progress=self.progress)
        model = spec.model
        return source_tree(root, Path(model.files.path), field=model.files.format, beside=model.files_beside)

    def plan(self, spec: ModelSpec) -> Plan:
        """All keys of `spec`. Raises SourceError, ToolchainError (unknown toolchain), CompilerError (no compiler)."""
        facts = self.toolchain_facts(spec)
        # The spec's rules allow targets of one architecture only.
        architecture = TARGETS[spec.compilation.targets[0]].architecture
        log = self.folders.logs / f"{spec.model.package_name}.log"
        compiler = find_compiler(architecture, log=log, output=self.progress.output)
        return plan_of(spec, self.source(spec), facts, compiler, inputs=inputs_document(spec))

    def build(self, plan: Plan) -> Build:
        """The verified package of `plan`. Raises the errors of all stages; no partial result is kept."""
        check_class_name(plan.spec)
        spec, keys = plan.spec, plan.keys
        if note := outdated_note(spec):
            self.progress.note(f"note: {note}")
        environment = self.environment_of(plan)
        # Stages append to the log, which should contain this build only.
        plan.compiler.log.unlink(missing_ok=True)
        with self.workers(environment) as pool:
            require_flags(spec, pool=pool, cache=self.cache, progress=self.progress)
            saved = SavedModel(spec.model, plan.source, pool, spec.compilation.variables)
            frozen = freeze(spec, saved, key=keys.frozen, pool=pool, cache=self.cache, progress=self.progress)
            require_bars(spec, frozen.signature)
            compiled, library = self._library(spec, plan, frozen, environment, pool)
            validation = plan.validation_key(spec, library)
            report = validate(
                spec, saved, frozen, library,
                engine=compiled.engine, operations=compiled.program.operations if compiled.program else (),
                key=validation, inputs=plan.inputs, compiler=plan.compiler,
                pool=pool, cache=self.cache, progress=self.progress,
            )  # fmt: skip
            gains = self._gains(plan, frozen, library, environment, pool) if compiled.engine.reduced else ()
        programs = build_tools(
            spec, library, key=tools_key(library.key), compiler=plan.compiler, cache=self.cache, progress=self.progress
        )
        answers = stored_answers(spec, validation, self.cache)
        with self.progress.step("package"):
            contents = contents_of(
                plan, frozen, compiled.engine, library, environment, program=compiled.program, programs=programs.paths
            )
            told = _documented(contents, plan, frozen, compiled.engine, library, report, programs.archives, answers)
            check = partial(check_headers, spec, plan.compiler, self.cache, environment.toolchain.name)
            tree = make_package(told, self.cache, check)
        return Build(
            plan=plan, frozen=frozen, engine=compiled.engine, library=library, report=report, tree=tree, gains=gains
        )

    def compared(self, plan: Plan, judged: ModelSpec) -> Compared:
        """The library of `plan`, compared with the framework as `judged` says, which has other rules of validation.

        No package is made. Raises the errors of all stages up to validation.
        """
        spec, environment = plan.spec, self.environment_of(plan)
        with self.workers(environment) as pool:
            saved = SavedModel(spec.model, plan.source, pool, spec.compilation.variables)
            frozen = freeze(spec, saved, key=plan.keys.frozen, pool=pool, cache=self.cache, progress=self.progress)
            require_bars(judged, frozen.signature)
            compiled, library = self._library(spec, plan, frozen, environment, pool)
            report = validate(
                judged, saved, frozen, library,
                engine=compiled.engine, operations=compiled.program.operations if compiled.program else (),
                key=plan.validation_key(judged, library), inputs=plan.inputs,
                compiler=plan.compiler, pool=pool, cache=self.cache, progress=self.progress,
            )  # fmt: skip
        return Compared(library=library, engine=compiled.engine, report=report)

    def _library(
        self, spec: ModelSpec, plan: Plan, frozen: FrozenModel, environment: ToolchainEnvironment, pool: WorkerPool
    ) -> tuple[CompiledModel, NativeLibrary]:
        """The code and library of `spec`, a variant of the plan's with the same frozen model."""
        keys = plan.keys_for(spec)
        compiled = compile_model(
            spec, frozen,
            key=keys.compiled, pool=pool, compiler=plan.compiler, cache=self.cache, progress=self.progress,
            calibration=digest_in(plan.inputs, CALIBRATION_KEY),
        )  # fmt: skip
        require_sources(spec, compiled.engine)  # even if the code is in the cache
        library = build_native(
            spec, frozen, compiled,
            environment=environment, compiler=plan.compiler, cache=self.cache, progress=self.progress,
        )  # fmt: skip
        return compiled, library

    def _gains(
        self,
        plan: Plan,
        frozen: FrozenModel,
        library: NativeLibrary,
        environment: ToolchainEnvironment,
        pool: WorkerPool,
    ) -> tuple[Gain, ...]:
        """What the reduced precision of the plan's spec gains: its library beside that of float32, made for this."""
        if not (targets := runnable_targets(plan.spec)):
            return ()
        full = replace(plan.spec, compilation=replace(plan.spec.compilation, precision=FULL))
        _, other = self._library(full, plan, frozen, environment, pool)
        with self.progress.step("measure the gain"):
            return latency.gains(library.shared, other.shared, latency.timer(plan.compiler, self.cache), targets)

    def validate(
        self, plan: Plan, folder: Path, pool: WorkerPool, check: Callable[[NativeLibrary], None] = lambda _: None
    ) -> Validated:
        """Validate the library of `plan` in `folder`, which another machine may have built; `check` gets it first.

        The build cache is not used (decision 035). Raises the errors of freezing, and ValidationError.
        """
        spec, keys = plan.spec, plan.keys
        # In a folder that workers cannot write to: a hostile model must not change files that are compared later.
        saved, cache = (
            SavedModel(spec.model, plan.source, pool, spec.compilation.variables),
            BuildCache(root=pool.given_folder("cache")),
        )
        frozen = freeze(spec, saved, key=keys.frozen, pool=pool, cache=cache, progress=self.progress)
        made = pool.given_folder("program")
        calibration = digest_in(plan.inputs, CALIBRATION_KEY)
        engine = make_program(spec, frozen, pool.environment.toolchain, made, calibration=calibration)
        program, toolchain = program_code(made), toolchain_of(engine, pool.environment.toolchain)
        code = code_key(spec, frozen, engine, program, key=keys.compiled, toolchain=toolchain)
        library = plan.library_in(folder, code)
        check(library)
        validation = plan.validation_key(spec, library)
        report = validate(
            spec, saved, frozen, library,
            engine=engine, operations=program.operations if program else (),
            key=validation, inputs=plan.inputs, compiler=plan.compiler,
            pool=pool, cache=cache, progress=self.progress,
        )  # fmt: skip
        answers = stored_answers(spec, validation, cache)
        return Validated(frozen=frozen, engine=engine, program=program, library=library, report=report, answers=answers)

    def environment_for(self, spec: ModelSpec, source: SourceTree) -> ToolchainEnvironment:
        """`environment`, if the files in `source` are a model of the spec's format. Raises ModelError if not."""
        # Before gigabytes are downloaded for them.
        require_whole(spec.model.files.format, source.model)
        return self.environment(spec)

    def environment(self, spec: ModelSpec) -> ToolchainEnvironment:
        """The toolchain of `spec`, installed now if it is missing."""
        frontends = FrontendEnvironments(folders=self.folders, progress=self.progress, wheelhouse=self.wheelhouse)
        if spec.is_lowered:
            return own(frontends.ensure(FRONTENDS[spec.model.files.format]))
        if self.candidate is not None and self.candidate.toolchain.version == spec.compilation.tensorflow:
            return self.candidate
        if self.toolchain_python is not None:
            return external(self.toolchain_python, folders=self.folders)
        return ensure(
            spec.compilation.tensorflow, folders=self.folders, progress=self.progress, wheelhouse=self.wheelhouse
        )

    def workers(self, environment: ToolchainEnvironment, *, scratch_root: Path | None = None) -> WorkerPool:
        """Workers in `environment`, and in those of front-ends; their files are below `scratch_root`.

        If there are `servers`, `scratch_root` is in their folder.
        """
        return WorkerPool(
            environment,
            scratch_root=scratch_root or (self.servers.folder if self.servers else self.folders.builds),
            logs=self.folders.logs,
            frontends=FrontendEnvironments(folders=self.folders, progress=self.progress, wheelhouse=self.wheelhouse),
            servers=self.servers,
        )

    def environment_of(self, plan: Plan) -> ToolchainEnvironment:
        """The toolchain of `plan`. Raises ToolchainError if it has changed since."""
        environment = self.environment_for(plan.spec, plan.source)
        # The keys are those of the planned toolchain: results of another one must not be stored under them.
        if environment.identity != plan.toolchain.identity:
            raise ToolchainError(
                f"the toolchain at {environment.python} was replaced since the build was planned",
                hint="repeat the command",
            )
        return environment

    def toolchain_facts(self, spec: ModelSpec) -> ToolchainFacts:
        """Facts about the toolchain of `spec`, without installing it. Raises ToolchainError."""
        if spec.is_lowered:
            return pinned_facts(spec)
        # Neither a candidate nor the user's own environment has a lock file of ours: provenance says so.
        if self.candidate is not None and self.candidate.toolchain.version == spec.compilation.tensorflow:
            found = self.candidate
            return ToolchainFacts(toolchain=found.toolchain, identity=found.identity, lock="", pins=())
        if self.toolchain_python is not None:
            found = external(self.toolchain_python, folders=self.folders)
            return ToolchainFacts(toolchain=found.toolchain, identity=found.identity, lock="", pins=())
        return pinned_facts(spec)


def pinned_facts(spec: ModelSpec) -> ToolchainFacts:
    """Facts about the pinned toolchain of `spec`, without installing it. Raises ToolchainError."""
    if spec.is_lowered:
        frontend = FRONTENDS[spec.model.files.format]
        wanted, lock, identity = OWN, frontend.requirements, frontend.identity
    else:
        wanted = toolchain(spec.compilation.tensorflow)
        lock = requirements_file(wanted)
        identity = identity_of(wanted, lock)
    return ToolchainFacts(toolchain=wanted, identity=identity, lock=sha256_file(lock), pins=pins_of(lock.read_text()))


def stage_keys(
    spec: ModelSpec,
    source: SourceTree,
    toolchain: ToolchainFacts,
    *,
    inputs: Mapping[str, object],
) -> StageKeys:
    """The keys of the stages of `spec`, from their inputs."""
    # A chain: each key contains that of the stage before, so a changed input changes all keys after it.
    frozen = frozen_key(spec, source, toolchain.identity)
    compiled = compiled_key(spec, frozen, toolchain.toolchain, calibration=digest_in(inputs, CALIBRATION_KEY))
    return StageKeys(frozen=frozen, compiled=compiled)


def plan_of(
    spec: ModelSpec,
    source: SourceTree,
    toolchain: ToolchainFacts,
    compiler: Compiler,
    *,
    inputs: Mapping[str, object],
) -> Plan:
    """The plan of `spec`; `inputs` is the `inputs_document` of its validation."""
    parts = components(spec, source, toolchain=toolchain.identity, compiler=compiler, inputs=inputs)
    return Plan(
        spec=spec,
        source=source,
        toolchain=toolchain,
        compiler=compiler,
        components=parts,
        inputs=inputs,
        key=key_of("release", code_digest(__name__), {"components": parts}),
    )


def contents_of(
    plan: Plan,
    frozen: FrozenModel,
    engine: Engine,
    library: NativeLibrary,
    environment: ToolchainEnvironment,
    *,
    program: ProgramCode | None,
    programs: tuple[Path, ...],
) -> PackageContents:
    """The package's contents except the documents of this build: report, answers, provenance."""
    return PackageContents(
        spec=plan.spec,
        signature=frozen.signature,
        rows=frozen.rows,
        any_batch_size=engine.is_program,
        bits=engine.bits,
        symbol=library.symbol,
        uid=library.uid,
        toolchain=environment.toolchain.name,
        origin=frozen.origin,
        trees=frozen.trees,
        static_library=library.static,
        shared_library=library.shared,
        glibc=glibc_floor_of([library.shared, *programs]),
        objects=library.objects,
        programs=programs,
        code=_code(plan, frozen, library, program),
        notices=_notices(environment),
        validation={},
        graph=frozen.outline,
    )


def _code(
    plan: Plan,
    frozen: FrozenModel,
    library: NativeLibrary,
    program: ProgramCode | None,
) -> dict[str, bytes] | None:
    """The sources of the library, if the spec asks for them."""
    if program is None or not plan.spec.package.source:
        return None
    model = ModelSource(
        spec=plan.spec,
        frozen=frozen,
        toolchain=OWN,  # no segments: `require_sources`
        uid=library.uid,
        symbol=library.symbol,
        any_batch_size=True,
        weight_offsets=(0,),  # the constants of a program are one weight
        state_offset=state_offset(program.constants.stat().st_size, frozen),
    )
    return code_files(model, program)


def _documented(
    contents: PackageContents,
    plan: Plan,
    frozen: FrozenModel,
    engine: Engine,
    library: NativeLibrary,
    report: ValidationReport,
    archives: Mapping[str, tuple[ArchiveMember, ...]],
    answers: bytes | None,
) -> PackageContents:
    """`contents` with the documents of this build."""
    from tfaot_pkg.provenance.sbom import sbom  # the library takes 0.1 s to import

    materials = _materials(plan, _confinement(frozen, report))
    digests = contents.binary_digests()
    made = Made(
        signature=frozen.signature,
        engine=engine,
        parts=library.parts,
        report=report,
        binaries=digests,
        archives={
            **{f"lib/{name}": members for name, members in library.archives.items()},
            **{f"bin/{name}": members for name, members in archives.items()},
        },
    )
    return replace(
        contents,
        digests=digests,
        answers=answers,
        validation=plain(report),
        sbom=sbom(materials, made),
        provenance=partial(statement, materials, glibc=contents.glibc, validated=report.targets),
    )


def provenance_of(
    plan: Plan, contents: PackageContents, files: Tree, confinement: Level, validated: Mapping[str, str]
) -> dict[str, object]:
    """The provenance of the package of `contents`, whose other files are `files`; `validated` as `statement` has it."""
    return statement(_materials(plan, confinement), files, glibc=contents.glibc, validated=validated)


def _confinement(frozen: FrozenModel, report: ValidationReport) -> Level:
    return Level.weakest([frozen.confinement, report.confinement])


def _materials(plan: Plan, confinement: Level) -> Materials:
    return Materials(
        spec=plan.spec,
        key=plan.key,
        keys=plan.keys.as_dict(),
        source=plan.source.digest,
        validation_inputs=dict(plan.inputs),
        toolchain=plan.toolchain,
        compiler=plan.compiler,
        confinement=confinement,
    )


def _notices(environment: ToolchainEnvironment) -> dict[str, bytes]:
    """The licences of all code that is linked into a library."""
    notices = {f"tensorflow-{path.name}": path.read_bytes() for path in environment.notices}
    notices["gcc-runtime.txt"] = (resources.templates() / "notices" / "gcc-runtime.txt").read_bytes()
    notices["tfaot-pkg-LICENSE.txt"] = resources.licence().read_bytes()
    return notices
