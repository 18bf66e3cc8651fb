"""Files of another form, and models that cannot become programs, are rejected with what is wrong, and where."""

from __future__ import annotations

import ast
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.aten_lowering.aten_files import ARTIFACTS, changed, lowered
from tfaot_pkg import export
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.program import Symbol, Unsupported
from tfaot_pkg.errors import ModelError
from tfaot_pkg.export.drawn_numbers import floats_of
from tfaot_pkg.frontends.aten_lowering.lowering import lower
from tfaot_pkg.frontends.frozen.aten_file import read_answers, read_classes, read_document, read_module
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.spec.rules import INPUT_CLASSES
from tfaot_pkg.verify.inputs import drawn

_LINEAR, _LATENTS = ARTIFACTS / "linear.aten", ARTIFACTS / "learned_latents.aten"
_BUCKETS = ARTIFACTS / "answered" / "buckets.aten"


def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_set("framework", to="Caffe"), "it is of 'Caffe'"),
        (_set("arrays", 0, "shape", to=[5, -8]), "an array of the shape [5, -8]"),
        (_set("arrays", 0, "shape", to=[5, 1 << 40]), "arrays/0 has 160 bytes, not"),
        (_set("arrays", 0, "dtype", to="object"), "the element type 'object'"),
        (_set("arrays", 0, "sha256", to="0" * 64), "arrays/0 has another digest"),
        (_set("weights", "p_weight", to=99), "there is no array 99"),
        (_set("outputs", 0, "value", to="nothing"), "the output 'output' is computed nowhere"),
        (_set("nodes", 0, "name", to="p_weight"), "two values are called p_weight"),
        (_set("nodes", 0, "name", to="../x"), "'../x' is no name of a value"),
        (_set("nodes", 0, "op", to="aten.x; rm"), "'aten.x; rm' is no name of an operator"),
        (_set("nodes", 0, "arguments", "input", to={"value": "later"}), "linear reads 'later'"),
        (_set("nodes", 0, "arguments", "input", to={"pickle": "gASV"}), "the argument {'pickle': 'gASV'}"),
        (_set("nodes", 0, "arguments", "input", to=[[[[[[[]]]]]]]), "the argument [[[]]]"),
        (_set("nodes", 0, "results", 0, to={"dtype": "float32"}), "the type {'dtype': 'float32'}"),
        (_set("inputs", 0, "axes", to=["rows", 8]), "the input 'input' has an axis of 'rows' elements"),
        (_set("symbols", "batch", to=[3, 2]), "the symbol batch is between 3 and 2"),
        (_set("answers", to={"in/input": 0}), "its answers are of other inputs and outputs"),
        (_set("nodes", to=[{"name": 1}]), "$.nodes[0]"),
    ],
)
def test_a_damaged_document_is_rejected(change: Callable[[Any], None], why: str, tmp_path: Path) -> None:
    path = changed(_LINEAR, tmp_path / "model.aten", change)
    with pytest.raises(ModelError, match=re.escape(why)) as failed:
        read_answers(path) if "answers" in why else read_module(path)
    assert str(path) in str(failed.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_set("classes", 0, "name", to="../main"), "'../main' is no class of inputs"),
        (_set("classes", 0, "sizes", to={"n": 3}), "the class 'main' are of other symbols or inputs"),
        (_set("classes", 0, "inputs", to={}), "the class 'main' are of other symbols or inputs"),
        (_set("classes", 0, "inputs", "x", to=9999), "there is no array 9999"),
        (_set("arrays", 20, "shape", to=[]), "the class 'main' are to 'x' of another type"),
        (_set("classes", 0, "runs", 0, "rows", to=0), "the class 'main' are to batches of 0 rows"),
        (_set("classes", 0, "runs", 0, "rows", to=2), "the class 'main' are of other batches"),
        (_set("classes", 0, "runs", 0, "rows", to=1 << 40), f"the class 'main' are to batches of {1 << 40} rows"),
        (_set("classes", 0, "runs", 0, "outputs", to={"nothing": 0}), "the class 'main' are of other outputs"),
        (_set("classes", 0, "runs", 0, "beside", to={"spread/nothing": 0}), "the class 'main' are of other outputs"),
        (_set("classes", 0, "runs", 0, "ran", to=0), "the class 'main' are of other batches"),
    ],
)
def test_stored_answers_that_do_not_fit_the_document_are_rejected(
    change: Callable[[Any], None], why: str, tmp_path: Path
) -> None:
    path = changed(_BUCKETS, tmp_path / "model.aten", change)
    with pytest.raises(ModelError, match=re.escape(why)) as failed:
        read_classes(path)
    assert str(path) in str(failed.value)


