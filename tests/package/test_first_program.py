"""`sample` and `new-app`: what a newcomer starts from. The whole way is tests/test_tutorial.py, at night."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.package.conftest import SIGNATURE, WARNINGS, build_fake_libraries, make_contents, make_spec, write_tree
from tests.wording import reported
from tfaot_pkg.errors import PrefixError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.package.example import Example, example_of, example_sizes
from tfaot_pkg.package.first_program import first_program
from tfaot_pkg.package.prefix.install import install_built
from tfaot_pkg.package.tree import info_document

X = np.array([[1, 2.5, 3e-9], [4, 5, 6], [7, 8, 9], [0.1, 0, 0]], np.float32)
BIAS = np.array([0.5, -1, 0], np.float32)


@pytest.mark.slow
def test_the_program_prints_the_frameworks_answers_beside_its_own(tmp_path: Path) -> None:
    """The model is y = 2 x + bias; a changed document is not read, a folder is not replaced."""
    y = 2 * X + BIAS
    answers = {"2/y": y, "2/label": y.argmax(axis=1)}
    example = example_of(SIGNATURE, (2, 4), independent=True, inputs={"x": X, "bias-in": BIAS}, answers=answers)
    build_fake_libraries(tmp_path, "affine", slope=2)
    contents = replace(
        make_contents(make_spec(), libraries=tmp_path),
        validation={"reference": "tensorflow 2.17.1", "example": plain(example)},
    )
    prefix, app = tmp_path / "prefix", tmp_path / "affine-app"
    install_built(write_tree(contents, tmp_path / "tree"), "0" * 64, prefix)
    made = run_command(["new-app", "affine", "--prefix", "prefix"], cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert '"../prefix"' in (app / "CMakeLists.txt").read_text()
    library = prefix / "lib" / "libtfaot-model-affine.a"
    flags = ["-std=c++17", *WARNINGS, f"-I{prefix / 'include'}"]
    run(["g++", *flags, app / "main.cpp", library, "-o", tmp_path / "program"], timeout=100)
    assert run([tmp_path / "program"]).stdout.splitlines() == [
        "label[0]  1  (expected: 1)",
        "y[0]  2.5  (expected: 2.5)",
        "y[1]  4  (expected: 4)",
        "y[2]  6e-09  (expected: 6e-09)",
    ]
    again = run_command(["new-app", "affine", "--prefix", "prefix"], cwd=tmp_path)
    assert again.returncode == 20 and "exists already" in again.stderr
    report = prefix / "share" / "tfaot-model-affine" / "validation.json"
    report.write_text(report.read_text().replace("2.17.1", "2.17.2"))
    changed = run_command(["new-app", "affine", "other", "--prefix", "prefix"], cwd=tmp_path)
    assert changed.returncode == 22 and not (tmp_path / "other").exists()
    missing = run_command(["new-app", "steep", "--prefix", "prefix", "--json"], cwd=tmp_path)
    assert json.loads(missing.stdout or missing.stderr)["error"]["kind"] == "prefix"


_KINDS = tuple(DType)


def test_a_model_without_an_example_gets_a_program_on_zeros(tmp_path: Path) -> None:
    """Of every element type; examples have finite numbers of plain types, not too many of them."""
    every = tuple(Tensor(name=f"in/{kind.value}", dtype=kind, shape=(None, 2)) for kind in _KINDS)
    given = {tensor.name: np.zeros((2, 2), "float32") for tensor in every}
    assert example_of(Signature(inputs=every, outputs=()), (1,), independent=True, inputs=given, answers={}) is None
    one = Signature(inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 3)),), outputs=())
    assert example_of(one, (1,), independent=True, inputs={"x": np.full_like(X, np.inf)}, answers={}) is None
    wide = np.zeros((1, 5000), np.float32)
    assert example_of(one, (1,), independent=True, inputs={"x": wide}, answers={}) is None
    signature = Signature(inputs=every, outputs=tuple(replace(each, name=f"out_{each.name}") for each in every))
    contents = make_contents(make_spec("kinds"), signature=signature)
    write_tree(replace(contents, static_library=Path(__file__), shared_library=Path(__file__)), tmp_path)
    main = first_program(info_document(contents), signature, None, reference="tensorflow 2.17.1")
    (tmp_path / "main.cpp").write_text(main)
    run(
        ["g++", "-std=c++17", "-fsyntax-only", *WARNINGS, "-I", tmp_path / "include", tmp_path / "main.cpp"],
        timeout=100,
    )


def test_a_model_with_variable_sizes_is_called_at_small_ones(tmp_path: Path) -> None:
    """With answers of the validation, and on zeros; not if the lengths of the inputs do not say the sizes."""
    symbols = (Symbol(name="n", minimum=3, maximum=8), Symbol(name="m", minimum=2, maximum=2))
    x = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 8, 2), axes=("", "n", ""))
    pairs = Tensor(name="pairs", dtype=DType.FLOAT32, shape=(None, 8, 2), axes=("", "n", "m"))
    signature = Signature(inputs=(x, pairs), outputs=(replace(x, name="y"),), symbols=symbols)
    sizes = example_sizes(signature)
    assert sizes == {"n": 4, "m": 2}
    given = {"x": np.ones((4, 4, 2), "float32"), "pairs": np.ones((4, 4, 2), "float32")}
    answers = {"2/y": np.arange(16, dtype="float32").reshape(2, 4, 2)}
    example = example_of(signature, (2, 4), independent=True, inputs=given, answers=answers, sizes=sizes)
    assert example is not None and tuple(example.outputs["y"]) == (0, 1, 2, 3, 4, 5, 6, 7)
    contents = make_contents(make_spec("sized"), signature=signature)
    write_tree(replace(contents, static_library=Path(__file__), shared_library=Path(__file__)), tmp_path)
    for known, expected in ((example, "expected_y"), (None, "std::array<float, 8> x{}")):
        main = first_program(info_document(contents), signature, known, reference="tensorflow 2.17.1")
        assert expected in main and "n = 4, m = 2" in main
        (tmp_path / "main.cpp").write_text(main)
        run(
            ["g++", "-std=c++17", "-fsyntax-only", *WARNINGS, "-I", tmp_path / "include", tmp_path / "main.cpp"],
            timeout=100,
        )
    unsaid = replace(signature, inputs=(pairs,))
    assert example_sizes(unsaid) is None
    with reported(PrefixError):
        first_program(info_document(make_contents()), unsaid, None, reference="")


_CODE = 'n\n  static int own = system("id"); // \\\n*/ ") ??/'


def test_documents_of_a_hostile_package_cannot_become_code(tmp_path: Path) -> None:
    """What its info.json and its report say stands in comments and strings only, or there is no program."""
    info = {**info_document(make_contents()), "name": _CODE, "version": _CODE}
    given = {"x": (1.0, 2.0, 3.0), "bias-in": (0.5, -1.0, 0.0)}
    example = Example(rows=1, inputs=given, outputs={"y": (1.0, 2.0, 3.0), "label": (1,)})
    lines = first_program(info, SIGNATURE, example, reference=_CODE).splitlines()
    assert [line for line in lines if "system" in line and not line.startswith("//")] == []
    with reported(PrefixError):
        first_program(info, SIGNATURE, replace(example, sizes={_CODE: 3}), reference="")
    with reported(PrefixError):
        first_program({**info, "cpp": {"class": _CODE}}, SIGNATURE, example, reference="")


@pytest.mark.parametrize("name", ["", "1", "a b", "a\n", "n; int m", "n\u00f6", "n" * 65, _CODE])
def test_a_size_has_a_name_that_is_one(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a size"):
        Symbol(name=name, minimum=1, maximum=2)


@pytest.mark.parametrize(("name", "file"), [("wine", "data/held-out.csv"), ("in-tree", "model/spec.yaml")])
def test_samples_are_written_once_and_name_nothing_of_the_repository(name: str, file: str, tmp_path: Path) -> None:
    assert name in run_command(["sample"], cwd=tmp_path).stdout.split()
    assert run_command(["sample", name], cwd=tmp_path).returncode == 0
    texts = [each.read_text() for each in (tmp_path / name).rglob("*") if each.suffix in (".yaml", ".txt", ".md")]
    assert (tmp_path / name / file).is_file() and not any("recipes/" in text for text in texts)
    again = run_command(["sample", name], cwd=tmp_path)
    assert again.returncode == 20 and "exists already" in again.stderr
    unknown = run_command(["sample", f"{name}s"], cwd=tmp_path)
    assert unknown.returncode == 11 and name in unknown.stderr
