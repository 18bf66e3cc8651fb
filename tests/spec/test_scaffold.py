from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfaot_pkg.ground.signature import DType, Signature, Symbol, Tensor
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.scaffold import DEFAULT_BATCH_SIZES, cpp_call, scaffold
from tfaot_pkg.spec.types import Compilation, FolderSource, GraphFile, ModelInfo, SavedModelFiles, Validation

SIGNATURE = Signature(
    inputs=(Tensor(name="pixels", dtype=DType.FLOAT32, shape=(None, 8, 8)),),
    outputs=(Tensor(name="digit", dtype=DType.INT64, shape=(None,)),),
)


def test_the_first_spec_is_accepted_and_has_the_defaults() -> None:
    text = scaffold(
        model=ModelInfo(
            name="digits", version="1.0", files=SavedModelFiles(path="./saved_model"), shapes={"pixels": (None, 8, 8)}
        ),
        signature=SIGNATURE,
        other_keys=["train", "call"],
    )
    assert "pixels: float32[N, 8, 8]" in text
    assert 'the SavedModel also has "call", "train"' in text
    spec = parse_spec(text.encode(), Path("/m/spec.yaml"))
    assert (spec.model.name, spec.model.version, spec.model.files.path) == ("digits", "1.0", "saved_model")
    assert spec.model.shapes == {"pixels": (None, 8, 8)}
    assert spec.source == FolderSource(path=Path("/m"))
    assert spec.compilation == Compilation(batch_sizes=DEFAULT_BATCH_SIZES)
    assert spec.validation == Validation()


def test_a_first_spec_of_a_graph_names_its_config_and_checkpoint() -> None:
    model = ModelInfo(
        name="digits", version="1.0", files=GraphFile(path="g.pb", config="g.config.pbtxt", checkpoint="./model.ckpt-7")
    )
    spec = parse_spec(scaffold(model=model, signature=SIGNATURE).encode(), Path("/m/spec.yaml"))
    assert spec.model.files == GraphFile(path="g.pb", config="g.config.pbtxt", checkpoint="model.ckpt-7")
    text = scaffold(model=model, signature=SIGNATURE, unknown_ranks=["a", "b c"])
    assert '# shapes: {a: [null, SIZE], "b c": [null, SIZE]}' in text


def test_the_call_in_cpp_is_shown_if_lengths_of_inputs_determine_all_sizes() -> None:
    symbols = tuple(Symbol(name=name, minimum=1, maximum=9) for name in ("n", "m"))
    model = ModelInfo(name="pairs", version="1.0", files=SavedModelFiles(path="m"), symbols=symbols)
    one, both, twice = (
        Tensor(name=name, dtype=DType.FLOAT32, shape=(None, 9, 9), axes=("", *axes))
        for name, axes in (("one", ("n", "")), ("both", ("m", "n")), ("twice", ("n", "n")))
    )
    shown = cpp_call(model, Signature(inputs=(both, one), outputs=(one,)))
    assert shown.splitlines()[1] == "const auto results = model.run(rows, {both, one});  // results.one"
    of_a_graph = replace(one, shape=(9, 9, 9))
    assert "run(1, {one})" in cpp_call(
        replace(model, symbols=()), Signature(inputs=(of_a_graph,), outputs=(of_a_graph,))
    )
    for inputs in ((both,), (one,), (both, twice)):
        assert cpp_call(model, Signature(inputs=inputs, outputs=(one,))) == ""


ODD = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20).filter(str.strip)


@pytest.mark.slow
@given(key=ODD | st.sampled_from(["{{ x }}", "{% y %}", "no", "1.0", "# x", "a: b"]), tensor=st.text(max_size=10))
def test_odd_names_of_a_model_are_written_so_that_they_are_read_back(key: str, tensor: str) -> None:
    signature = Signature(inputs=(Tensor(name=tensor, dtype=DType.BOOL, shape=(None,)),), outputs=())
    model = ModelInfo(name="m", version="1.0", files=SavedModelFiles(path="sm", serving_key=key))
    text = scaffold(model=model, signature=signature, other_keys=[tensor, key])
    assert parse_spec(text.encode(), Path("spec.yaml")).model.serving_key == key
