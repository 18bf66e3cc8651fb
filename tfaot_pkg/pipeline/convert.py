"""Write a model in another form: SavedModel, GraphDef, StableHLO, or functions of MLIR's TensorFlow dialect."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from tfaot_pkg.errors import ModelError, SpecError
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.formats import FILE_FORMATS
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.worker_program.messages.conversions import Convert
from tfaot_pkg.worker_program.messages.requests import Nothing

Form = Literal["mlir", "stablehlo", "graph", "graph_text", "saved_model"]
_FORMS: dict[str, Form] = {
    ".mlir": "mlir", ".stablehlo": "stablehlo", ".pb": "graph", ".pbtxt": "graph_text", "": "saved_model",
}  # fmt: skip


def form_of(output: Path, batch_size: int | None = None) -> Form:
    """The form that the name of `output` chooses.

    Raises SpecError for other names, if it exists, and if it has no batch size.
    """
    form = _FORMS.get(output.suffix)
    if form is None:
        raise SpecError(
            f"{output}: cannot write such a file",
            hint="name a .mlir or .stablehlo file, a .pb or .pbtxt file for a GraphDef, or a folder for a SavedModel",
        )
    if batch_size is not None and form != "stablehlo":
        raise SpecError(f"{output}: only StableHLO has a batch size", hint="leave --batch out: the batch stays open")
    if output.exists() or output.is_symlink():
        raise SpecError(f"{output} exists already", hint="remove it, or name another one")
    return form


def convert(spec: ModelSpec, output: Path, pipeline: Pipeline, *, batch_size: int | None = None) -> Form:
    """Write the model of `spec` to `output`, in the form of its name. Raises SpecError, ModelError, StorageError.

    StableHLO gets fixed sizes; `batch_size` is that of the batch axis.
    """
    form = form_of(output, batch_size)
    if spec.is_lowered:
        raise ModelError(
            f"{FILE_FORMATS[spec.model.files.format].title} becomes a program without TensorFlow, and has no such form",
            hint="`tfaot-pkg inspect SPEC --what program` shows the program",
        )
    source = pipeline.source(spec)
    with pipeline.workers(pipeline.environment_for(spec, source)) as pool, pipeline.progress.step("convert"):
        saved = SavedModel(spec.model, source, pool)
        with saved.named() as folder:
            if form == "saved_model":
                _copy(folder, output)
                return form
            made, taken = pool.new_folder("converted"), pool.given_folder("converted")
            request = Convert(
                folder=str(folder), tags=spec.model.tags, signature=spec.model.serving_key, form=form,
                out=str(made / output.name), shapes=_fixed(spec), batch_size=batch_size or 0,
            )  # fmt: skip
            pool.get().call(request, Nothing)
            pool.take(made, taken)
        with storage_errors(f"write {output}"):
            write_file(output.absolute(), (taken / output.name).read_bytes())
    return form


def _fixed(spec: ModelSpec) -> dict[str, tuple[int | None, ...]]:
    """The shapes of inputs that the spec sets, without sizes that stay open."""
    model = spec.model
    return {
        name: tuple(
            None if symbol else size
            for size, symbol in zip(shape, model.axes.get(name) or ("",) * len(shape), strict=True)
        )
        for name, shape in model.shapes.items()
    }


def _copy(folder: Path, output: Path) -> None:
    """A copy of the SavedModel, which appears complete or not at all."""
    # Beside the output, so that the rename stays within one file system.
    partial = output.with_name(f".{output.name}.partial")
    with storage_errors(f"write {output}"):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            shutil.copytree(folder, partial)
            partial.rename(output)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
