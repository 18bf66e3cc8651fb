"""What a build says in place of its spec: options of `tfaot-pkg build`, as `tfaot_add_model` in CMake gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from tfaot_pkg.errors import SpecError
from tfaot_pkg.spec.form import CompilationForm
from tfaot_pkg.spec.names import name_fault, tensorflow_fault
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import TARGETS

_OPTIONS = {"batch_sizes": "--batch-size", "targets": "--target"}


def override(
    spec: ModelSpec,
    *,
    name: str | None = None,
    targets: Sequence[str] = (),
    batch_sizes: Sequence[int] = (),
    tools: bool = False,
    tensorflow: str | None = None,
) -> ModelSpec:
    """`spec` with another model's name, targets, batch sizes and toolchain, where these are given; `tools` adds the
    programs.

    The same as if the spec had said so: expressions in it that take model.name keep the spec's own. Raises SpecError,
    which names the options, with every fault.
    """
    faults = [f"--name: {fault}"] if name is not None and (fault := name_fault(name)) else []
    if tensorflow is not None and (fault := tensorflow_fault(tensorflow)):
        faults.append(f"--tensorflow: {fault}")
    given = {"batch_sizes": [*batch_sizes] or [*spec.compilation.batch_sizes], "targets": [*targets] or None}
    try:
        CompilationForm.model_validate(given)
    except ValidationError as error:
        faults += [f"{_OPTIONS[str(details['loc'][0])]}: {details['msg']}" for details in error.errors()]
    if faults:
        raise SpecError("\n".join(faults), hint="`tfaot-pkg build --help` tells what these options take")
    compilation = replace(
        spec.compilation,
        targets=tuple(sorted(targets, key=lambda target: TARGETS[target].level)) or spec.compilation.targets,
        batch_sizes=tuple(sorted(set(batch_sizes))) or spec.compilation.batch_sizes,
        tensorflow=tensorflow or spec.compilation.tensorflow,
    )
    return replace(
        spec,
        model=replace(spec.model, name=name or spec.model.name),
        compilation=compilation,
        package=replace(spec.package, tools=tools or spec.package.tools),
        tuning=replace(spec.tuning, model=name) if spec.tuning is not None and name is not None else spec.tuning,
    )
