"""Update tfaot_pkg/worker_program/operations.txt: a line for every operation that a toolchain registers.

    python tools/classify_operations.py PYTHON...

PYTHON are the interpreters of toolchains. Existing lines are kept: a person decides about each operation once.
New operations without an XLA kernel are refused, in the family that their name suggests; those with one become
`unclassified`, which fails the tests: decide whether the operation only computes (`compiled`) or has effects outside
the model (`refused FAMILY`), and edit its line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "tfaot_pkg" / "worker_program" / "operations.txt"

_HEADER = """\
# Operations of TensorFlow by what a model may do with them; kept by tools/classify_operations.py.
# compiled: XLA compiles it, and it only computes. structural: gone before XLA sees the graph.
# inspected: allowed once its content was looked at. restoring: read in the saver's graph, never run.
# rewritten: only computes, and becomes operations that XLA compiles (rewrites.py).
# refused FAMILY: never imported.
"""

# Runs in a toolchain's Python. XLA's kernels are registered at the first compilation of a process.
_LIST = """
import json, sys
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session as session
from tensorflow.python.framework import kernels
tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1.0))
compiled = {kernel.op for kernel in kernels.get_all_registered_kernels().kernel if kernel.device_type == "XLA_CPU_JIT"}
known = op_def_pb2.OpList()
known.ParseFromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
json.dump({op.name: op.name in compiled for op in known.op}, sys.stdout)
"""

_FAMILIES = {
    "files": r"(Read|Write)File|DistributedSave|DecodeProtoV2|EncodeProto|MatchingFiles"
    r"|.*Reader(V2)?|Reader.*|ImmutableConst|LoadAndRemapMatrix"
    r"|GenerateVocabRemapping|FileSystemSetConfiguration|RecordInput|TfLiteSubgraphExecute",
    "restoring": r"(Save|Restore)(V2|Slices?)?|MergeV2Checkpoints|ShardedFile(name|spec)|DTensorRestoreV2",
    "network": r"Rpc.*|DataService.*|WorkerHeartbeat|RemoteCall|.*Nccl.*|Collective.*",
    "datasets": r".*Dataset.*|.*Iterator.*|.*MemoryCache|.*SeedGenerator|ThreadPoolHandle|ExperimentalThreadPoolHandle"
    r"|.*StatsAggregator.*|Optional(FromValue|GetValue|HasValue|None)|(Unc|C)ompressElement|GetElementAtIndex",
    "summaries": r".*Summary.*|ImportEvent",
    "debugging": r"Debug.*|DumpTensor|CalibrationStatisticsSaver|CustomAggregator|CheckNumericsV2|StoreMinibatch.*"
    r"|Copy(Host)?|.*SessionHandle(V2)?|.*SessionTensor|Timestamp|Abort",
    "printing": r"Print(V2)?",
    "python": r".*PyFunc(Stateless)?",
    "code": r"XlaCustomCall(V2)?",
    "devices": r".*TPU.*|.*Tpu.*|.*Mesh.*|DTensor.*|Infeed.*|Outfeed.*|Prelinearize.*|.*(Send|Recv)|Xla(Send|Recv).*"
    r"|XlaHostCompute|XlaLaunch.*|XlaSparse.*|XlaAllReduce|XlaReduceScatter|XlaReplicaId|XlaClusterOutput"
    r"|AllToAll|CrossReplicaSum|.*(DedupData|MinibatchSplits|InCsrWith|SparseCore|CsrWrapped|CooTensor).*|Relayout.*"
    r"|GlobalIterId|SyncDevice|UpdateTaskIdAndGlobalCoreArray|CheckPinned|BatchFunction|Cudnn.*",
    "internal": r"_.*|SymbolicGradient|MlirPassthroughOp|StubResourceHandleOp|Namespace>.*",
    "tables": r".*HashTable.*|LookupTable.*|InitializeTable.*|BoostedTrees.*|TensorMap.*",
    "queues": r".*Queue.*|Barrier.*|(Ordered)?Map(Clear|IncompleteSize|Peek|Size|Stage|Unstage|UnstageNoKey)|Stage.*"
    r"|Unstage|.*Accumulator.*|.*Mutex.*|Stack(Close|Pop|Push)?|(Destroy)?TemporaryVariable|(Batch|Unbatch)(Grad)?",
    "text": r"String.*|Unicode.*|.*Regex.*|Substr|AsString|ReduceJoin|UnsortedSegmentJoin|Decode.*|Encode.*|Parse.*"
    r"|Serialize.*|Deserialize.*|ExtractJpegShape|Fingerprint|StaticRegex.*|EditDistance|Skipgram",
    "training": r"Apply.*|SparseApply.*|ResourceSparseApply.*|ResourceApply.*|Sdca.*"
    r"|Scatter(Add|Div|Max|Min|Mul|Sub|Update)|ScatterNd(Add|Max|Min|Sub|Update)|Assign(Add|Sub)?|CountUpTo|ResourceCountUpTo|StridedSliceAssign|NegTrain",
}
"""Family by the whole name of an operation that has no kernel of XLA; the first that fits."""


def main() -> int:
    known = read(FILE.read_text()) if FILE.exists() else {}
    for python in sys.argv[1:]:
        known = classified(known, registered(Path(python)))
    FILE.write_text(written(known))
    missing = sorted(name for name, kind in known.items() if kind == "unclassified")
    for name in missing:
        print(f"unclassified: {name}")
    return 1 if missing else 0


def registered(python: Path) -> dict[str, bool]:
    """Every operation that the toolchain of `python` registers: whether XLA compiles it."""
    done = subprocess.run([python, "-I", "-c", _LIST], capture_output=True, text=True, check=True)
    found: dict[str, bool] = json.loads(done.stdout)
    return found


def classified(known: Mapping[str, str], operations: Mapping[str, bool]) -> dict[str, str]:
    """`known` (operation -> class and family) with what is new in `operations`."""
    new = {name: "unclassified" if compiled else _refused(name) for name, compiled in operations.items()}
    return {**new, **known}


def _refused(name: str) -> str:
    family = next((family for family, pattern in _FAMILIES.items() if re.fullmatch(pattern, name)), "kernel")
    return f"refused {family}"


def read(text: str) -> dict[str, str]:
    """The lines of the file: operation -> class and family."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: kind for name, _, kind in (line.partition(" ") for line in lines)}


def written(known: Mapping[str, str]) -> str:
    """The file's text."""
    return _HEADER + "".join(f"{name} {kind}\n" for name, kind in sorted(known.items()))


if __name__ == "__main__":
    sys.exit(main())
