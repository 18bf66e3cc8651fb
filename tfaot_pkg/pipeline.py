"""The stages in a row: from a spec to a verified package tree.

`Pipeline.plan` computes all keys without running anything (no TensorFlow, no compiler but for its version), which
is what "is it up to date?" costs; `Pipeline.build` does the work that the build cache does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.cache import BuildCache
from tfaot_pkg.compiled.model import compile_model, compiled_key
from tfaot_pkg.compiled.shares import KernelShare, kernel_share
from tfaot_pkg.components import components
from tfaot_pkg.folders import Folders
from tfaot_pkg.frozen.model import FrozenModel, freeze, frozen_key
from tfaot_pkg.keys import Key, key_of, sha256_file
from tfaot_pkg.native.compiler import Compiler, find_compiler
from tfaot_pkg.native.library import NativeLibrary, build_native, native_key
from tfaot_pkg.native.tools import build_tools, tools_key
from tfaot_pkg.package.tree import PackageContents, PackageTree, make_package
from tfaot_pkg.progress import Progress
from tfaot_pkg.provenance.materials import VERSION, Made, Materials, ToolchainFacts, pins_of
from tfaot_pkg.provenance.statement import statement
from tfaot_pkg.source.tree import SourceTree, fetch, source_tree
from tfaot_pkg.spec.types import FolderSource, ModelSpec
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.toolchain.definition import toolchain
from tfaot_pkg.toolchain.environment import (
    ToolchainEnvironment,
    ensure,
    external,
    identity_of,
    requirements_file,
)
from tfaot_pkg.toolchain.worker import WorkerPool
from tfaot_pkg.verify.report import ValidationReport
from tfaot_pkg.verify.validate import inputs_document, stored_answers, validate

_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A spec with everything that decides about its package known.

    `key` is that of the whole package, `keys` those of the stages before it by name, `components` what they are made
    from (components.py).
    """

    spec: ModelSpec
    source: SourceTree
    toolchain: ToolchainFacts
    compiler: Compiler
    components: Mapping[str, str]
    keys: dict[str, Key]
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A verified package."""

    plan: Plan
    frozen: FrozenModel
    library: NativeLibrary
    report: ValidationReport
    tree: PackageTree

    @property
    def kernels(self) -> KernelShare:
        """What the kernel library computes of the model."""
        return kernel_share(self.plan.spec, self.frozen.layers, self.plan.toolchain.toolchain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Where and with what to build.

    `toolchain_python` is an interpreter of the user's to take TensorFlow from; `source_folder` holds the model's files
    and stands for whatever source specs name.
    """

    folders: Folders
    progress: Progress
    toolchain_python: Path | None = None
    wheelhouse: Path | None = None
    source_folder: Path | None = None
    cache: BuildCache = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cache", BuildCache(root=self.folders.builds))

    def source(self, spec: ModelSpec) -> SourceTree:
        """The model's files. Raises SourceError, NetworkError, StorageError."""
        chosen = spec.source if self.source_folder is None else FolderSource(path=self.source_folder)
        root = fetch(chosen, folders=self.folders, progress=self.progress)
        return source_tree(root, Path(spec.model.saved_model))

    def plan(self, spec: ModelSpec) -> Plan:
        """All keys of `spec`. Raises SourceError, ToolchainError (unknown toolchain), CompilerError (no compiler)."""
        facts = self.toolchain_facts(spec)
        architecture = TARGETS[spec.compilation.targets[0]].architecture
        log = self.folders.logs / f"{spec.model.package_name}.log"
        compiler = find_compiler(architecture, log=log, output=self.progress.output)
        return plan_of(spec, self.source(spec), facts, compiler, inputs=inputs_document(spec))

    def build(self, plan: Plan) -> Build:
        """The verified package of `plan`. Raises any of the errors of a build; nothing half-made is left behind."""
        spec = plan.spec
        environment = self.environment(spec)
        plan.compiler.log.unlink(missing_ok=True)
        with WorkerPool(environment, scratch_root=self.folders.builds, logs=self.folders.logs) as pool:
            frozen = freeze(spec, plan.source, pool=pool, cache=self.cache, progress=self.progress)
            compiled = compile_model(
                spec, frozen, pool=pool, compiler=plan.compiler, cache=self.cache, progress=self.progress
            )
            library = build_native(
                spec, frozen, compiled,
                environment=environment, compiler=plan.compiler, cache=self.cache, progress=self.progress,
            )  # fmt: skip
            report = validate(spec, plan.source, frozen, library, pool=pool, cache=self.cache, progress=self.progress)
        programs = build_tools(spec, library, compiler=plan.compiler, cache=self.cache, progress=self.progress)
        answers = stored_answers(spec, plan.source, library, self.cache)
        with self.progress.step("package"):
            contents = _contents(plan, frozen, library, environment, report, programs=programs, answers=answers)
            tree = make_package(contents, self.cache)
        return Build(plan=plan, frozen=frozen, library=library, report=report, tree=tree)

    def environment(self, spec: ModelSpec) -> ToolchainEnvironment:
        """The toolchain of `spec`, made now where it is missing."""
        if self.toolchain_python is not None:
            return external(self.toolchain_python, folders=self.folders)
        return ensure(
            spec.compilation.tensorflow, folders=self.folders, progress=self.progress, wheelhouse=self.wheelhouse
        )

    def toolchain_facts(self, spec: ModelSpec) -> ToolchainFacts:
        """What is known of the toolchain of `spec` without making its environment. Raises ToolchainError."""
        if self.toolchain_python is not None:
            found = external(self.toolchain_python, folders=self.folders)
            return ToolchainFacts(toolchain=found.toolchain, identity=found.identity, lock="", pins=())
        return pinned_toolchain(spec.compilation.tensorflow)


