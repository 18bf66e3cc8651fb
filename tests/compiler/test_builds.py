"""Packages whose models are programs: chosen, built with a real toolchain, and used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands import run_command
from tests.compiler.conftest import FLAGS, INCLUDES, Networks
from tests.samples import tfaot
from tests.wording import worded
from tests.zoo.conftest import folder_with
from tfaot_pkg.compiler.attributes import Constant
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run
from tfaot_pkg.package.binary.elf import defined_symbols, undefined_symbols
from tfaot_pkg.package.prefix.manifest import verify_install
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.verify.installed import check_answers

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]  # the first makes the networks


def spec_of(folder: Path, model: Path, *lines: str, version: str = "2.17.1") -> Path:
    path = folder / "spec.yaml"
    compilation = ["batch_sizes: [1, 4]", "targets: [x86-64-v2, x86-64-v3]", f"tensorflow: {version}", *lines]
    head = ["model:", "  name: net", "  version: 1.0.0", f"  saved_model: {model}", "compilation:"]
    path.write_text("\n".join([*head, *(f"  {line}" for line in compilation), ""]))
    return path


def built(home: Path, spec: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(tfaot(home, "build", spec, "-o", spec.parent / "prefix", "--json"))
    return document


@pytest.mark.sweep("lstm-2.17.1", night=["neighbours-2.17.1", "images-2.21.0"])
@pytest.mark.parametrize("version", ["2.17.1", "2.21.0"])
@pytest.mark.parametrize("name", ["lstm", "images", "sets", "neighbours", "moved"])
def test_a_package_of_a_program_gives_tensorflows_answers(
    networks: Networks, shared_home_folder: Path, tmp_path: Path, name: str, version: str
) -> None:
    network = networks(version, name)
    document = built(shared_home_folder, spec_of(tmp_path, network.model, "engine: program", version=version))
    assert document["engine"]["name"] == "program"
    assert document["engine"]["reproducible"] == "cpus"
    assert document["engine"]["other_bits"] == ["x86-64-v2"]
    info = json.loads((tmp_path / "prefix/share/tfaot-model-net/info.json").read_text())
    assert (info["reproducible"], info["other_bits"]) == ("cpus", ["x86-64-v2"])
    assert document["kernels"] is None
    parts = json.loads((tmp_path / "prefix/share/tfaot-model-net/sbom.cdx.json").read_text())["components"]
    assert not any("Eigen" in part["name"] for part in parts)
    model = load("net", prefix=tmp_path / "prefix")
    for target in model.targets:
        loaded = load("net", prefix=tmp_path / "prefix", target=target)
        given = loaded(*network.inputs)
        for tensor, wanted in zip(loaded.signature.outputs, network.outputs, strict=True):
            np.testing.assert_allclose(given[tensor.name], wanted, rtol=1e-4, atol=2e-6)


def test_the_answers_of_an_installed_program_are_checked_against_those_of_its_build(
    networks: Networks, shared_home_folder: Path, tmp_path: Path
) -> None:
    """A weight that changed is found also if the list of installed files vouches for it."""
    network = networks("2.17.1", "lstm")
    document = built(shared_home_folder, spec_of(tmp_path, network.model))
    assert (document["engine"]["name"], document["kernels"]) == ("program", None)  # auto takes it
    hashes = document["validation"]["hashes"]
    assert [group["run"] for group in hashes["groups"]] == [["x86-64-v3"], ["x86-64-v2"]]
    assert hashes["groups"][0]["batches"] != hashes["groups"][1]["batches"]
    assert [each.ok and each.checked for each in check_answers(verify_install(tmp_path / "prefix"))] == [
        ("x86-64-v3", "x86-64-v2")
    ]
    spoil_a_weight(tmp_path / "prefix", network.program)
    (found,) = check_answers(verify_install(tmp_path / "prefix"))
    assert {each.target for each in found.different} == {"x86-64-v2", "x86-64-v3"}


def spoil_a_weight(prefix: Path, program: Program) -> None:
    """Change the last bit of a weight's exponent in the installed library, and its digest in the manifest."""
    weights = max(
        (Constant.of(each).literal.constant for each in program.entry.everything() if each.opcode == "constant"),
        key=np.size,
    )
    library, manifest = prefix / "lib/libtfaot-model-net.so", prefix / "share/tfaot-model-net/manifest.json"
    data = library.read_bytes()
    one = next(value.tobytes() for value in weights.flat if data.count(value.tobytes()) == 1)
    library.write_bytes(data.replace(one, one[:2] + bytes([one[2] ^ 0x80]) + one[3:]))
    document = json.loads(manifest.read_text())
    document["files"]["lib/libtfaot-model-net.so"] = sha256_file(library)
    manifest.write_text(json.dumps(document))


@pytest.mark.nightly
def test_auto_leaves_a_model_to_xla_if_the_compiler_does_not_know_an_operation(
    toolchain_python: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    model = folder_with("qr", shared_home_folder, toolchain_python) / "qr"
    engine = built(shared_home_folder, spec_of(tmp_path, model))["engine"]
    assert "Qr" in engine.pop("reason")
    assert engine == {"name": "xla", "reproducible": "no", "difference": "XLA's code"}


def test_a_program_that_cannot_be_had_is_an_error_with_the_reason(
    toolchain_python: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    model = folder_with("while_loop", shared_home_folder, toolchain_python) / "while_loop"
    spec = spec_of(tmp_path, model, "engine: program")
    ended = run_command(
        ["build", spec, "-o", tmp_path / "prefix"],
        cwd=tmp_path,
        env={**os.environ, "TFAOT_HOME": str(shared_home_folder)},
    )
    assert ended.returncode == 12
    worded(ended.stderr.partition("error: ")[2])
    assert not (tmp_path / "prefix").exists()


@pytest.mark.sweep("lstm", "neighbours")
@pytest.mark.parametrize("name", ["lstm", "images", "neighbours", "moved"])
def test_programs_neither_allocate_nor_throw(networks: Networks, kernels: Path, tmp_path: Path, name: str) -> None:
    """The library calls them without the guard that XLA's code needs (templates/native/library.cc)."""
    source, made = tmp_path / "program.cc", tmp_path / "program.o"
    source.write_text(emit(recognize(simplify(networks("2.17.1", name).program)), "program").source)
    run(["g++", *FLAGS, *INCLUDES, "-include", kernels.with_name("headers.h"), "-c", source, "-o", made])
    needed = (undefined_symbols(made) | undefined_symbols(kernels)) - defined_symbols(kernels)
    assert {symbol for symbol in needed if symbol != "_GLOBAL_OFFSET_TABLE_"} <= {"memcpy", "memmove", "memset"}


@pytest.mark.release
def test_a_program_is_the_same_code_whenever_the_model_is_lowered(
    networks: Networks, shared_home_folder: Path, tmp_path: Path
) -> None:
    """TensorFlow numbers its instructions in another way each time."""
    spec = spec_of(tmp_path, networks("2.17.1", "towers").model)
    libraries = []
    for name in ("first", "second"):
        home = tmp_path / name
        (home / "cache").mkdir(parents=True)
        (home / "cache" / "toolchains").symlink_to(shared_home_folder / "cache" / "toolchains")
        tfaot(home, "build", spec, "-o", home / "prefix")
        libraries.append((home / "prefix/lib/libtfaot-model-net.so").read_bytes())
    assert libraries[0] == libraries[1]
