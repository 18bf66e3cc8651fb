"""Write a model in another form: SavedModel, GraphDef, or functions of MLIR's TensorFlow dialect."""

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

Form = Literal["mlir", "graph", "graph_text", "saved_model"]
_FORMS: dict[str, Form] = {".mlir": "mlir", ".pb": "graph", ".pbtxt": "graph_text", "": "saved_model"}


def form_of(output: Path) -> Form:
    """The form that the name of `output` chooses. Raises SpecError for other names, and if it exists."""
    form = _FORMS.get(output.suffix)
    if form is None:
        raise SpecError(
            f"{output}: cannot write such a file",
            hint="name a .mlir file, a .pb or .pbtxt file for a GraphDef, or a folder for a SavedModel",
        )
    if output.exists() or output.is_symlink():
        raise SpecError(f"{output} exists already", hint="remove it, or name another one")
    return form


def convert(spec: ModelSpec, output: Path, pipeline: Pipeline) -> Form:
    """Write the model of `spec` to `output`, in the form of its name. Raises SpecError, ModelError, StorageError."""
    form = form_of(output)
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
                out=str(made / output.name),
            )  # fmt: skip
            pool.get().call(request, Nothing)
            pool.take(made, taken)
        with storage_errors(f"write {output}"):
            write_file(output.absolute(), (taken / output.name).read_bytes())
    return form


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
