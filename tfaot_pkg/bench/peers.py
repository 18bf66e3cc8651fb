"""The engines that models are measured with, and the environments that hold them, made on demand."""

from __future__ import annotations

import difflib
import importlib.metadata
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tfaot_pkg.errors import SpecError
from tfaot_pkg.keys import key_of, sha256_bytes
from tfaot_pkg.pipeline import Pipeline
from tfaot_pkg.toolchain.interpreter import inspect
from tfaot_pkg.toolchain.pinned import Pins, PythonEnvironment

Form = Literal["library", "graph", "tflite", "onnx", "iree"]
"""What an engine runs: a library of ours, or what a frozen graph is converted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An engine beside ours.

    `packages` names its lock file in bench/requirements, "" where it is part of the toolchain; `distributions` are what
    it is made of, `disk` what that takes, in MB, for people. `runtime` are patterns of the files below site-packages
    that it runs from, for sizes.
    """

    name: str
    title: str
    how: str
    form: Form
    packages: str = ""
    distributions: tuple[str, ...] = ()
    disk: int = 0
    runtime: tuple[str, ...] = ()


_PEERS = (
    Peer(
        name="xla",
        title="XLA alone",
        how="this tool without its kernel library: what tfcompile makes for the same target",
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
        how="one interpreter per batch size, weights packed beforehand, called through its Python binding",
        form="tflite",
        packages="litert",
        distributions=("ai-edge-litert",),
        disk=160,
        runtime=("ai_edge_litert/libpywrap_litert_common.so",),
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
    ),
    Peer(
        name="openvino",
        title="OpenVINO (C)",
        how="one compiled model per batch size through its C API, float32, tensors bound",
        form="onnx",
        packages="openvino",
        distributions=("openvino",),
        disk=280,
        runtime=(
            *("openvino/libs/libopenvino.so*", "openvino/libs/libopenvino_c.so*"),
            *("openvino/libs/libopenvino_intel_cpu_plugin.so", "openvino/libs/libopenvino_onnx_frontend.so*"),
        ),
    ),
    Peer(
        name="iree",
        title="IREE",
        how="one module per batch size, llvm-cpu for this CPU, called through its Python binding",
        form="iree",
        packages="iree",
        distributions=("iree-base-runtime", "iree-base-compiler", "onnx"),
        disk=610,
        runtime=("iree/_runtime_libs/_runtime*.so",),
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
)

PEERS: Mapping[str, Peer] = MappingProxyType({peer.name: peer for peer in _PEERS})


def peers_named(names: Sequence[str]) -> tuple[Peer, ...]:
    """The peers of `names`, in the order of PEERS; "all" names every one. Raises SpecError where a name is unknown."""
    if unknown := [name for name in names if name != "all" and name not in PEERS]:
        near = [each for name in unknown for each in difflib.get_close_matches(name.lower(), PEERS, n=1, cutoff=0.5)]
        guess = f"; did you mean {', '.join(near)}?" if near else ""
        raise SpecError(f"no such peer: {', '.join(unknown)}{guess}", hint=f"peers: {', '.join(PEERS)}, or all")
    return tuple(peer for peer in _PEERS if "all" in names or peer.name in names)


_REQUIREMENTS = Path(__file__).resolve().parent / "requirements"


def requirements_file(packages: str) -> Path:
    return _REQUIREMENTS / f"{packages}.txt"


def installed_here(distributions: Sequence[str]) -> PythonEnvironment | None:
    """The environment of this very process, where it has all of `distributions` (by an extra of this package)."""
    try:
        versions = {name: importlib.metadata.version(name) for name in distributions}
    except importlib.metadata.PackageNotFoundError:
        return None
    return PythonEnvironment(
        python=Path(sys.executable),
        site_packages=Path(sysconfig.get_path("purelib")),
        identity=key_of("peer", 1, versions),
    )


def ensure_packages(packages: str, interpreter: Path, pipeline: Pipeline) -> PythonEnvironment:
    """The environment of the lock file `packages`, made now with the Python `interpreter` where it is missing.

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
