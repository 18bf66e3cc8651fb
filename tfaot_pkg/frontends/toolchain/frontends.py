"""Front-ends: what reads models of another framework, and gives this framework's own answers.

Each has a virtual environment of its own in the user's cache, made on demand from pinned, hashed requirements as those
of toolchains are. The worker program (worker_program/) runs in it as it runs in a toolchain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tfaot_pkg.frontends.toolchain.definition import OWN
from tfaot_pkg.frontends.toolchain.pinned import Pins, PythonEnvironment, choose, inspect
from tfaot_pkg.ground.keys import key_of, sha256_bytes
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.spec.formats import Format
from tfaot_pkg.spec.recognition import TMVA

_VERSION = re.compile(r"^([\w.-]+)==([\w.+!]+)", re.MULTILINE)
_REQUIREMENTS = Path(__file__).resolve().parent / "requirements" / "frontends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontend:
    """The front-end of one format.

    `title` names what its environment holds, `reference` the framework that gives the right answers; `framework` is
    this one's name in requests (worker_program/reference.py). `engines` are the frameworks that a report may name, and
    the package whose pinned version is theirs; "" for formulas of a file, which have the version that it states. If it
    `compiles`, the framework starts the machine's C++ compiler.
    """

    format: Format
    framework: Literal["onnx", "qonnx", "hls4ml", "conifer", "jax", "trees", "aten"]
    title: str
    reference: str
    engines: Mapping[str, str] = field(hash=False)
    compiles: bool = False

    @property
    def requirements(self) -> Path:
        """The pinned and hashed requirements of its environment."""
        return _REQUIREMENTS / f"{self.framework}.txt"

    def versions_of(self, engine: str) -> frozenset[str]:
        """The pinned versions of one of `engines`, of which the version of Python chooses one."""
        found = _VERSION.findall(self.requirements.read_text())
        return frozenset(version for name, version in found if name == self.engines[engine])

    @property
    def identity(self) -> str:
        """The identity of its environment, for keys: the same on every machine."""
        return key_of("frontend", 1, {"requirements": sha256_bytes(self.requirements.read_bytes())})


_ONNX: Mapping[str, str] = MappingProxyType({"ONNX Runtime": "onnxruntime"})
_QONNX: Mapping[str, str] = MappingProxyType({"QONNX": "qonnx"})
_HLS4ML: Mapping[str, str] = MappingProxyType({"hls4ml": "hls4ml"})
_CONIFER: Mapping[str, str] = MappingProxyType({"conifer": "conifer"})
_NONE: Mapping[str, str] = MappingProxyType({})
_JAX: Mapping[str, str] = MappingProxyType({"JAX": "jax"})
_TREES: Mapping[str, str] = MappingProxyType(
    {"XGBoost": "xgboost-cpu", "LightGBM": "lightgbm", "scikit-learn": "scikit-learn", TMVA: ""}
)

FRONTENDS: Mapping[Format, Frontend] = MappingProxyType({
    "onnx": Frontend(
        format="onnx", framework="onnx", title="ONNX and ONNX Runtime", reference="ONNX Runtime", engines=_ONNX
    ),
    "qonnx": Frontend(
        format="qonnx", framework="qonnx", title="QONNX and ONNX Runtime", reference="QONNX", engines=_QONNX
    ),
    "hls4ml": Frontend(
        format="hls4ml", framework="hls4ml", title="hls4ml", reference="hls4ml", engines=_HLS4ML, compiles=True
    ),
    "conifer": Frontend(
        format="conifer", framework="conifer", title="conifer", reference="conifer", engines=_CONIFER, compiles=True
    ),
    # Files of PyTorch have an ONNX form, because PyTorch itself would be gigabytes (docs/decisions/054).
    "torch": Frontend(
        format="torch", framework="onnx", title="ONNX and ONNX Runtime", reference="ONNX Runtime", engines=_ONNX
    ),
    # The host reads these files, which have PyTorch's answers: NumPy alone runs the library (docs/decisions/083).
    "aten": Frontend(format="aten", framework="aten", title="NumPy", reference="PyTorch", engines=_NONE),
    "jax": Frontend(format="jax", framework="jax", title="JAX", reference="JAX", engines=_JAX),
    # MLIR's Python bindings come with JAX, and its XLA runs StableHLO.
    "mlir": Frontend(format="mlir", framework="jax", title="JAX", reference="JAX", engines=_JAX),
    "trees": Frontend(
        format="trees", framework="trees", title="libraries of decision trees", reference="the library", engines=_TREES
    ),
})  # fmt: skip
"""By format; TensorFlow itself reads the others."""


def frontend_identity(wanted: Format) -> str:
    """The identity of the format's front-end, "" if the toolchain reads the format itself."""
    return FRONTENDS[wanted].identity if wanted in FRONTENDS else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendEnvironments:
    """Makes environments of front-ends in `folders`, from the wheels in `wheelhouse` if it is given."""

    folders: Folders
    progress: Progress
    wheelhouse: Path | None = None

    def ensure(self, frontend: Frontend, python: Path | None = None) -> PythonEnvironment:
        """The environment of `frontend`, made now if it is missing: with the interpreter `python`, or any that suits.

        Raises ToolchainError, NetworkError, TrustError, StorageError.
        """
        pins = Pins(
            title=frontend.title,
            stem=f"frontend-{frontend.framework}",
            requirements=frontend.requirements,
            identity=frontend.identity,
        )
        # An environment of any Python will do; to look is quicker than to start an interpreter.
        for found in pins.environments(self.folders):
            return found
        interpreter = choose(OWN) if python is None else inspect(python)
        return pins.ensure(interpreter, folders=self.folders, progress=self.progress, wheelhouse=self.wheelhouse)