def pinned_toolchain(version: str) -> ToolchainFacts:
    """What is known of one of our toolchains without making its environment. Raises ToolchainError."""
    wanted = toolchain(version)
    lock = requirements_file(wanted)
    return ToolchainFacts(
        toolchain=wanted, identity=identity_of(wanted, lock), lock=sha256_file(lock), pins=pins_of(lock.read_text())
    )


def plan_of(
    spec: ModelSpec,
    source: SourceTree,
    toolchain: ToolchainFacts,
    compiler: Compiler,
    *,
    inputs: Mapping[str, object],
) -> Plan:
    """All keys of `spec` from what decides about them; `inputs` is what `inputs_document` says of the validation's."""
    parts = components(spec, source, toolchain=toolchain.identity, compiler=compiler, inputs=inputs)
    frozen = frozen_key(spec, source, toolchain.identity)
    compiled = compiled_key(spec, frozen, toolchain.toolchain)
    native = native_key(spec, compiled, compiler)
    # The stages' keys hold nothing that is not in the parts, but the versions of their code.
    stages = {"native": native, "tools": tools_key(native) if spec.package.tools else None, "documents": VERSION}
    return Plan(
        spec=spec,
        source=source,
        toolchain=toolchain,
        compiler=compiler,
        components=parts,
        keys={"frozen": frozen, "compiled": compiled, "native": native},
        key=key_of("release", _VERSION, {"components": parts, "stages": stages}),
    )


def _contents(
    plan: Plan,
    frozen: FrozenModel,
    library: NativeLibrary,
    environment: ToolchainEnvironment,
    report: ValidationReport,
    *,
    programs: tuple[Path, ...],
    answers: bytes | None,
) -> PackageContents:
    from tfaot_pkg.provenance.sbom import sbom  # the library takes 0.1 s to import

    spec, materials = plan.spec, _materials(plan)
    made = Made(
        signature=frozen.signature,
        parts=library.parts,
        report=report,
        binaries={
            **{f"lib/{path.name}": sha256_file(path) for path in library.files},
            **{f"bin/{path.name}": sha256_file(path) for path in programs},
        },
    )
    return PackageContents(
        spec=spec,
        signature=frozen.signature,
        symbol=library.symbol,
        uid=library.uid,
        toolchain=f"tensorflow {environment.toolchain.version}",
        static_library=library.static,
        shared_library=library.shared,
        objects=library.objects,
        programs=programs,
        answers=answers,
        notices=_notices(environment),
        validation=report.as_dict(),
        sbom=sbom(materials, made),
        graph=frozen.outline,
        provenance=partial(statement, materials),
    )


def _materials(plan: Plan) -> Materials:
    return Materials(
        spec=plan.spec,
        key=plan.key,
        keys=plan.keys,
        source=plan.source.digest,
        validation_inputs=inputs_document(plan.spec),
        toolchain=plan.toolchain,
        compiler=plan.compiler,
    )


def _notices(environment: ToolchainEnvironment) -> dict[str, bytes]:
    """The licences of everything that is linked into a library."""
    notices = {f"tensorflow-{path.name}": path.read_bytes() for path in environment.notices}
    notices["gcc-runtime.txt"] = (resources.templates() / "notices" / "gcc-runtime.txt").read_bytes()
    notices["tfaot-pkg-LICENSE.txt"] = resources.licence().read_bytes()
    return notices