def test_members_that_say_more_than_they_have_are_rejected(tmp_path: Path) -> None:
    packed = changed(_LINEAR, tmp_path / "packed.aten", lambda _: None, compression=zipfile.ZIP_LZMA)
    with pytest.raises(ModelError, match="its members are compressed in another way"):
        read_module(packed)
    bomb = changed(_LINEAR, tmp_path / "bomb.aten", lambda _: None, compression=zipfile.ZIP_DEFLATED)
    content = bytearray(bomb.read_bytes())
    # The uncompressed size in the first header of the list of members.
    struct.pack_into("<I", content, content.index(b"PK\1\2") + 24, (1 << 30) + 1)
    bomb.write_bytes(content)
    with pytest.raises(ModelError, match="its compressed members have more than 1024 MB"):
        read_module(bomb)
    twice = changed(_LINEAR, tmp_path / "twice.aten", lambda _: None)
    with zipfile.ZipFile(twice, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("arrays/0", b"")
    with pytest.raises(ModelError, match="a member occurs twice"):
        read_module(twice)


def test_a_cut_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "cut.aten"
    path.write_bytes(_LINEAR.read_bytes()[:-40])
    with pytest.raises(ModelError, match="is damaged"):
        read_module(path)


def test_types_are_inferred_and_not_believed(tmp_path: Path) -> None:
    path = changed(_LINEAR, tmp_path / "lying.aten", _set("nodes", 0, "results", 0, "shape", 1, to=6))
    with pytest.raises(Unsupported, match=r"its result is f32\[batch, 5\], and the file says f32\[batch, 6\]"):
        lowered(read_module(path))


def test_conditions_on_sizes_may_be_combined(tmp_path: Path) -> None:
    """PyTorch 2.8 asserts such ones; some depend on the batch."""

    def node(name: str, op: str, *arguments: object) -> dict[str, object]:
        given = dict(zip("01", arguments, strict=False)) if op.startswith(("operator", "torch")) else arguments[0]
        return {"name": name, "op": op, "arguments": given, "results": [None], "module": "", "line": ""}

    def change(document: Any) -> None:
        size, few, some = ({"value": name} for name in ("size", "few", "some"))
        document["nodes"] += [
            node("size", "aten.sym_size.int", {"self": {"value": document["inputs"][0]["value"]}, "dim": 0}),
            node("few", "operator.le", size, 5),
            node("some", "operator.ge", size, 1),
            node("either", "operator.or_", few, some),
            node("both", "operator.and_", few, some),
            node("none", "torch.sym_not", some),
            node("asserted", "aten._assert_scalar.default", {"self": {"value": "either"}, "assert_msg": "size"}),
        ]

    program = lowered(read_module(changed(_LINEAR, tmp_path / "conditions.aten", change)))
    plain = lowered(read_module(_LINEAR))
    assert [each.opcode for each in program.entry.operations] == [each.opcode for each in plain.entry.operations]


@pytest.mark.parametrize(
    ("op", "why"),
    [
        ("aten.no_such.default", "this operator has no lowering to a program: write it with others"),
        ("aten.rand_like.default", "its results are random, and those of a package are not"),
        ("aten.nonzero.default", "the number of its results depends on the values of the model's inputs"),
        ("aten.lstm.data", "packed sequences"),
    ],
)
def test_an_operator_without_lowering_is_named_with_its_place(op: str, why: str, tmp_path: Path) -> None:
    def change(document: Any) -> None:
        document["nodes"][0] |= {"op": op, "module": "encoder.0", "line": "taggers.py:31: x = self.f(x)"}

    with pytest.raises(Unsupported) as failed:
        lowered(read_module(changed(_LINEAR, tmp_path / "other.aten", change)))
    assert str(failed.value).startswith(f"{op} (in encoder.0, taggers.py:31: x = self.f(x)): {why}")


@pytest.mark.parametrize(
    ("name", "op", "arguments", "why"),
    [
        ("pooling", "adaptive_avg_pool2d", {"output_size": [1 << 40, 3]}, "1099511627776 parts of unequal size"),
        ("pooling", "adaptive_max_pool2d", {"output_size": [3, 0]}, "0 parts of unequal size"),
        ("halves_and_quarters", "arange", {"step": 0.3}, "its number of elements is no polynomial"),
        ("bags_of_any_length", "embedding_bag", {"per_sample_weights": 1.0}, "new axes [1] of an array of 0 axes"),
    ],
)
def test_numbers_that_no_array_has_are_rejected(
    name: str, op: str, arguments: dict[str, object], why: str, tmp_path: Path
) -> None:
    def change(document: Any) -> None:
        node = next(each for each in document["nodes"] if f".{op}" in each["op"])
        node["arguments"] |= arguments

    with pytest.raises(Unsupported, match=re.escape(why)):
        lowered(read_module(changed(ARTIFACTS / f"{name}.aten", tmp_path / "other.aten", change)))


@pytest.mark.parametrize("argument", [{"other": "inf"}, {"number": "nan"}, [1, [2]], "text", 1 << 70, None])
def test_arguments_of_another_kind_are_rejected(argument: object, tmp_path: Path) -> None:
    path = changed(_LINEAR, tmp_path / "other.aten", _set("nodes", 0, "arguments", "weight", to=argument))
    with pytest.raises(Unsupported, match=r"^aten\.linear\.default \("):
        lowered(read_module(path))


@pytest.mark.parametrize("name", ["main", *(each for each in INPUT_CLASSES if each not in ("integers", "branches"))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_helper_draws_classes_as_the_verification_does(name: str, dtype: str) -> None:
    """It travels alone, so it has the rules of verify/inputs.py a second time."""
    tensor = Tensor(name="x", dtype=DType(dtype), shape=(None, 5))
    wanted = drawn(name, Signature(inputs=(tensor,), outputs=()), seed=3, rows=40)["x"]
    found = floats_of(name, np.random.default_rng([3, *name.encode()]), [40, 5], np.dtype(dtype))
    assert found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()


def test_the_helper_measures_distances_as_workers_do() -> None:
    """It runs beside the author's PyTorch and they beside TensorFlow, in folders of their own: neither has the other."""
    folder = Path(export.__file__).parents[1]
    twins = ((folder / "export" / "evidence.py", "_distance"), (folder / "worker_program" / "reference.py", "distance"))
    bodies = []
    for path, name in twins:
        (found,) = (each for each in ast.parse(path.read_text()).body if getattr(each, "name", "") == name)
        assert isinstance(found, ast.FunctionDef)
        bodies.append(ast.unparse(ast.Module(found.body, [])))
    assert bodies[0] == bodies[1]


def test_sizes_beyond_those_of_the_export_are_rejected() -> None:
    """PyTorch has checked the model for these alone."""
    module = read_module(_LATENTS)
    lower(module, [Symbol("n", 20, 4)])
    with pytest.raises(Unsupported, match=r"exported for 2<=n<=32: change model.shapes"):
        lower(module, [Symbol("n", 64, 2)])


@pytest.mark.parametrize("name", ["boundary", "subnormal"])
@pytest.mark.parametrize(
    ("file", "sizes", "output"),
    [
        ("neighbours", {"n": 9}, "places"),
        ("places_of_equal_numbers", {}, "third"),
        ("places_of_equal_numbers", {}, "median"),
    ],
)
def test_stored_answers_have_both_orders_of_equal_elements(
    file: str, sizes: dict[str, int], output: str, name: str
) -> None:
    """PyTorch documents none; a program takes the first one first. Distances and numbers below 1e-19 are equal."""
    path = ARTIFACTS / "answered" / f"{file}.aten"
    program, outputs = lowered(read_module(path)), read_document(path).outputs
    (found,) = (each for each in read_classes(path) if each.name == name and each.sizes == sizes)
    whole = max(found.runs, key=lambda run: run.rows)
    ours = interpret.run(program, whole.rows, [found.inputs["x"]], found.sizes)
    places = ours[[each.name for each in outputs].index(output)]
    low, high = (whole.beside[f"{end}/{output}"][0] for end in ("low", "high"))
    assert (low != high).any()
    assert ((low <= places) & (places <= high)).all()
