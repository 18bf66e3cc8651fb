"""Compile frozen graphs with tfcompile in this process: one object and header per unit (batch size and target)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import lowerings
import specialize
import uncompiled
import weights
from messages.requests import Compile, Compiled, Unit
from tensorflow.core.framework import graph_pb2
from tensorflow.python import _pywrap_tfcompile, pywrap_tfe
from tensorflow.python.framework import tensor_util
from wiring import ancestors, by_name

if TYPE_CHECKING:
    from framework_types import GraphDef, Report
    from messages.graph import Feed, Weight


def compile_units(request: Compile, report: Report) -> Compiled:
    """Compile the units, or return the weights to embed before the units are compiled again."""
    _read_flags()
    job = _Job(request)
    for unit in request.units:
        wanted = job.compile(unit)
        if wanted:
            return Compiled(embed=tuple(wanted))
        report(1, f"{unit.target}, batch size {unit.batch_size}")
    return Compiled(embed=())


def _read_flags() -> None:
    """Make TensorFlow read TF_XLA_FLAGS now: an unknown flag ends the process at its first use."""
    pywrap_tfe.TF_GetXlaConstantFoldingDisabled()


class _Job:
    """One model to be compiled, with some of its weights embedded."""

    def __init__(self, request: Compile) -> None:
        self._request = request
        self._weights = [weight for weight in request.weights if weight.node not in request.embed]
        self._graph = _read_graph(request)
        self._lowered = lowerings.lower(self._graph, request.lowerings)  # whether there were operations to replace
        self._folding = False  # on from the first unit that needs it

    def compile(self, unit: Unit) -> list[str]:
        """Compile `unit`; return [], or weights to embed before the next try. ModelFault if embedding does not help."""
        try:
            try:
                self._run(unit, self._path(unit, folding=self._folding))
            # Constant folding costs an import and an optimizer pass for each unit: only models that need it pay for it.
            except uncompiled.NeedsConstant:
                if self._folding:
                    raise
                self._run(unit, self._path(unit, folding=True))
                self._folding = True
        except uncompiled.NeedsConstant as needed:
            if blamed := self._blamed(needed):
                return blamed
            raise uncompiled.fault(self._graph, unit.batch_size, needed.error) from needed
        return []

    def _blamed(self, fault: uncompiled.NeedsConstant) -> list[str]:
        """The weights that the operation's inputs are computed from; all weights if none is found."""
        names = [weight.node for weight in self._weights]
        made_of = ancestors(by_name(self._graph), [fault.node])
        return [name for name in names if name in made_of] or names

    def _feeds(self) -> list[Feed | Weight]:
        return [*self._request.inputs, *self._weights]

    def _path(self, unit: Unit, *, folding: bool) -> str:
        """The file of the graph to compile: the request's own if nothing in it changes."""
        graph = self._graph
        if not folding and not self._request.embed and not self._lowered:
            return self._request.graph
        if folding:
            graph = specialize.at_batch_size(graph, self._feeds(), unit.batch_size)
            graph = specialize.folded(graph, self._feeds(), self._request.outputs)
        path = os.path.join(self._request.out, unit.prefix + ".graph.pb")
        with open(path, "wb") as file:
            file.write(graph.SerializeToString(deterministic=True))
        return path

    def _run(self, unit: Unit, graph: str) -> None:
        prefix = os.path.join(self._request.out, unit.prefix)
        config = prefix + ".config.pbtxt"
        with open(config, "w") as file:
            file.write(str(specialize.tfcompile_config(self._feeds(), self._request.outputs, unit.batch_size)))
        extra = {"out_constant_buffers_object": prefix + ".constants.o"} if self._request.constants else {}
        try:
            _pywrap_tfcompile.Compile(
                graph=graph,
                config=config,
                cpp_class=f"{unit.name}::Unit",
                target_triple=unit.triple,
                target_cpu=unit.cpu,
                # The CPU name decides them: further features would make the unit differ from its target.
                target_features="",
                entry_point=f"{unit.name}_run",
                out_function_object=prefix + ".o",
                out_metadata_object=prefix + ".metadata.o",
                out_header=prefix + ".h",
                # No tables of names and shapes: packages have their own (tfaot_info).
                gen_name_to_index=False,
                gen_program_shape=False,
                **extra,
            )
        except Exception as error:  # the binding maps each C++ status to another type
            raise uncompiled.needed(str(error)) or uncompiled.fault(self._graph, unit.batch_size, str(error)) from error
        finally:
            # Every file left in this folder would be taken for a part of the compiled model.
            os.unlink(config)
            if graph != self._request.graph:
                os.unlink(graph)
        os.unlink(prefix + ".metadata.o")  # not needed, and not reproducible


def _read_graph(request: Compile) -> GraphDef:
    """The graph, with the weights to embed turned back into constants."""
    graph = graph_pb2.GraphDef()
    with open(request.graph, "rb") as file:
        graph.ParseFromString(file.read())
    embedded = {weight.node: weight for weight in request.weights if weight.node in request.embed}
    for node in graph.node:
        weight = embedded.get(node.name)
        if weight is None:
            continue
        values = weights.values_of(request.blob, weight)
        node.op = "Const"
        del node.attr["shape"]
        node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(values))
    return graph
