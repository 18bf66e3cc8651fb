"""Flags of XLA and settings of the environment that do not exist or make no sense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

# Each of these ends TensorFlow's process, some with a page of help.
FLAGS = {
    "xla_flags --xla_nope": "does not know this flag: --xla_nope",
    "tf_xla_flags --tf_xla_nope=1": "does not know this flag: --tf_xla_nope=1",
    "xla_flags --xla_cpu_enable_fast_math=maybe": "the value 'maybe' for the flag --xla_cpu_enable_fast_math",
    "tf_xla_flags --tf_xla_min_cluster_size=many": "the value 'many' for the flag --tf_xla_min_cluster_size",
}


@pytest.mark.sweep("xla_flags --xla_nope", night=["tf_xla_flags --tf_xla_nope=1"])
@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_that_the_toolchain_does_not_take_is_a_fault_of_the_spec(
    tfaot: CommandLine, tmp_path: Path, models: Mapping[str, Path], spec_of: Callable[..., Path], flag: str
) -> None:
    field, value = flag.split()
    spec = spec_of(models["dense"], compilation={field: [value]})
    says = [f"compilation.{field}: ", FLAGS[flag]]
    error = tfaot.fails("build", spec, "-o", tmp_path / "prefix", code=10, says=says, hints="spec")
    assert error["kind"] == "spec"
    assert not (tmp_path / "prefix").exists()


@pytest.mark.parametrize("setting", ["TFAOT_WORKER_MEMORY=lots", "TFAOT_WORKER_TIMEOUT=-1", "TFAOT_WORKER_TIMEOUT=nan"])
def test_a_setting_that_is_no_number_is_refused(tfaot: CommandLine, models: Mapping[str, Path], setting: str) -> None:
    name, value = setting.split("=")
    tfaot.with_(**{name: value}).fails("check", models["dense"], code=13, says=[name, repr(value)], hints=name)


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/false", "/dev/null"])
def test_a_toolchain_python_that_is_none_is_refused(bare: CommandLine, models: Mapping[str, Path], python: str) -> None:
    bare.fails("check", models["dense"], "--toolchain-python", python, code=13, says=[python], hints="bin/python")
