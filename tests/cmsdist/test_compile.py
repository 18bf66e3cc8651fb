"""cms_tfaot_compile: what CMS's build scripts find in its output, and programs that are linked from the objects alone."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.cmsdist.scram import compiler_flags
from tests.samples import assert_agrees, tensorflow_answers
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

CPP = Path(__file__).parent / "cpp"
CMSSW = Path(__file__).parent / "cmssw"  # the headers of a release
WARNINGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wl,--fatal-warnings")
PROGRAM = [sys.executable, "-c", "from tfaot_pkg.__main__ import cms_tfaot_compile as main; main()"]


def cms_tfaot_compile(*arguments: str | Path, home: Path, **variables: str) -> str:
    environment = {**os.environ, "TFAOT_HOME": str(home), **variables}
    return run([*PROGRAM, *arguments], env=environment, timeout=600).stdout


@pytest.fixture(scope="module")
def config(models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`config("dense")`: the path of an aot_config.yaml for that model, as cms-tfaot reads it."""

    def write(name: str, batch_sizes: tuple[int, ...] = (1, 2, 4)) -> Path:
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(models[name], folder / "saved_model")
        document = {
            "model": {"name": name, "version": "1.0.0", "author": "A. Nonymous"},
            "compilation": {"batch_sizes": list(batch_sizes), "namespace": None, "tf_xla_flags": [], "xla_flags": []},
        }
        (folder / "aot_config.yaml").write_text(yaml.safe_dump(document))
        return folder / "aot_config.yaml"

    return write


@pytest.fixture(scope="module")
def dense(config: Callable[..., Path]) -> Path:
    return config("dense")


@pytest.fixture(scope="module")
def answers(dense: Path, shared_home_folder: Path) -> tuple[str, np.ndarray]:
    """Five rows as text, and TensorFlow's answers."""
    rows = np.random.default_rng(5).normal(size=(5, 4)).astype(np.float32)
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    environment = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    with WorkerPool(environment, scratch_root=folders.builds, logs=folders.logs) as pool:
        theirs = tensorflow_answers(dense.parent / "saved_model", {"x": rows}, ["y"], pool)
    return " ".join(repr(float(value)) for value in rows.ravel()), theirs["y"]


def install(output: Path, root: Path, name: str) -> Path:
    """What CMSDIST's install step does with the output; the place of the tool file."""
    for folder, pattern in (("lib", "*.o"), (f"include/{name}", "*.h"), ("etc/scram.d", "*.xml")):
        (root / folder).mkdir(parents=True)
        for path in output.glob(pattern):
            path.rename(root / folder / path.name)
    return root / "etc" / "scram.d" / f"{name}.xml"


def built(source: str, flags: list[str], folder: Path, *more: str | Path) -> Path:
    program = folder / Path(source).stem
    run(["g++", *WARNINGS, *more, CPP / source, *flags, "-o", program])
    return program


def check(program: Path, answers: tuple[str, np.ndarray], name: str) -> None:
    text, theirs = answers
    said, *lines = run([program], stdin=text.encode()).stdout.splitlines()
    assert said == name
    assert_agrees(np.array([[float(word) for word in line.split()] for line in lines], np.float32), theirs)


