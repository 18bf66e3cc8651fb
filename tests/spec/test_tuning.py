"""The tuning file: read beside the spec, written in one form, and every fault told with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.spec.parse import load_spec, parse_spec
from tfaot_pkg.spec.tuning import outdated_note, parse_tuning, read_tuning, tuning_bytes, tuning_path
from tfaot_pkg.spec.types import TunedCode, Tuning

FLAG = (
    "--xla_backend_extra_options=xla_force_enable_experimental_llvm_ir_gemm,xla_llvm_ir_gemm_tile_size=4:8:2*vectwidth"
)
TUNING = Tuning(
    model="digits",
    machine={"cpu": "Some CPU @ 2 GHz"},
    toolchains={
        "2.17.1": TunedCode(
            xla_flags={
                "x86-64-v2": {2: (FLAG,), 16: (FLAG,)},
                "x86-64-v3": {1: (FLAG, "--xla_cpu_enable_fast_math=false")},
            }
        ),
        "2.21.0": TunedCode(xla_flags={"x86-64-v2": {4: (FLAG,)}}),
    },
    batch_costs={"x86-64-v2": {1: 900.0, 8: 5000.0}, "x86-64-v3": {1: 812.5, 2: 1200.0}},
)


def _text(**changes: Any) -> str:
    document = {
        "format": 1,
        "model": "digits",
        "machine": {"cpu": "Some CPU @ 2 GHz"},
        "batch_costs": {"x86-64-v3": {"2": 1200, "1": 812.5}, "x86-64-v2": {"8": 5000, "1": 900}},
        "toolchains": {
            "2.21.0": {"xla_flags": {"x86-64-v2": {"4": [FLAG]}}},
            "2.17.1": {
                "xla_flags": {
                    "x86-64-v3": {"1": [FLAG, "--xla_cpu_enable_fast_math=false"]},
                    "x86-64-v2": {"16": [FLAG], "2": [FLAG]},
                },
            },
        },
    }
    return json.dumps({key: value for key, value in {**document, **changes}.items() if value is not ...}, indent=1)


def _code(**code: Any) -> str:
    return _text(toolchains={"2.17.1": code})


def _flags(flags: object) -> str:
    return _code(xla_flags={"x86-64": {"1": flags}})


def _faults(text: str) -> list[str]:
    with reported(SpecError) as caught:
        parse_tuning(text.encode(), "spec.tune.json", "digits")
    assert caught.value.exit_code == 10
    return [f"{fault.file}:{fault.line}: {fault.path}: {fault.message}" for fault in caught.value.faults]


def test_the_file_is_read_whatever_its_order_and_written_in_one_form() -> None:
    tuning = parse_tuning(_text().encode(), "spec.tune.json", "digits")
    assert tuning == TUNING
    assert list(tuning.toolchains) == ["2.17.1", "2.21.0"]
    assert [list(row) for row in tuning.toolchains["2.17.1"].xla_flags.values()] == [[2, 16], [1]]
    assert list(tuning.batch_costs) == ["x86-64-v2", "x86-64-v3"] and list(tuning.batch_costs["x86-64-v3"]) == [1, 2]
    assert all(type(cost) is float for row in tuning.batch_costs.values() for cost in row.values())
    assert parse_tuning(tuning_bytes(tuning), "spec.tune.json", "digits") == TUNING
    assert tuning_bytes(tuning) == tuning_bytes(TUNING)


def test_all_but_format_and_model_may_be_left_out() -> None:
    text = _text(machine=..., toolchains=..., batch_costs=...)
    assert parse_tuning(text.encode(), "spec.tune.json", "digits") == Tuning(model="digits")


@pytest.mark.parametrize(
    ("spec", "file"), [("spec.yaml", "spec.tune.json"), ("a/my.model.yml", "a/my.model.tune.json")]
)
def test_the_file_lies_beside_its_spec(spec: str, file: str) -> None:
    assert tuning_path(Path(spec)) == Path(file)


def test_a_spec_comes_with_its_tuning(tmp_path: Path, good: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(good)
    assert load_spec(path).tuning is None
    (tmp_path / "model.tune.json").write_text(_text())
    assert load_spec(path).tuning == TUNING
    assert parse_spec(good.encode(), path).tuning is None
    (tmp_path / "model.tune.json").write_text(_text(format=2))
    with reported(SpecError):
        load_spec(path)


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    assert read_tuning(tmp_path / "none.tune.json", "digits") is None
    with reported(SpecError):
        read_tuning(tmp_path, "digits")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "1: : is not JSON: Expecting value (column 1)"),
        ('{"format": 1,\n "model": digits}', "2: : is not JSON: Expecting value (column 11)"),
        ("format: 1", "1: : is not JSON: Expecting value (column 1)"),
        ("[1]", "1: : must be a mapping with format, model, machine, toolchains, batch_costs, got a list"),
        ("[" * 100_000, "1: : is not JSON: "),
        ('{"format": 1, "model": "digits",\n "model": "digits"}', "2: model: is given twice (first on line 1)"),
        (_text(format=...), "1: format: must be 1, got nothing"),
        (_text(format="1"), "2: format: must be 1, got the string '1'"),
        (_text(model="wine"), "3: model: must be 'digits', the model of the spec beside it, got the string 'wine'"),
        (_text(model=...), "1: model: must be 'digits', the model of the spec beside it, got nothing"),
        (_text(machine="fast"), "4: machine: must be a mapping, got the string 'fast'"),
        (_text(machine={"cpu": 3}), "5: machine.cpu: must be a string, got the number 3"),
        (_text(batch_cost={}), "46: batch_cost: unknown key; did you mean batch_costs?"),
        (_text(batch_costs=[1]), "7: batch_costs: must be a mapping, got a list"),
        (_text(batch_costs={"x86": {}}), "8: batch_costs.x86: unknown target 'x86': there are x86-64, "),
        (_text(batch_costs={"x86-64": 3}), "8: batch_costs.x86-64: must be a mapping from batch sizes to nanoseconds, "),
        (_text(batch_costs={"x86-64": {"one": 1}}), "9: batch_costs.x86-64.one: must be a batch size from 1 to 65536, "),
        (_text(batch_costs={"x86-64": {"0": 1}}), "9: batch_costs.x86-64.0: must be a batch size from 1 to 65536, "),
        (_text(batch_costs={"x86-64": {"65537": 1}}), "9: batch_costs.x86-64.65537: must be a batch size from 1 to "),
        (_text(batch_costs={"x86-64": {"1": -2}}), "9: batch_costs.x86-64.1: must be a finite number above 0, got the "),
        (_text(batch_costs={"x86-64": {"1": 0}}), "9: batch_costs.x86-64.1: must be a finite number above 0, got the "),
        (_text(batch_costs={"x86-64": {"1": float("nan")}}), "9: batch_costs.x86-64.1: must be a finite number above "),
        (_text(batch_costs={"x86-64": {"1": float("inf")}}), "9: batch_costs.x86-64.1: must be a finite number above "),
        (_text(batch_costs={"x86-64": {"1": "2"}}), "9: batch_costs.x86-64.1: must be a number of nanoseconds, got the "),
        (_text(batch_costs={"x86-64": {"1": True}}), "9: batch_costs.x86-64.1: must be a number of nanoseconds, got true"),
        (_text(toolchains=[]), "17: toolchains: must be a mapping, got a list"),
        (_text(toolchains={"2.17": {}}), "18: toolchains['2.17']: must be a full TensorFlow version such as 2.17.1, got "),
        (_text(toolchains={"2.17.1": 1}), "18: toolchains['2.17.1']: must be a mapping, got the number 1"),
        (_code(kernel={}), "19: toolchains['2.17.1'].kernel: unknown key; did you mean kernels?"),
        (_code(kernels=1), "19: toolchains['2.17.1'].kernels: must be a mapping, got the number 1"),
        (_code(xla_flags={"x86": {}}), "20: toolchains['2.17.1'].xla_flags.x86: unknown target 'x86': there are "),
        (_code(xla_flags={"x86-64": "-"}), "20: toolchains['2.17.1'].xla_flags.x86-64: must be a mapping from batch sizes "),
        (_code(xla_flags={"x86-64": {"0": ["--a"]}}), "21: toolchains['2.17.1'].xla_flags.x86-64.0: must be a batch size from "),
        (_flags([]), "must be a list of flags, got an empty one"),
        (_flags("--a"), "must be a list of flags, got the string '--a'"),
        (_flags(["xla"]), "must be one flag such as --xla_cpu_enable_fast_math=true, without blanks or quotes, got 'xla'"),
        (_flags(["--a b"]), "must be one flag such as "),
        (_flags([1]), "must be a string, got the number 1"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_each_fault_is_told_with_file_and_line(text: str, fault: str) -> None:
    (found,) = _faults(text)
    assert found.startswith("spec.tune.json:") and fault in found
    assert not fault[0].isdigit() or found.startswith(f"spec.tune.json:{fault}")


def test_all_faults_are_told_at_once() -> None:
    found = _faults(_text(model="wine", batch_costs={"x86": {"one": -1}}))
    assert [fault.split(": ")[1] for fault in found] == ["model", "batch_costs.x86", *["batch_costs.x86.one"] * 2]


def test_layers_of_older_files_are_read_past_with_a_note(tmp_path: Path, good: str) -> None:
    kernels = {"x86-64-v3": {"8": {"except": ["a"]}, "2": "all"}}
    path = tmp_path / "model.yaml"
    path.write_text(good)
    (tmp_path / "model.tune.json").write_text(_text(toolchains={"2.17.1": {"kernels": kernels}}))
    spec = load_spec(path)
    assert spec.tuning is not None and spec.tuning.has_layers and not spec.tuning.toolchains
    assert outdated_note(spec).startswith("model.tune.json chooses layers for the kernel library, which has no effect")
    (tmp_path / "model.tune.json").write_bytes(tuning_bytes(spec.tuning))
    assert outdated_note(load_spec(path)) == ""
