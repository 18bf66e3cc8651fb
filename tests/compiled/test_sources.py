"""A package has sources only if its model is a program."""

from __future__ import annotations

from dataclasses import replace

from tests.package.conftest import make_spec
from tests.wording import reported
from tfaot_pkg.errors import ModelError
from tfaot_pkg.native.compiled.program import Engine, require_sources
from tfaot_pkg.spec.types import PackageOptions


def test_sources_of_a_model_that_xla_compiles_are_an_error_with_the_reason() -> None:
    spec = make_spec()
    wanted = replace(spec, package=PackageOptions(source=True))
    require_sources(spec, Engine(reason="rows depend on one another"))
    require_sources(wanted, Engine())
    with reported(ModelError):
        require_sources(wanted, Engine(reason="rows depend on one another"))
