"""Decision trees for peers: the author's file, C by tl2cgen, ONNX by onnxmltools and skl2onnx.

Each peer returns one result, without the margin, in the peer's own element type; for two classes, both probabilities or
only that of the second class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg.errors import CompilerError, ModelError
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.frontends.toolchain.pinned import PythonEnvironment
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.keys import key_of, sha256_file, sha256_tree
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.measure.bench.peers import PROGRAM, QUIET, STAGE, Peer, ensure_packages, run_conversion
from tfaot_pkg.measure.bench_program.messages import GIVEN, TreeConversion
from tfaot_pkg.native.cxx.compiler import Compiler, confined
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.worker_program.messages.sources import TreesFacts

_MARGIN = "margin"
_CONVERTERS = ("convert_trees.py", "fix_onnx.py", "messages.py")
_KINDS = {"onnxruntime": "onnx", "tl2cgen": "c"}
_FLAGS = ("-std=c99", "-O3", "-fPIC", "-shared")
"""The flags with which tl2cgen itself compiles."""
_TIMEOUT = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    """The texts and files of a library, as in Peer."""

    title: str
    how: str
    distributions: tuple[str, ...]
    runtime: tuple[str, ...] = ()


_LIBRARIES: Mapping[str, _Library] = {
    "XGBoost": _Library(
        title="XGBoost (C)",
        how="XGBoosterPredictFromDense of its C API on the caller's floats, one thread",
        distributions=("xgboost-cpu", "xgboost"),
        runtime=("xgboost/lib/libxgboost.so",),
    ),
    "LightGBM": _Library(
        title="LightGBM (C)",
        how="LGBM_BoosterPredictForMatSingleRowFast of its C API for one row, LGBM_BoosterPredictForMat for more, "
        "one thread",
        distributions=("lightgbm",),
        runtime=("lightgbm/lib/lib_lightgbm.so",),
    ),
    "scikit-learn": _Library(
        title="scikit-learn",
        how="predict_proba or predict, called from Python, one job",
        distributions=("scikit-learn",),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A model for a peer: files by batch size, and the result that the peer returns."""

    files: Mapping[int, Path]
    given: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """Trees of `original`, whose library is in the environment `library`; `python` creates environments of peers."""

    original: Original
    signature: Signature
    library: PythonEnvironment
    python: Path
    compiler: Compiler
    pipeline: Pipeline

    def named(self, peer: Peer) -> Peer:
        """`peer`; if it is the library that trained the trees, with the title and the packages of that library.

        Raises ModelError if no library for Python reads the file.
        """
        known = _LIBRARIES.get(self.original.library)
        if known is None:
            raise ModelError(f"no Python package reads files of {self.original.library or 'this kind'}")
        if peer.form != "trees":
            return peer
        return replace(peer, title=known.title, how=known.how, distributions=known.distributions, runtime=known.runtime)

    def prepared(self, peer: Peer, batch_sizes: Sequence[int], environment: PythonEnvironment) -> Prepared:
        """The model for `peer`, whose `environment` this is.

        Raises ModelError if the peer does not take it, CompilerError; what installing converters raises.
        """
        _require_bare(self.original.trees)
        result = self._result()
        if peer.form == "trees":
            return Prepared(files=dict.fromkeys(batch_sizes, self.original.path), given=result)
        kind = _KINDS[peer.name]
        if kind == "onnx":
            environment = ensure_packages("onnxmltools", self.python, self.pipeline)
        (x,) = self.signature.inputs
        parts = {
            "file": sha256_file(self.original.path),
            "library": self.original.library,
            "result": self.original.fetches[result.name],
            "kind": kind,
            # C code takes any number of rows, so one conversion serves all requests.
            "sizes": list(batch_sizes) if kind == "onnx" else [],
            "program": sha256_tree(PROGRAM, [PROGRAM / name for name in _CONVERTERS]),
            "environment": environment.identity,
            "compiler": self.compiler.identity if kind == "c" else "",
        }

        def make(folder: Path) -> None:
            request = TreeConversion(
                kind=kind, library=self.original.library, model=str(self.original.path), folder=str(folder),
                sizes=tuple(batch_sizes), columns=int(x.shape[1] or 0), dtype=x.dtype.value,
                is_label=self.original.fetches[result.name] == "label",
            )  # fmt: skip
            readable = (*(PROGRAM / name for name in _CONVERTERS), self.original.path)
            box = Sandbox(readable=readable, writable=(folder,), limits=Limits.of_user())
            command = box.python(environment.python, PROGRAM / "convert_trees.py", env=QUIET)
            what = "tl2cgen cannot convert it" if kind == "c" else "onnxmltools or skl2onnx cannot convert it"
            run_conversion(command, what, request, self.pipeline)
            if kind == "c":
                self._compile(folder)

        folder = self.pipeline.cache.get_or_make(STAGE, key_of(STAGE, code_digest(__name__), parts), make)
        names = {size: f"{size}.onnx" if kind == "onnx" else _SHARED for size in batch_sizes}
        files = {size: folder / name for size, name in names.items()}
        return Prepared(files=files, given=given(read_json((folder / GIVEN).read_bytes()), result))

    def _result(self) -> Tensor:
        """Raises ModelError."""
        found = [each for each in self.signature.outputs if self.original.fetches[each.name] != _MARGIN]
        if len(found) != 1:
            raise ModelError("the spec names no output except the margin, but peers return the result")
        return found[0]

    def _compile(self, folder: Path) -> None:
        """Raises CompilerError."""
        log = self.pipeline.folders.logs / "bench-convert.log"
        # Confined, because the C code comes from a program that read the model.
        compiler = confined(self.compiler)
        # For g++, "-x c" applies to the next file only.
        sources = [word for source in sorted(folder.glob("*.c")) for word in ("-x", "c", source)]
        argv = [*compiler.command, *_FLAGS, *sources, "-x", "none", "-o", folder / _SHARED, "-lm"]
        try:
            compiler.runner(argv, cwd=folder, env={}, timeout=_TIMEOUT, log=log)
        except CommandFailed as error:
            raise CompilerError(f"the code of tl2cgen does not compile ({error.reason})", log=log) from error
        # The cache keeps only the library: sources of large forests take hundreds of MB.
        for source in folder.glob("*.[ch]"):
            source.unlink()


def _require_bare(trees: TreesFacts | None) -> None:
    """Raise ModelError if the package computes another call than one with the file alone, as peers make it."""
    if trees is None:
        return
    chosen = [
        "other iterations" if trees.iterations != trees.iterations_in_file else "",
        f"{trees.missing} for missing numbers" if trees.missing not in ("", "nan") else "",
        "categories by their values" if any(each.given != "codes" for each in trees.categories) else "",
    ]
    if any(chosen):
        raise ModelError(f"it predicts with the file alone, and the package with {' and '.join(filter(None, chosen))}")


_SHARED = "model.so"


def given(document: object, result: Tensor) -> Tensor:
    """`result` with the type and the columns of `document`. Raises ModelError if it cannot be compared."""
    columns = (result.shape[1:] or (1,))[0]
    found = document if isinstance(document, dict) else {}
    theirs, dtype = found.get("columns"), found.get("dtype")
    if dtype not in ("float32", "float64", "int64") or not (theirs == columns or {theirs, columns} == {1, 2}):
        raise ModelError(f"it gives {theirs} numbers of type {dtype} for a row, the library {columns}")
    return replace(result, dtype=DType(dtype), shape=(None, theirs), axes=())
