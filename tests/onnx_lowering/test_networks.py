"""Networks in ONNX files, lowered operator by operator, give ONNX Runtime's answers at several batch sizes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.onnx_lowering.graphs import answers_of, arrays_of, model_in, symbols_of, valid
from tfaot_pkg.analysis.program.hlo import read_program, read_samples
from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.analysis.program.ranges import ranges_of
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.listing import listing_of
from tfaot_pkg.compiler.passes import pipeline as passes
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.frontends.onnx_lowering.ends import signature_of

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]
_LEAST, _MOST = 4, 16
"""Of axes of any size."""

REFUSED = {
    "settings_as_inputs": "ReduceMean",  # its axes are an input, to which a spec gives a value
}
"""Networks with an operator that has no lowering."""
LAYERS = {
    "dense": {"dense": 2, "softmax": 1},
    "images_2d": {"conv2d": 2, "transposed_conv2d": 1},
    "residual_1d": {"conv2d": 6, "max_pool": 1, "dense": 1, "transpose": 1},
    "transformer": {"dense": 6, "dot": 2, "softmax": 1},
    "lstm_stack": {"dense": 5, "while": 2},
    "class_token": {"dot": 2, "softmax": 1},
}
"""What the compiler finds in a program: the layers that the file names."""


_BY_ROW = {"quantized_by_tools"}
"""Networks that find the ranges of their inputs in each call: ONNX Runtime answers row by row (decision 088)."""


def test_networks_give_onnx_runtimes_answers_before_and_after_all_passes(networks: Path) -> None:
    found, differences, layers = {}, {}, {}
    for folder in sorted(path.parent for path in networks.glob("*/graph.json")):
        model = model_in(folder)
        try:
            program = valid(model, symbols_of(model, _LEAST, _MOST))
        except Unsupported as error:
            found[folder.name] = str(error).partition(" ")[0]
            continue
        raised = passes.run(program)
        assert emit(raised, "network").source
        layers[folder.name] = [each.opcode for each in raised.entry.everything()]
        for rows in (1,) if folder.name in _BY_ROW else (1, 2, 5):
            inputs, theirs = arrays_of(folder / f"{rows}.npz")
            for which in (program, raised):
                ours = answers_of(which, model, inputs, rows)
                for key, wanted in theirs.items():
                    assert (ours[key].dtype, ours[key].shape) == (wanted.dtype, wanted.shape), folder.name
                    apart = np.abs(ours[key].astype(float) - wanted.astype(float)).max(initial=0)
                    differences[folder.name, rows] = apart / max(1.0, np.abs(wanted).max(initial=0))
    assert found == REFUSED
    assert len(layers) >= 20
    assert {name: apart for name, apart in differences.items() if not apart < 1e-6} == {}
    for name, counts in LAYERS.items():
        assert {opcode: layers[name].count(opcode) for opcode in counts} == counts, name


def test_a_file_that_tensorflow_cannot_express_is_shown_as_its_operators_say(
    networks: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    """A class token for each row: TensorFlow's static shapes do not see its sizes."""
    variables = {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    shown = run_command(
        ["inspect", str(networks / "class_token.onnx"), "--what", "lowered"], cwd=tmp_path, env=variables
    )
    assert shown.returncode == 0, shown.stderr
    assert "= softmax " in shown.stdout and "f32[batch,1,8] = broadcast" in shown.stdout
    unlike = run_command(
        ["inspect", str(networks / "files" / "settings_as_inputs.onnx"), "--what", "lowered"],
        cwd=tmp_path,
        env=variables,
    )
    assert unlike.returncode != 0 and "ReduceMean (node" in unlike.stderr


def test_rows_and_ranges_are_proved_with_programs_as_listings(networks: Path) -> None:
    """Programs without layers, listed as HLO, and read again: the same answers, and what analyses of HLO find."""
    facts, refused = {}, []
    for folder in sorted(path.parent for path in networks.glob("*/graph.json")):
        model = model_in(folder)
        symbols = symbols_of(model, _LEAST, _MOST)
        try:
            program = valid(model, symbols, layers=False)
            listing, signature = listing_of(program), signature_of(model, program)
        except Unsupported:
            refused.append(folder.name)
            continue
        found = import_program(read_program(listing.modules), len(model.inputs), [], read_samples(listing), symbols)
        inputs, theirs = arrays_of(folder / "2.npz")
        first, second = (answers_of(each, model, inputs, 2) for each in (program, found))
        for key, wanted in theirs.items():
            assert np.array_equal(first[key], second[key], equal_nan=True), folder.name
            assert folder.name in _BY_ROW or np.allclose(first[key], wanted, 1e-5, 1e-5), folder.name
        ranges = [str(each) for each in ranges_of(listing, signature)]
        facts[folder.name] = rows_of(listing, signature).independent, ranges
    assert sorted(refused) == sorted(REFUSED)
    # Regions of any image of the batch; a sum over all rows.
    dependent = ["images_sampled", "long_loops"]
    assert [name for name, (independent, _) in facts.items() if not independent] == dependent
    assert facts["embedded_words"][1] == ["0 to 2"]
    assert facts["graph_of_any_size"][1] == ["0 to nodes - 1"]
    assert len(facts) >= 25
