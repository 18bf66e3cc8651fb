"""`inspect`: one look at a model, at the stage that the user names."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfaot_pkg.ground.wording import table
from tfaot_pkg.measure.inside.binaries import asm_view, memory_view, sizes_view, target_named
from tfaot_pkg.measure.inside.forms import cpp_view, lowered_view, precision_view, program_view, translated_view
from tfaot_pkg.measure.inside.stages import frozen_stages
from tfaot_pkg.measure.inside.view import View, What
from tfaot_pkg.package.drawing import nodes_of_document, nodes_of_signature
from tfaot_pkg.pipeline.check import check_model
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.types import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The form to show; without a batch size or target, those of the spec.

    A program is shown `after` a pass, or after all; with the elements of all constants if it `has_constants`.
    """

    what: What
    batch_size: int | None = None
    target: str | None = None
    after: str | None = None
    has_constants: bool = False


def inspect(spec: ModelSpec, look: Look, pipeline: Pipeline) -> View:
    """Raises all errors of a build up to its library."""
    if look.what in ("signature", "ops"):
        return _checked_view(spec, look.what, pipeline)
    if look.what == "lowered":
        return lowered_view(pipeline.plan(spec), pipeline, after=look.after, has_constants=look.has_constants)
    spec = _narrowed(spec, look)
    size, target = spec.compilation.batch_sizes[0], target_named(look.target, spec.compilation.targets)
    with frozen_stages(pipeline.plan(spec), pipeline) as stages:
        match look.what:
            case "hlo" | "stablehlo" | "mlir-tf" as form:
                return translated_view(stages, form, size)
            case "program":
                return program_view(stages, after=look.after, has_constants=look.has_constants)
            case "cpp":
                return cpp_view(stages)
            case "precision":
                return precision_view(stages)
            case "asm":
                return asm_view(stages, target, size)
            case "memory":
                return memory_view(stages, target, spec.compilation.batch_sizes)
            case _:
                return sizes_view(stages)


def _narrowed(spec: ModelSpec, look: Look) -> ModelSpec:
    """`spec` with only the batch size and target of `look`, if it names them."""
    # Fewer units to compile; their keys differ from the build's, so a later build finds only the frozen model cached.
    compilation = spec.compilation
    if look.batch_size is not None:
        compilation = replace(compilation, batch_sizes=(look.batch_size,))
    if look.target is not None:
        compilation = replace(compilation, targets=(look.target,))
    return replace(spec, compilation=compilation)


def _checked_view(spec: ModelSpec, what: What, pipeline: Pipeline) -> View:
    found = check_model(spec, pipeline, table=False)
    signature = found.signature
    if what == "signature":
        symbols = [f"size {each}" for each in signature.symbols]
        nodes = nodes_of_signature(signature, spec.model.name)
        return View(text="\n".join([*found.interface, *symbols]), document={"signature": signature}, nodes=nodes)
    rows = [(each.count, each.name, "; ".join(each.problems) or "yes") for each in found.operations]
    operations = [
        {"name": each.name, "count": each.count, "problems": list(each.problems)} for each in found.operations
    ]
    document: dict[str, object] = {"toolchain": found.toolchain, "operations": operations}
    nodes = ()
    # A model that cannot be compiled has a table of its operations, but no frozen graph to draw.
    if found.compilable:
        with frozen_stages(pipeline.plan(spec), pipeline) as stages:
            outline = stages.frozen.outline
        nodes = (
            nodes_of_document(outline, signature)
            if outline is not None
            else nodes_of_signature(signature, spec.model.name)
        )
    return View(text=table(("count", "operation", "compiled"), list(rows)), document=document, nodes=nodes)