@pytest.fixture(scope="module")
def installed(dense: Path, shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The compiler's flags for a model that was installed as CMSDIST does it."""
    name, folder = "tfaot-model-dense", tmp_path_factory.mktemp("cmsdist")
    root, output = folder / "installed", folder / "compiled_model"
    cms_tfaot_compile(
        "--aot-config", dense, "--tool-name", name, "--tool-base", root, "--output-directory", output,
        "--additional-flags=--target_triple x86_64-unknown-linux-gnu", home=shared_home_folder,
    )  # fmt: skip
    objects = {f"dense_{part}.o" for part in ("bs1", "bs2", "bs4", "common")}
    headers = {"model.h", "dense.h", "dense_tfaot.h", "dense_cmssw.h", "dense_bs1.h", "dense_bs2.h", "dense_bs4.h"}
    assert {path.name for path in output.iterdir()} == objects | headers | {f"{name}.xml"}
    flags = compiler_flags(install(output, root, name), {})
    assert {Path(flag).name for flag in flags if flag.endswith(".o")} == objects
    assert not [flag for flag in flags if flag.startswith("-l")]
    return flags


@pytest.mark.sweep("functions", night=["cmssw"])
@pytest.mark.parametrize(
    ("source", "more", "says"),
    [
        pytest.param("dense.cc", [], "dense", id="ours"),
        pytest.param("dense.cc", ["-DCMSSW", "-I", CMSSW], "tfaot_model_dense", id="cmssw"),
        pytest.param("functions.cc", [], "dense", id="functions"),
        pytest.param("functions.cc", ["-DCMSSW", "-I", CMSSW], "dense", id="functions in cmssw"),
        # The model's header alone finds CMSSW's interface, too.
        pytest.param("dense.cc", ["-I", CMSSW], "tfaot_model_dense", id="header alone"),
    ],
)
def test_a_program_is_linked_from_installed_objects_and_agrees_with_tensorflow(
    source: str, more: list[str], says: str, installed: list[str], answers: tuple[str, np.ndarray], tmp_path: Path
) -> None:
    check(built(source, installed, tmp_path, *more), answers, says)


def test_a_class_with_capitals_is_the_one_of_both_interfaces(
    dense: Path, answers: tuple[str, np.ndarray], shared_home_folder: Path, tmp_path: Path
) -> None:
    output, name = tmp_path / "compiled_model", "tfaot-model-dense"
    cms_tfaot_compile(
        "--aot-config", dense, "--tool-base", tmp_path / "root", "-o", output,
        "--additional-flags=--cpp_class physics::MatMulComp", home=shared_home_folder,
    )  # fmt: skip
    flags = compiler_flags(install(output, tmp_path / "root", name), {})
    text = (CPP / "dense.cc").read_text()
    assert "tfaot_model::dense" in text
    (tmp_path / "dense.cc").write_text(text.replace("tfaot_model::dense", "physics::MatMulComp"))
    of_cmssw: list[str | Path] = ["-DCMSSW", "-I", CMSSW]
    for more, says in ((of_cmssw[:0], "dense"), (of_cmssw, "physics_MatMulComp")):
        check(built(str(tmp_path / "dense.cc"), flags, tmp_path, *more), answers, says)


@pytest.mark.nightly
def test_dev_makes_a_tool_in_a_cmssw_area_and_says_how_to_use_it(
    dense: Path, answers: tuple[str, np.ndarray], shared_home_folder: Path, tmp_path: Path
) -> None:
    area = tmp_path / "CMSSW_15_0_0"
    output = area / "tfaot" / "dense"
    output.mkdir(parents=True)
    said = cms_tfaot_compile("-c", dense, "-o", output, "--dev", home=shared_home_folder, CMSSW_BASE=str(area))
    assert "scram setup $CMSSW_BASE/tfaot/dense/tfaot-model-dense.xml" in said
    assert "tfaot::Model<tfaot_model::dense>" in said
    assert re.findall("#include <(.*)>", said) == ["tfaot-model-dense/model.h"]
    assert (output / "lib" / "dense_bs4.o").is_file()
    assert (output / "include" / "tfaot-model-dense" / "model.h").is_file()
    tool = output / "tfaot-model-dense.xml"
    assert str(tmp_path) not in tool.read_text()
    flags = compiler_flags(tool, {"CMSSW_BASE": str(area)})
    check(built("dense.cc", flags, tmp_path), answers, "dense")
    # With headers of ours under CMSSW's names it is our interface, too.
    ours = output / "include" / "tfaot" / "cmssw"
    check(built("dense.cc", flags, tmp_path, "-DCMSSW", "-I", ours), answers, "dense")
    # Other headers of ours may come before it: they are the same ones.
    check(built("dense.cc", flags, tmp_path, "-include", "tfaot/tfaot.h"), answers, "dense")


@pytest.mark.nightly
def test_the_class_for_cmssw_says_what_it_has_and_refuses_what_it_has_not(
    config: Callable[..., Path], shared_home_folder: Path, tmp_path: Path
) -> None:
    cms_tfaot_compile("-c", config("two_inputs"), "-o", tmp_path / "x", "--dev", home=shared_home_folder)
    flags = compiler_flags(tmp_path / "x" / "tfaot-model-two-inputs.xml", {})
    assert run([built("misuse.cc", flags, tmp_path, "-I", CMSSW)]).stdout.splitlines() == [
        "3 1 0 12 6",
        "model 'tfaot_model_two_inputs': batch size 3 was not compiled",
        "model 'tfaot_model_two_inputs': there is no input of index 2",
        "model 'tfaot_model_two_inputs': \"sum\" has elements of another type",
        "model 'tfaot_model_two_inputs': batch size 8 was not compiled",
    ]


@pytest.mark.nightly
def test_a_plug_in_holds_two_models_and_loads_without_looking_for_any(
    config: Callable[..., Path], dense: Path, answers: tuple[str, np.ndarray], shared_home_folder: Path, tmp_path: Path
) -> None:
    flags: list[str] = []
    for path in (dense, config("two_inputs")):
        name = path.parent.name.rstrip("0123456789")
        cms_tfaot_compile("-c", path, "-o", tmp_path / name, "--dev", home=shared_home_folder)
        flags += compiler_flags(tmp_path / name / f"tfaot-model-{name.replace('_', '-')}.xml", {})
    plugin = built("plugin.cc", flags, tmp_path, "-shared", "-fPIC", "-Wl,-z,defs", "-I", CMSSW)
    x = np.array([float(word) for word in answers[0].split()[:6]], np.float32)
    out = np.zeros(9, np.float32)
    pointer = ctypes.POINTER(ctypes.c_float)
    ctypes.CDLL(str(plugin)).evaluate(x.ctypes.data_as(pointer), out.ctypes.data_as(pointer))
    assert_agrees(out[:3], answers[1][0])
    assert_agrees(out[3:], np.concatenate([x[:3] - 2 * x[3:], x[:3] + x[3:]]))


@pytest.mark.release
def test_what_a_former_run_left_for_other_batch_sizes_is_gone(
    config: Callable[..., Path], shared_home_folder: Path, tmp_path: Path
) -> None:
    for sizes in ((1, 2, 4), (1, 2)):
        cms_tfaot_compile("-c", config("two_inputs", sizes), "-o", tmp_path, home=shared_home_folder)
    assert {path.name for path in tmp_path.glob("*.o")} == {f"two_inputs_{part}.o" for part in ("bs1", "bs2", "common")}
    assert {path.name for path in tmp_path.glob("*_bs*.h")} == {"two_inputs_bs1.h", "two_inputs_bs2.h"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--additional-flags=--target_triple powerpc64le-unknown-linux-gnu"], 10, "no targets for this architecture"),
        (["--tool-name", "my tool"], 22, "cannot name a tool of SCRAM"),
        (["--tool-base", 'a"b'], 22, "SCRAM cannot read the tool's base"),
        (["--no-such-option"], 2, "No such option"),
        (["-o", __file__], 22, "is not a folder"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_built(
    arguments: list[str], code: int, message: str, dense: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed) as failure:
        cms_tfaot_compile("-c", dense, "-o", tmp_path / "out", *arguments, home=shared_home_folder)
    assert message in failure.value.output
    assert failure.value.reason == f"exit code {code}"
    assert not (tmp_path / "out").exists()
