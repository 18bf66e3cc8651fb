"""`build --dev` in a CMSSW area: a program builds with what SCRAM would read from the tool files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.consumers.conftest import WARNINGS, environment
from tests.package.test_scram import expanded
from tests.samples import REPOSITORY, Published, Sample, recipe, tfaot
from tfaot_pkg.ground.process import CommandFailed, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]


def spec_with_objects(folder: Path) -> Path:
    document = yaml.safe_load((recipe("digits") / "spec.yaml").read_text())
    document |= {"source": {"path": str(recipe("digits"))}, "package": {"objects": True}}
    (folder / "spec.yaml").write_text(yaml.safe_dump(document))
    return folder / "spec.yaml"


@pytest.mark.nightly
def test_both_tools_of_a_model_link_programs_as_accurate_as_tensorflow(
    published: Published, samples: dict[str, Sample], tmp_path: Path
) -> None:
    area = tmp_path / "CMSSW_15_0_0"
    area.mkdir()
    variables = {"CMSSW_BASE": str(area)}
    printed = tfaot(published.home, "build", spec_with_objects(tmp_path), "--dev", "--json", env=variables)
    scram = json.loads(printed)["scram"]
    assert scram["setup"] == f"scram setup {scram['tool_files'][0]}"
    assert scram["use"] == '<use name="tfaot-model-digits"/>'
    assert scram["class"] == "tfaot::Model<tfaot_model::digits>"
    assert [name.replace("$CMSSW_BASE", "") for name in scram["tool_files"]] == [
        "/tfaot/tfaot-model-digits.xml",
        "/tfaot/tfaot-model-digits-objects.xml",
    ]
    assert_the_steps_compile(area, scram, tmp_path)
    sample = samples["digits"]
    share = 100 * np.mean(sample.answers["digit"] == sample.labels)
    for number, name in enumerate(scram["tool_files"]):
        tool = expanded(Path(name.replace("$CMSSW_BASE", str(area))).read_bytes(), variables)
        assert all((Path(tool["INCLUDE"][0]) / header).is_file() for header in scram["includes"])
        flags = [
            f"-I{tool['INCLUDE'][0]}",
            f"-L{tool['LIBDIR'][0]}",
            *tool["LDFLAGS"],
            *[f"-l{n}" for n in tool["LIB"]],
        ]
        program = tmp_path / f"program-{number}"
        run(["g++", "-std=c++17", REPOSITORY / "examples/cmake-consumer/main.cpp", *flags, "-o", program])
        # What links objects needs nothing at run time.
        env = environment(LD_LIBRARY_PATH=tool["LIBDIR"][0]) if tool["LIB"] else environment()
        answer = run([program, recipe("digits") / "data" / "held-out.csv"], env=env).stdout
        assert answer == f"accuracy on {len(sample.labels)} held-out images: {share:.1f} %\n"


def assert_the_steps_compile(area: Path, scram: dict[str, Any], folder: Path) -> None:
    """Steps 3 and 4, in the order in which they are printed."""
    lines = [*(f"#include <{header}>" for header in scram["includes"]), f"{scram['class']} made() {{"]
    (folder / "steps.cc").write_text("\n".join([*lines, f"  {scram['class']} model;", "  return model;", "}\n"]))
    flags = ["-std=c++17", *WARNINGS, f"-I{area}/tfaot/include"]
    run(["g++", *flags, "-c", folder / "steps.cc", "-o", folder / "steps.o"])


@pytest.mark.parametrize(
    ("base", "words", "code", "message"),
    [
        ("", ["--dev"], 22, "CMSSW_BASE is not set"),
        ("area", ["--dev", "-o", "elsewhere"], 22, "is outside the CMSSW area"),
        ("area", [], 2, "give a prefix to install into: -o PREFIX"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_built(
    base: str, words: list[str], code: int, message: str, published: Published, tmp_path: Path
) -> None:
    (tmp_path / "area").mkdir()
    spec, env = spec_with_objects(tmp_path), {"CMSSW_BASE": str(tmp_path / base) if base else "", "COLUMNS": "200"}
    with pytest.raises(CommandFailed) as failure:
        tfaot(published.home, "build", spec, *words, env=env)
    assert failure.value.reason == f"exit code {code}"
    assert message in failure.value.output
    assert "freeze" not in failure.value.output
