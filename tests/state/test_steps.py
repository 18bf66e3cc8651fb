"""A model with variables: steps carry them over as TensorFlow's own function does, in Python, C++ and C."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bad_input.conftest import CommandLine, write_spec
from tests.coverage import verified
from tests.kept import saved_models
from tests.state.conftest import Built, Stateful
from tfaot_pkg.errors import RunError
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.runtime.loader import load

HERE = Path(__file__).resolve().parent
pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]


@pytest.fixture(scope="session")
def counter(built: Built) -> Stateful:
    return built("counter", {"read": ["gain"], "update": ["total", "steps", "seen", "table"]})


def test_steps_carry_the_state_over(counter: Stateful) -> None:
    state = counter.model.state()
    for step, x in enumerate(counter.inputs["x"]):
        answers = state.step(x)
        assert sorted(answers) == sorted(counter.outputs)
        for name, expected in counter.outputs.items():
            np.testing.assert_allclose(answers[name], expected[step], rtol=1e-5, atol=1e-6, err_msg=f"{name} at {step}")
    assert sorted(state.tensors) == ["gain", "seen", "steps", "table", "total"]
    for name, expected in counter.state.items():
        np.testing.assert_allclose(state.tensors[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_states_are_apart_and_begin_with_trained_values(counter: Stateful) -> None:
    model = counter.model
    first, second = model.state(), model.state()
    first.step([1, 2])
    assert second.tensors["total"].tolist() == [1, 2] and first.tensors["total"].tolist() != [1, 2]
    first.init()
    assert first.tensors["total"].tolist() == [1, 2] and int(first.tensors["steps"]) == 0


def test_a_variable_that_is_only_read_is_the_callers(counter: Stateful) -> None:
    state = counter.model.state()
    state.tensors["gain"][...] = 0
    # A sum below 1, so that nothing is halved; the loop takes (0 + 1 + 2) x away.
    assert state.step([0.25, 0.5])["total"].tolist() == [10 * (1 - 0.75), 10 * (2 - 1.5)]
    assert float(state.tensors["gain"]) == 0


def test_a_saved_state_goes_on_where_it_was(counter: Stateful) -> None:
    first = counter.model.state()
    for x in counter.inputs["x"][:7]:
        first.step(x)
    second = counter.model.state()
    second.restore(first.save())
    for x in counter.inputs["x"][7:12]:
        one, two = first.step(x), second.step(x)
        assert {name: array.tobytes() for name, array in one.items()} == {n: a.tobytes() for n, a in two.items()}


def test_other_bytes_are_no_state_and_change_nothing(counter: Stateful, built: Built) -> None:
    state = counter.model.state()
    state.step([1, 2])
    good, before = state.save(), {name: array.copy() for name, array in state.tensors.items()}
    foreign = {
        "no saved state": [b"", b"x" * len(good), good[:20]],
        "another model": [built("gru").model.state().save()],
        "bytes, it must have": [good[:-1], good + b"\0"],
        "checksum": [good[:40] + bytes([good[40] ^ 1]) + good[41:], good[:-1] + bytes([good[-1] ^ 1])],
        "version 2 of the format": [good[:8] + b"\2" + good[9:]],
    }
    for reason, contents in foreign.items():
        for content in contents:
            with pytest.raises(RunError, match=reason):
                state.restore(content)
    assert all((state.tensors[name] == values).all() for name, values in before.items())


def test_steps_with_other_inputs_fail_and_change_nothing(counter: Stateful) -> None:
    state = counter.model.state()
    wrong: list[tuple[list[Any], dict[str, Any]]] = [
        ([], {}),
        ([[1, 2], [3, 4]], {}),
        ([], {"x": [1, 2], "y": 1}),
        ([[1, 2, 3]], {}),
    ]
    for arrays, named in wrong:
        with pytest.raises(RunError, match="counter"):
            state.step(*arrays, **named)
    assert state.tensors["total"].tolist() == [1, 2]


def test_a_model_without_variables_has_no_state(dense_package: Stateful) -> None:
    with pytest.raises(RunError, match="has no state"):
        dense_package.model.state()


@pytest.fixture(scope="session")
def dense_package(built: Built) -> Stateful:
    """Gradients of a network, whose variables are constants."""
    return built("dense_sgd_inference", {}, serving_key="gradients")


@pytest.mark.parametrize("program", ["counter.cpp", "counter.c"])
def test_programs_carry_the_state_over(program: str, counter: Stateful, tmp_path: Path) -> None:
    compiler = ["g++", "-std=c++17"] if program.endswith(".cpp") else ["gcc", "-std=c99"]
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined"]
    libraries = [f"-L{counter.prefix}/lib", "-ltfaot-model-counter", f"-Wl,-rpath,{counter.prefix}/lib"]
    command: list[str | Path] = [
        *compiler,
        *strict,
        f"-I{counter.prefix}/include",
        HERE / "programs" / program,
        "-o",
        tmp_path / "run",
    ]
    subprocess.run([*command, *libraries], check=True, timeout=300)
    given = np.ascontiguousarray(counter.inputs["x"]).tobytes()
    done = subprocess.run([tmp_path / "run"], input=given, capture_output=True, timeout=60, check=True)
    *lines, saved = done.stdout.decode().splitlines()
    assert len(lines) == len(counter.inputs["x"]) and saved == "restored; foreign bytes refused"
    for step, line in enumerate(lines):
        expected = [*counter.outputs["total"][step], counter.outputs["steps"][step]]
        np.testing.assert_allclose([float(word) for word in line.split()], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.sweep("variables0-says0")
@pytest.mark.parametrize(
    "variables, says",
    [
        ({"update": ["total", "seen"]}, ["'steps' is changed by the signature", "'table' is changed by the signature"]),
        ({"update": ["*"], "read": ["gian"]}, ["'gian' is not a variable of the signature (did you mean 'gain'?)"]),
        ({"update": ["*", "gain"]}, ["'gain' is under update, but the signature never changes it"]),
    ],
)
def test_lists_that_do_not_fit_are_told_with_the_variables(
    variables: dict[str, list[str]], says: list[str], tfaot: CommandLine, saved: Callable[[str], Path], tmp_path: Path
) -> None:
    spec = write_spec(tmp_path / "spec.yaml", saved("counter"), compilation={"variables": variables})
    tfaot.fails("check", spec, code=12, says=says, hints="gain: float32[], read")


def test_without_a_list_the_error_names_it(tfaot: CommandLine, saved: Callable[[str], Path], tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "spec.yaml", saved("counter"))
    tfaot.fails("check", spec, code=12, says=["changes variables"], hints="variables: {update: ['*']}")


@pytest.mark.nightly
@pytest.mark.coverage
def test_state_of_every_type_is_tensorflows(
    tfaot: CommandLine, shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    """Values that all types hold exactly, so that they are equal; with C++, which saves and restores in each step."""
    models = saved_models(shared_home_folder, HERE / "kinds.py", toolchain_python)
    spec = write_spec(tmp_path / "spec.yaml", models / "kinds", compilation={"variables": {"update": ["*"]}})
    with verified("state: every type", version=DEFAULT_VERSION, engine="program"):
        tfaot.works("build", spec, "-o", tmp_path / "prefix")
        answers, state = np.load(models / "kinds.npz"), load(tmp_path / "prefix").state()
        for x in answers["x"]:
            state.step(x)
        assert len(state.tensors) == 15
        for name, values in state.tensors.items():
            np.testing.assert_array_equal(values, answers[name.removeprefix("v_")], err_msg=name)
    source, library = HERE / "programs" / "kinds.cpp", tmp_path / "prefix/lib/libtfaot-model-kinds.a"
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined"]
    command: list[str | Path] = [
        "g++",
        *strict,
        "-I",
        tmp_path / "prefix/include",
        source,
        library,
        "-o",
        tmp_path / "run",
    ]
    subprocess.run(command, check=True, timeout=300)
    done = subprocess.run([tmp_path / "run"], input=answers["x"].tobytes(), capture_output=True, timeout=60, check=True)
    assert done.stdout == state.save()


@pytest.mark.nightly
@pytest.mark.coverage
def test_steps_take_as_many_rows_as_calls_bring(
    tfaot: CommandLine, shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    """By a symbol, with C++ too, and by the batch axis, of which steps take the compiled sizes only."""
    models = saved_models(shared_home_folder, HERE / "open_axes.py", toolchain_python)
    answers, shapes = np.load(models / "gathered.npz"), {"x": ["n <= 16", 3]}
    steps = [answers[f"{number}/x"] for number in range(8)]

    def spec(name: str, sizes: list[int], **more: object) -> Path:
        model = {"name": "gathered", "version": "1.0.0", "saved_model": "gathered", **more}
        compilation = {"batch_sizes": sizes, "targets": ["x86-64-v3"], "variables": {"update": ["*"]}}
        return write_spec(tmp_path / name, models / "gathered", model=model, compilation=compilation)

    with verified("state: steps of any size", version=DEFAULT_VERSION, engine="program"):
        tfaot.works("build", spec("symbol.yaml", [1], shapes=shapes), "-o", tmp_path / "symbol")
        state = load(tmp_path / "symbol").state()
        for number, x in enumerate(steps):
            found = state.step(x)
            for name in ("rows", "mean"):
                np.testing.assert_allclose(found[name], answers[f"{number}/{name}"], rtol=1e-5, atol=1e-6, err_msg=name)
        for name in ("total", "count"):
            np.testing.assert_allclose(state.tensors[name], answers[name], rtol=1e-5)
    with pytest.raises(RunError):
        state.step(np.zeros((17, 3), np.float32))
    lines = _run(HERE / "programs" / "gathered.cpp", tmp_path / "symbol", steps)
    for number, line in enumerate(lines):
        expected = [*answers[f"{number}/mean"], *answers[f"{number}/rows"].ravel()]
        np.testing.assert_allclose([float(word) for word in line.split()], expected, rtol=1e-5, atol=1e-6)
    assert len(lines) == len(steps)

    adagrad = write_spec(tmp_path / "no.yaml", models / "adagrad", compilation={"variables": {"update": ["*"]}})
    tfaot.fails(
        "check", adagrad, code=12, says=["ResourceApplyAdagrad", "'weight'"], hints="known are reading and these"
    )
    tfaot.works("build", spec("batch.yaml", [1, 4]), "-o", tmp_path / "batch")
    state = load(tmp_path / "batch").state()
    assert len(state.step(steps[0])["rows"]) == 4 and len(state.step(steps[1])["rows"]) == 1
    total = np.concatenate([[[1.0, 2.0, 3.0]], steps[0], steps[1], steps[3]]).sum(0)
    np.testing.assert_allclose(state.step(steps[3])["mean"], total / 10, rtol=1e-5)
    with pytest.raises(RunError, match="16"):
        state.step(steps[2])


def _run(source: Path, prefix: Path, steps: list[np.ndarray]) -> list[str]:
    """The lines that a program prints, which reads the number of rows of each step and then these."""
    strict = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined"]
    library = prefix / "lib/libtfaot-model-gathered.a"
    command: list[str | Path] = ["g++", *strict, "-I", prefix / "include", source, library, "-o", prefix / "run"]
    subprocess.run(command, check=True, timeout=300)
    given = b"".join(np.uint64(len(each)).tobytes() + each.tobytes() for each in steps)
    done = subprocess.run([prefix / "run"], input=given, capture_output=True, timeout=60, check=True)
    return done.stdout.decode().splitlines()
