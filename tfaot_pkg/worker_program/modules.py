"""StableHLO inside a graph (`XlaCallModule`, as JAX exports it): allowed after every operation in it was checked.

MLIR reads the module and prints it, one operation per line; nothing is compiled or run for that. Each line must begin
with an allowed operation: StableHLO can call code by name (`custom_call`), and communicate with other devices.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import operations
from messages.requests import ModelFault, one_line

if TYPE_CHECKING:
    from framework_types import GraphDef, NodeDef


_OPERATION = "XlaCallModule"
_DIALECTS = ("stablehlo", "chlo", "vhlo", "shape", "arith", "tensor")
_BUILTIN = frozenset("module func.func func.return func.call return call vhlo.func_v1 builtin.module".split())
_REACHING_OUT = frozenset(
    """
    infeed outfeed send recv all_gather all_reduce all_to_all reduce_scatter collective_permute collective_broadcast
    replica_id partition_id cross-replica-sum
    """.split()
)
"""Operations of StableHLO that communicate with the host or other devices."""
KNOWN_CALLS = frozenset(
    """
    Sharding SPMDFullToShardShape SPMDShardToFullShape shape_assertion tf.call_tf_function mhlo.topk mhlo.erf
    stablehlo.dynamic_reduce_window stablehlo.dynamic_rng_bit_generator stablehlo.dynamic_top_k
    """.split()
)
"""Targets of custom calls that run no foreign code: marks for the compiler, and calls of functions of the graph."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_RESULTS = re.compile(r"(?:%[\w$.:-]+(?:, )?)+ = ")
_NAME = re.compile(r"\"?([a-z_]\w*(?:\.[\w-]+)*)")
# Lines that continue or end an operation: closing signs, labels of blocks, names of regions, aliases, empty lines.
_WITHOUT_OPERATION = re.compile(r"[})^]|(?:cond|do|reducer|module_attr)\b|#|$")
_PRETTY_TARGET = re.compile(r'stablehlo\.custom_call @(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+))')
# Inside a quoted attribute a quote is printed as \22, so this pattern matches only the attribute itself.
_GENERIC_TARGET = re.compile(r'\bcall_target_name = (?:#vhlo\.string_v1<)?"((?:[^"\\]|\\.)*)"')


def refuse_hidden_code(graph_def: GraphDef) -> None:
    """Raise ModelFault if a module of the graph, which is not imported yet, may do more than compute."""
    for node in operations.nodes_of(graph_def):
        if node.op == _OPERATION:
            faults = sorted(set(_faults(printed(node))))
            if faults:
                listing = operations.listing([(_OPERATION, node.name, fault) for fault in faults])
                raise ModelFault(
                    f"the model's StableHLO reaches out of the model, or contains unknown operations:\n{listing}",
                    "such a model is not loaded; export it without custom calls and collective operations",
                )


def printed(node: NodeDef) -> str:
    """The module of `node` as text; ModelFault if it cannot be read."""
    from tensorflow.compiler.mlir.stablehlo import stablehlo
    from tensorflow.python import _pywrap_mlir

    module = node.attr["module"].s
    # The name differs between releases of TensorFlow.
    names = ("deserialize_portable_artifact", "deserialize_portable_artifact_str")
    deserialize = next(getattr(stablehlo, name) for name in names if hasattr(stablehlo, name))
    with contextlib.suppress(Exception):  # text, or bytecode that is no portable artifact: MLIR reads both
        module = deserialize(module)
    try:
        text: str = _pywrap_mlir.ExperimentalRunPassPipeline(module, "", False)
        return text
    except Exception as error:
        raise ModelFault(
            f"the StableHLO of node {node.name} ({_OPERATION}) cannot be read by this toolchain: {one_line(error)}",
            "choose a newer toolchain (compilation.tensorflow; `tfaot-pkg toolchain list` lists them), or export the "
            "model for an older version of StableHLO",
        ) from error


def _faults(text: str) -> Iterator[str]:
    """Descriptions of everything in a printed module that may do more than compute."""
    calls = 0
    for line in text.splitlines():
        bare = _RESULTS.sub("", line.strip(), count=1)
        name = _name_of(bare)
        # Counted here by lines, and below in the text without strings: a call hidden from one count shows in the other.
        if "custom_call" in name:
            calls += 1
            target = _target_of(bare)
            if target not in KNOWN_CALLS:
                yield f"custom call of {target!r}"
        elif name and not _is_known(name):
            yield f"operation {name}"
        elif not name and not _WITHOUT_OPERATION.match(bare):
            yield f"line {bare[:60]!r}"
    # Each call must have been the first word of a line: only there its target was checked.
    if len(re.findall("custom_call", _without_strings(text))) != calls:
        yield "custom call that does not begin a line"


def _name_of(line: str) -> str:
    """The operation at the start of a line without its results; "" if there is none."""
    found = _NAME.match(line)
    return found[1] if found and not _WITHOUT_OPERATION.match(line) else ""


def _is_known(name: str) -> bool:
    dialect, _, operation = name.partition(".")
    if name in _BUILTIN:
        return True
    # VHLO, the form of StableHLO in files, appends a version to each name: `vhlo.add_v1`.
    return dialect in _DIALECTS and re.sub(r"_v\d+$", "", operation) not in _REACHING_OUT


def _target_of(line: str) -> str:
    """The target of a custom call; "" if the line does not name exactly one."""
    if found := _PRETTY_TARGET.match(line):
        return found[1] or found[2] or ""
    targets = _GENERIC_TARGET.findall(line)
    return targets[0] if len(targets) == 1 else ""


def _without_strings(text: str) -> str:
    """`text` without quoted strings, except a quoted name of an operation before its operands."""
    return _STRING.sub(lambda found: found[0][1:-1] if text[found.end() : found.end() + 1] == "(" else "", text)
