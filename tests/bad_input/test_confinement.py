"""Builds on machines that confine a model in one way or another, or not at all."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.bad_input.conftest import REPOSITORY, CommandLine, left_in_cache, write_spec
from tests.bad_input.test_hostile_models import NO_NAMESPACES

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

OLD_KERNEL = [sys.executable, str(REPOSITORY / "tests" / "sandbox" / "old_kernel.py")]


def provenance(prefix: Path) -> dict[str, Any]:
    document = json.loads((prefix / "share" / "tfaot-model-dense" / "provenance.json").read_text())
    parameters = document["predicate"]["buildDefinition"]["internalParameters"]
    assert isinstance(parameters, dict)
    return parameters


@pytest.mark.sweep("landlock")
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_the_level_is_in_the_package_and_in_what_build_says(
    *,
    own: CommandLine,
    models: Mapping[str, Path],
    in_namespace: Callable[[str], list[str]],
    require_program: Callable[[str], str],
    tmp_path: Path,
    level: str,
) -> None:
    require_program("bwrap")
    there = own if level == "namespaces" else own.with_(wrapper=in_namespace(NO_NAMESPACES))
    spec = write_spec(tmp_path / "spec.yaml", models["dense"])
    made = there.works("build", spec, "-o", tmp_path / "prefix")
    assert made["confinement"] == made["validation"]["confinement"] == level
    assert provenance(tmp_path / "prefix")["confinement"] == level
    assert next(each for each in doctor(there) if each["subject"] == "confinement")["finding"].startswith(level)


def doctor(tfaot: CommandLine) -> list[dict[str, Any]]:
    found = json.loads(tfaot.run("doctor", "--json").stdout)["findings"]
    assert isinstance(found, list)
    return found


@pytest.mark.nightly
def test_without_any_a_build_is_refused_unless_the_user_agrees_which_then_stays_known(
    *, own: CommandLine, models: Mapping[str, Path], in_namespace: Callable[[str], list[str]], tmp_path: Path
) -> None:
    there = own.with_(wrapper=[*in_namespace(NO_NAMESPACES), *OLD_KERNEL])
    spec, prefix = write_spec(tmp_path / "spec.yaml", models["dense"]), tmp_path / "prefix"
    says = ["this machine has no sandbox for models", "namespace", "no Landlock"]
    for command in (("check", spec), ("build", spec, "-o", prefix)):
        error = there.fails(*command, code=29, says=says, hints="--unconfined")
        assert error["kind"] == "sandbox"
    assert not prefix.exists() and left_in_cache(own.home) == []
    there.works("check", models["dense"], "--unconfined")
    made = there.works("build", spec, "-o", prefix, "--unconfined")
    assert made["confinement"] == "none" and provenance(prefix)["confinement"] == "none"
    again = own.run("build", spec, "-o", tmp_path / "again")  # from the cache
    assert again.code == 0 and "not confined: " in again.stdout, again
    assert provenance(tmp_path / "again")["confinement"] == "none"


@pytest.mark.nightly
def test_a_model_in_the_home_folder_is_built(*, own: CommandLine, models: Mapping[str, Path], tmp_path: Path) -> None:
    home = tmp_path / "user"
    shutil.copytree(models["dense"], home / "dense")
    there = own.with_(HOME=str(home))
    spec = write_spec(home / "spec.yaml", home / "dense")
    assert there.works("build", spec, "-o", tmp_path / "prefix")["confinement"] != "none"
