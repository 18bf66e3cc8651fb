"""`tfaot-pkg run`: answers of a package to rows in files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.samples import Published, Sample
from tests.wording import reported
from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.pipeline.trial import Answers
from tfaot_pkg.runtime.tables import answers_csv, answers_text, parse_rows, read_rows

POINT = Tensor(name="p", dtype=DType.FLOAT32, shape=(None, 2))
COUNT = Tensor(name="n", dtype=DType.INT32, shape=(None,))
TWO = Signature(inputs=(POINT, COUNT), outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2)),))


def _csv(text: str, signature: Signature = TWO) -> dict[str, object]:
    return {name: values.tolist() for name, values in parse_rows(text, signature, is_json=False).arrays.items()}


def test_columns_are_found_by_their_names_in_any_order() -> None:
    expected = {"p": [[1.5, 2.0], [3.0, 4.0]], "n": [7, 8]}
    assert _csv("n,p[1],p[0]\n7,2,1.5\n8,4,3\n") == expected
    assert _csv("p_0, p.1 ,n\r\n1.5,2,7\r\n\r\n3,4,8.0\r\n") == expected
    assert _csv("1.5,2,7\n3,4,8") == expected


def test_columns_that_the_model_does_not_take_are_named() -> None:
    found = parse_rows("label,p[0],p[1],n\n9,1,2,3\n", TWO, is_json=False)
    assert (found.unused, found.arrays["p"].tolist()) == (("label",), [[1.0, 2.0]])


def test_a_table_of_names_alone_has_no_rows() -> None:
    found = parse_rows("p[0],p[1],n\n", TWO, is_json=False).arrays
    assert (found["p"].shape, found["n"].shape) == ((0, 2), (0,))


def test_special_numbers_are_numbers() -> None:
    ((first, second),) = parse_rows("nan,-inf,1", TWO, is_json=False).arrays["p"]
    assert (np.isnan(first), second) == (True, -np.inf)


@pytest.mark.parametrize(
    "text",
    ["", "1,2\n", "p[0],n\n1,2\n", "1,2,3\n1,2\n", "1,2,x\n4,5,6\n", "1,2,3.5\n", "p[0],p_0,p[1],n\n1,1,2,3\n", "1,2,1e400"],
    ids=["empty", "few", "a missing column", "uneven", "a word", "no integer", "twice", "too large"],
)  # fmt: skip
def test_what_is_no_table_of_the_models_rows_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with reported(RunError):
        read_rows(file, TWO)


def test_rows_without_a_fixed_length_are_not_a_table(tmp_path: Path) -> None:
    ragged = Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 5), axes=("", "k"))
    signature = Signature(inputs=(ragged,), outputs=(), symbols=(Symbol(name="k", minimum=1, maximum=5),))
    (tmp_path / "rows.csv").write_text("1,2\n")
    with reported(RunError):
        read_rows(tmp_path / "rows.csv", signature)
    (tmp_path / "rows.json").write_text("[[1, 2]]")
    assert read_rows(tmp_path / "rows.json", signature).arrays["x"].tolist() == [[1.0, 2.0]]


def test_what_is_no_number_of_json_is_a_text_there(tmp_path: Path) -> None:
    values = np.array([[np.nan, np.inf], [-np.inf, 0.5]], np.float32)
    answers = Answers(
        name="m", version="1", target="t", signature=TWO, rows=2, outputs={"p": values, "z": np.array([1 - 2j])}
    )
    document = json.loads(json.dumps(answers.as_dict(), allow_nan=False))["outputs"]
    assert document == {"p": [["NaN", "Infinity"], ["-Infinity", 0.5]], "z": [[1.0, -2.0]]}
    (tmp_path / "rows.json").write_text(json.dumps({"p": document["p"], "n": [0, 0]}))
    np.testing.assert_array_equal(read_rows(tmp_path / "rows.json", TWO).arrays["p"], values)


def test_json_and_numpy_files(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('{"p": [[1, 2]], "n": [3]}')
    np.savez(tmp_path / "rows.npz", p=[[1.0, 2.0]], n=[3])
    for name in ("rows.json", "rows.npz"):
        found = read_rows(tmp_path / name, TWO).arrays
        assert {key: values.tolist() for key, values in found.items()} == {"p": [[1.0, 2.0]], "n": [3]}


@pytest.mark.parametrize("write", [lambda f: f.write_bytes(b"PK"), lambda f: np.savez(f, p=np.array([{}]))], ids=["cut", "pickle"])  # fmt: skip
def test_a_numpy_file_that_cannot_be_read_is_refused(write: Callable[[Path], object], tmp_path: Path) -> None:
    write(tmp_path / "rows.npz")
    with pytest.raises(RunError):
        read_rows(tmp_path / "rows.npz", TWO)


def test_a_deep_document_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("[" * 100_000)
    with pytest.raises(RunError):
        read_rows(tmp_path / "rows.json", TWO)


def test_answers_of_many_rows_are_shortened_for_people_alone() -> None:
    values = {"y": np.arange(200, dtype=np.float32).reshape(100, 2)}
    text = answers_text(values, TWO)
    assert "row 0\n" in text and "row 99\n" in text and "91 more rows" in text and "row 50" not in text
    table = list(csv.reader(io.StringIO(answers_csv(values, TWO))))
    assert (table[0], len(table), table[-1]) == (["y[0]", "y[1]"], 101, ["198.0", "199.0"])


def test_rows_are_named_once() -> None:
    done = run_command(["run", "digits", "rows.csv", "--input", "rows.csv"])
    assert done.returncode == 2 and "name the rows once: as ROWS or with --input" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("shared_home")
class TestOfThePublishedSample:
    def test_its_answers_are_those_of_the_framework(
        self, published: Published, samples: dict[str, Sample], tmp_path: Path
    ) -> None:
        digits = samples["digits"]
        (values,) = digits.inputs.values()
        rows = np.asarray(values[:20])
        np.savetxt(tmp_path / "rows.csv", rows.reshape(20, -1), delimiter=",")
        done = run_command(
            [
                "run",
                "digits",
                "--input",
                tmp_path / "rows.csv",
                "--registry",
                published.registry,
                "--json",
                "-o",
                tmp_path / "a.npz",
            ]
        )
        assert done.returncode == 0, done.stderr
        answers = json.loads(done.stdout)["outputs"]
        with np.load(tmp_path / "a.npz") as written:
            for key, expected in digits.answers.items():
                np.testing.assert_allclose(np.array(answers[key]), expected[:20], rtol=1e-4, atol=1e-6)
                np.testing.assert_allclose(written[key], expected[:20], rtol=1e-4, atol=1e-6)
