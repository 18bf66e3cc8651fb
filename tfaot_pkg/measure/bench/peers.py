"""The engines that models are measured with: their environments, installed on demand, and the models in their formats.

Converted models, one file per batch size, are kept in the build cache.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tfaot_pkg.errors import CompilerError, ModelError, SpecError
from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.frontends.toolchain.pinned import Pins, PythonEnvironment, inspect
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import key_of, sha256_bytes, sha256_file, sha256_tree
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.sandbox import Command, Limits, Sandbox
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.measure.bench_program.messages import Conversion, Fetched, Fixing, Placeholder, Saved, TreeConversion
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.verify.latency import processor
from tfaot_pkg.worker_program.messages.wire import encoded

Form = Literal["library", "graph", "tflite", "onnx", "iree", "trees", "c"]
"""The form of a model that an engine runs: our library, a converted graph, a file of trees, or C code of trees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An engine beside ours.

    `packages` names its lock file in bench/requirements, "" if it is part of the toolchain; `distributions` are its
    Python packages, `disk` is their size in MB, for users. `runtime` are patterns of the files below site-packages that
    a run needs, for the table of sizes. `without_overhead`: it is called through a Python binding that its users in C++
    do not use, so the cost of a call is subtracted from its times. An engine with a C API has a program of ours in
    templates/bench, `program`, which opens the file `library` below site-packages with the further `words`.
    """

    name: str
    title: str
    how: str
    form: Form
    packages: str = ""
    distributions: tuple[str, ...] = ()
    disk: int = 0
    runtime: tuple[str, ...] = ()
    without_overhead: bool = False
    program: str = ""
    library: str = ""
    words: tuple[str, ...] = ()


_OPENVINO = Peer(
    name="openvino",
    title="OpenVINO float32 (C)",
    how="one compiled model per batch size through its C API, float32, tensors bound",
    form="onnx",
    packages="openvino",
    distributions=("openvino",),
    disk=280,
    runtime=(
        *("openvino/libs/libopenvino.so*", "openvino/libs/libopenvino_c.so*"),
        *("openvino/libs/libopenvino_intel_cpu_plugin.so", "openvino/libs/libopenvino_onnx_frontend.so*"),
    ),
    program="openvino",
    library="openvino/libs/libopenvino_c.so*",
    words=("precision=f32",),
)
_PEERS = (
    Peer(
        name="xla",
        title="XLA alone",
        how="this tool without its kernel library: the code of tfcompile for the same target",
        form="library",
    ),
    Peer(
        name="program",
        title="program alone",
        how="this tool's own compiler, also if compilation.engine leaves the model to XLA",
        form="library",
    ),
    Peer(
        name="incumbent",
        title="saved_model_cli defaults",
        how="tfcompile as `saved_model_cli aot_compile_cpu` calls it: baseline CPU, weights in each batch size's code",
        form="library",
    ),
    Peer(
        name="litert",
        title="LiteRT (XNNPACK)",
        how="one interpreter per batch size, weights packed beforehand, its Python binding's cost of a call taken out",
        form="tflite",
        packages="litert",
        distributions=("ai-edge-litert",),
        disk=160,
        runtime=("ai_edge_litert/libpywrap_litert_common.so",),
        without_overhead=True,
    ),
    Peer(
        name="onnxruntime",
        title="ONNX Runtime (C)",
        how="one session per batch size through its C API, inputs and outputs bound",
        form="onnx",
        packages="onnxruntime",
        distributions=("onnxruntime",),
        disk=170,
        runtime=("onnxruntime/capi/libonnxruntime.so*",),
        program="onnxruntime",
        library="onnxruntime/capi/libonnxruntime.so*",
    ),
    _OPENVINO,
    replace(
        _OPENVINO,
        name="openvino_default",
        title="OpenVINO as installed (C)",
        how="the same in the precision that it chooses, which is bfloat16 on CPUs with its instructions",
        words=(),
    ),
    Peer(
        name="iree",
        title="IREE",
        how="one module per batch size, llvm-cpu for this CPU, its Python binding's cost of a call taken out",
        form="iree",
        packages="iree",
        distributions=("iree-base-runtime", "iree-base-compiler", "onnx"),
        disk=610,
        runtime=("iree/_runtime_libs/_runtime*.so",),
        without_overhead=True,
    ),
    Peer(
        name="tensorflow",
        title="TensorFlow",
        how="tf.function of the frozen graph, called from Python",
        form="graph",
        runtime=("tensorflow/libtensorflow_cc.so*", "tensorflow/libtensorflow_framework.so*"),
    ),
    Peer(
        name="tensorflow_jit",
        title="TensorFlow, jit_compile",
        how="tf.function(jit_compile=True) of the frozen graph, called from Python",
        form="graph",
        runtime=("tensorflow/libtensorflow_cc.so*", "tensorflow/libtensorflow_framework.so*"),
    ),
    Peer(
        name="library",
        title="the library of trees",
        how="the library that trained decision trees",
        form="trees",
    ),
    Peer(
        name="tl2cgen",
        title="tl2cgen (C)",
        how="C code of the trees, compiled with its own flags (-O3), called row by row on rows in its own form",
        form="c",
        packages="tl2cgen",
        distributions=("tl2cgen", "treelite", "scikit-learn", "skops"),
        disk=270,
    ),
)

PEERS: Mapping[str, Peer] = MappingProxyType({peer.name: peer for peer in _PEERS})


def peers_named(names: Sequence[str]) -> tuple[Peer, ...]:
    """The peers of `names`, in the order of PEERS; "all" names every one. Raises SpecError if a name is unknown."""
    if unknown := [name for name in names if name != "all" and name not in PEERS]:
        near = [each for name in unknown for each in difflib.get_close_matches(name.lower(), PEERS, n=1, cutoff=0.5)]
        guess = f"; did you mean {', '.join(near)}?" if near else ""
        raise SpecError(f"no such peer: {', '.join(unknown)}{guess}", hint=f"peers: {', '.join(PEERS)}, or all")
    return tuple(peer for peer in _PEERS if "all" in names or peer.name in names)


_REQUIREMENTS = Path(__file__).resolve().parent / "requirements"


def requirements_file(packages: str) -> Path:
    return _REQUIREMENTS / f"{packages}.txt"


def installed_here(distributions: Sequence[str]) -> PythonEnvironment | None:
    """The environment of this process, if it has all of `distributions` (by an extra of this package)."""
    try:
        versions = {name: importlib.metadata.version(name) for name in distributions}
    except importlib.metadata.PackageNotFoundError:
        return None
    return PythonEnvironment(
        python=Path(sys.executable),
        site_packages=Path(sysconfig.get_path("purelib")),
        # Versions only: whoever installed them is responsible for their files.
        identity=key_of("peer", 1, versions),
    )


def ensure_packages(packages: str, interpreter: Path, pipeline: Pipeline) -> PythonEnvironment:
    """The environment of the lock file `packages`, installed now with the Python `interpreter` if it is missing.

    Raises NetworkError, TrustError, StorageError, ToolchainError.
    """
    requirements = requirements_file(packages)
    pins = Pins(
        title=f"the peer {packages}",
        stem=f"peer-{packages}",
        requirements=requirements,
        identity=key_of("peer", 1, {"requirements": sha256_bytes(requirements.read_bytes())}),
    )
    return pins.ensure(
        inspect(interpreter), folders=pipeline.folders, progress=pipeline.progress, wheelhouse=pipeline.wheelhouse
    )


STAGE = "bench"
PROGRAM = Path(__file__).resolve().parents[1] / "bench_program"
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OPENBLAS_NUM_THREADS")
QUIET = {**dict.fromkeys(_THREADS, "1"), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
"""For programs that import peers: one thread, no GPU, nothing on their output."""
_CONVERTERS = ("convert.py", "fix_onnx.py", "messages.py")
_SUFFIXES = {"graph": "pb", "tflite": "tflite", "onnx": "onnx", "iree": "vmfb"}
_IREE = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    # For this machine's CPU, as our library selects its best target.
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
    # Otherwise it may compute in narrower types than the model.
    "--iree-input-demote-f64-to-f32=false",
    "--iree-input-demote-i64-to-i32=false",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """Converts a model with the TensorFlow of `python`; installs tf2onnx on demand.

    `saved` is the model, `frozen` the same with its weights as constants. If the model is from an ONNX file, that file
    is `original`: peers get it with fixed sizes, which are set by a program in the Python `original_python`.
    """

    original: Original | None
    original_python: Path | None
    saved: Saved
    frozen: FrozenModel
    python: Path
    pipeline: Pipeline

    def files(
        self, form: Form, batch_sizes: Sequence[int], environment: PythonEnvironment | None = None
    ) -> dict[int, Path]:
        """The model by batch size; `environment` is the peer's, if it compiles by itself.

        Raises ModelError if TensorFlow or the peer cannot convert it; what installing tf2onnx raises.
        """
        return self._files(form, batch_sizes, environment, self.frozen)

    def identity(self, form: Form, environment: PythonEnvironment | None = None) -> Path:
        """A model that returns one float: the time of a run is the cost of a call to the peer."""
        return self._files(form, (1,), environment, None)[1]

    def _files(
        self,
        form: Form,
        batch_sizes: Sequence[int],
        environment: PythonEnvironment | None,
        frozen: FrozenModel | None,
    ) -> dict[int, Path]:
        # The author's own ONNX file if there is one, not a conversion back from TensorFlow.
        original = self.original if form in ("onnx", "iree") else None
        needs_tf2onnx = form in ("onnx", "iree") and original is None
        onnx = ensure_packages("tf2onnx", self.python, self.pipeline) if needs_tf2onnx else None
        parts = {
            "frozen": frozen.key if frozen else "",
            "form": form,
            "sizes": list(batch_sizes),
            "program": sha256_tree(PROGRAM, [PROGRAM / name for name in _CONVERTERS]),
            "original": sha256_file(original.path) if original else "",
            "onnx": onnx.identity if onnx else "",
            # IREE compiles for the CPU of this machine, so another one needs other files.
            "compiler": [environment.identity, processor(), *_IREE] if environment and form == "iree" else [],
        }

        def make(folder: Path) -> None:
            if form == "iree":
                assert environment is not None
                models = self._files("onnx", batch_sizes, None, frozen)
                self._compile_with_iree(models, environment, folder)
            elif original is not None:
                self._fix(original, batch_sizes, folder, frozen)
            else:
                self._convert(form, batch_sizes, folder, frozen, onnx)

        folder = self.pipeline.cache.get_or_make(STAGE, key_of(STAGE, code_digest(__name__), parts), make)
        return {size: folder / f"{size}.{_SUFFIXES[form]}" for size in batch_sizes}

    def _fix(self, original: Original, batch_sizes: Sequence[int], folder: Path, frozen: FrozenModel | None) -> None:
        assert self.original_python is not None
        signature = None if frozen is None else frozen.signature
        request = Fixing(
            model="" if signature is None else str(original.path),
            inputs={"x": (1,)} if signature is None else {original.feeds[t.name]: t.shape for t in signature.inputs},
            outputs=("y",) if signature is None else tuple(original.fetches[each.name] for each in signature.outputs),
            files={str(size): str(folder / f"{size}.{_SUFFIXES['onnx']}") for size in batch_sizes},
        )
        # The folder, because weights may be in a file beside the model.
        readable = (PROGRAM / "messages.py", original.path.parent)
        box = Sandbox(readable=readable, writable=(folder,), limits=Limits.of_user())
        command = box.python(self.original_python, PROGRAM / "fix_onnx.py", env=QUIET)
        run_conversion(command, "the sizes of the ONNX file cannot be fixed", request, self.pipeline)

    def _convert(
        self,
        form: Form,
        batch_sizes: Sequence[int],
        folder: Path,
        frozen: FrozenModel | None,
        onnx: PythonEnvironment | None,
    ) -> None:
        # LiteRT's converter needs the SavedModel, the others take the frozen graph (bench_program/convert.py says why).
        saved = self.saved if frozen is not None and form == "tflite" else None
        graph = frozen.graph if frozen is not None and saved is None else None
        request = Conversion(
            kind=form,
            saved=saved,
            graph=str(graph or ""),
            inputs=tuple(
                Placeholder(name=each.name, node=each.node, dtype=each.dtype, shape=each.shape)
                for each in frozen.inputs
            )
            if frozen
            else (Placeholder(name="x", node="x", dtype="float32", shape=(1,)),),
            outputs=tuple(Fetched(name=each.name, node=each.node, index=each.index) for each in frozen.outputs)
            if frozen
            else (Fetched(name="y", node="y", index=0),),
            files={str(size): str(folder / f"{size}.{_SUFFIXES[form]}") for size in batch_sizes},
            paths=(str(onnx.site_packages),) if onnx else (),
        )
        box = Sandbox(
            readable=(
                PROGRAM / "messages.py",
                *([Path(saved.folder)] if saved else []),
                *([graph] if graph else []),
                *([onnx.site_packages] if onnx else []),
            ),
            writable=(folder,),
            limits=Limits.of_user(),
        )
        command = box.python(self.python, PROGRAM / "convert.py", env=QUIET)
        run_conversion(command, f"TensorFlow cannot convert it to {form}", request, self.pipeline)

    def _compile_with_iree(self, models: Mapping[int, Path], environment: PythonEnvironment, folder: Path) -> None:
        programs = environment.python.parent
        for size, onnx in models.items():
            text, file = folder / f"{size}.mlir", folder / f"{size}.{_SUFFIXES['iree']}"
            box = Sandbox(readable=(onnx,), writable=(folder,), limits=Limits.of_user())
            importing = box.python(environment.python, programs / "iree-import-onnx", [onnx, "-o", text], env=QUIET)
            run_conversion(importing, "IREE cannot import it", None, self.pipeline)
            # iree-compile starts a compiler and a linker of its package.
            box = replace(box, readable=(), starts_programs=True)
            words: list[str | Path] = [text, *_IREE, "-o", file]
            compiling = box.python(environment.python, programs / "iree-compile", words, env=QUIET)
            run_conversion(compiling, "IREE cannot compile it", None, self.pipeline)
            text.unlink()


def run_conversion(
    command: Command, what: str, request: Conversion | Fixing | TreeConversion | None, pipeline: Pipeline
) -> None:
    """Run a converter. Raises ModelError with `what` and the last line of its output."""
    stdin = None if request is None else encoded(request).encode()
    log = pipeline.folders.logs / "bench-convert.log"
    try:
        command.run(log=log, stdin=stdin)
    except CommandFailed as error:
        last = [line for line in error.tail.splitlines() if line.strip()][-1:] or [error.reason]
        raise ModelError(f"{what}: {last[0].strip()[:300]}", log=log) from error


_TIMEOUT = 300.0
_FLAGS = ("-std=c++17", "-O2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """`library` runs model libraries, `calls` times C functions for Python, `limits` measures the machine by target.

    `engines` run peers, by Peer.program.
    """

    library: Path
    calls: Path
    limits: Mapping[str, Path]
    engines: Mapping[str, Path]


def compile_programs(compiler: Compiler, targets: Sequence[str], peers: Sequence[Peer], folder: Path) -> Programs:
    """The programs for these `peers`. Raises CompilerError."""
    sources = resources.templates() / "bench"

    def compiled(source: str, name: str, *flags: str | Path) -> Path:
        output = folder / name
        try:
            run([*compiler.command, *_FLAGS, *flags, sources / source, "-o", output, "-ldl"], timeout=_TIMEOUT)
        except CommandFailed as error:
            raise CompilerError(f"the benchmark's {source} does not compile ({error.reason}):\n{error.tail}") from error
        return output

    return Programs(
        library=compiled("library.cc", "library", "-I", resources.headers()),
        calls=compiled("calls.cc", "calls.so", "-shared", "-fPIC"),
        # For each target, because the peak of a core depends on the width of the vectors that the code may use.
        limits={name: compiled("limits.cc", f"limits-{name}", *TARGETS[name].flags) for name in targets},
        engines={name: compiled(f"{name}.cc", name) for name in sorted({each.program for each in peers} - {""})},
    )
