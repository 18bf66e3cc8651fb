"""The examples with state: frames from a pipe, and training in C++, as TensorFlow does both."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.bad_input.conftest import CommandLine
from tests.consumers.conftest import WARNINGS, cmake_build, environment
from tests.samples import REPOSITORY, recipe
from tests.wording import reported
from tfaot_pkg.ground.process import CommandFailed, run

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]
TENSORFLOW = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def example(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(REPOSITORY / "examples" / name, folder / name))


def program(source: Path, name: str) -> Path:
    options = [f"-DCMAKE_PREFIX_PATH={source}/prefix", f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}"]
    return cmake_build(source / "build", *options, source=source) / name


def test_frames_from_a_pipe_are_answered_as_the_whole_sequence(
    tfaot: CommandLine, toolchain_python: Path, tmp_path: Path
) -> None:
    folder = example("stateful", tmp_path)
    run([toolchain_python, folder / "make_model.py", folder], env=TENSORFLOW, timeout=300)
    tfaot.works("build", folder / "spec.yaml", "-o", folder / "prefix", "--target", "x86-64-v3")
    track = program(folder, "track")
    frames = (folder / "frames.txt").read_bytes().splitlines(keepends=True)
    (folder / "track.sh").write_text('#!/bin/sh\nhead -n "$3" "$2" | tail -n +"$4" | "$1" --state "$5"\n')
    half = len(frames) // 2
    arguments: list[str | Path] = ["sh", folder / "track.sh", track, folder / "frames.txt"]
    first = run([*arguments, str(half), "1", folder / "state.bin"], env=environment()).stdout
    second = run([*arguments, str(len(frames)), str(half + 1), folder / "state.bin"], env=environment()).stdout
    answers = np.loadtxt((first + second).splitlines())
    np.testing.assert_allclose(answers, np.loadtxt(folder / "expected.txt"), rtol=1e-4, atol=1e-5)
    (folder / "state.bin").write_bytes(b"something else")
    with reported(CommandFailed):
        run([*arguments, str(half), "1", folder / "state.bin"], env=environment())


@pytest.mark.release
def test_training_in_cpp_reaches_tensorflows_accuracy(
    tfaot: CommandLine, toolchain_python: Path, tmp_path: Path
) -> None:
    folder, data = example("training", tmp_path), recipe("digits") / "data" / "held-out.csv"
    told = run([toolchain_python, folder / "make_model.py", folder, data], env=TENSORFLOW, timeout=300).stdout
    for spec in ("train.yaml", "predict.yaml"):
        tfaot.works("build", folder / spec, "-o", folder / "prefix", "--target", "x86-64-v3")
    printed = run([program(folder, "train"), data], env=environment()).stdout
    theirs, ours = (float(text.splitlines()[-1].split()[-2]) for text in (told, printed))
    # One image of 72 is 1.4 %: over 360 steps, roundings may decide one that lies between two digits.
    assert theirs > 85 and abs(ours - theirs) < 1.5
