"""`inspect`: each form of a model, held to what other programs say of it."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.commands import run_command
from tests.compiler.test_text import renumbered
from tests.kept import REPOSITORY
from tfaot_pkg.compiler.passes.pipeline import PASSES, until
from tfaot_pkg.compiler.passes.pipeline import run as run_passes
from tfaot_pkg.compiler.text import parse, text_of
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.measure.inside.view import WHATS

DIGITS = REPOSITORY / "recipes" / "tfaot-model-digits" / "all"
SPEC = DIGITS / "spec.yaml"
PARSES = "import sys, tensorflow as tf; tf.mlir.experimental.run_pass_pipeline(sys.stdin.read(), 'canonicalize')"

slow = [pytest.mark.slow, pytest.mark.needs_tensorflow]


def inspected(*words: str | Path) -> dict[str, Any]:
    done = run_command(["inspect", *words, "--json"])
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def spec_of(folder: Path, *lines: str, engine: str = "auto") -> Path:
    """A spec of digits."""
    path = folder / "spec.yaml"
    path.write_text(
        "\n".join([
            "model: {name: digits, version: 1.0.0, saved_model: saved_model}",
            f"source: {{path: {DIGITS}}}",
            f"compilation: {{batch_sizes: [1, 4], targets: [x86-64-v3], engine: {engine}}}",
            *lines,
        ])
    )  # fmt: skip
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--what", "progam"], "--what: 'progam' is not one of signature, "),
        (["--what", "hlos"], "did you mean hlo?"),
        (["--what", "hlo", "--batch", "0"], "--batch"),
        (["--what", "asm", "--target", "x86-64-v9"], "--target"),
        (["--what", "cpp", "-o", "graph.svg"], "--output"),
        (["--what", "cpp", "--after", "simplify"], "--what"),
        (["--what", "program", "--after", "fold"], "there is no pass fold"),
    ],
)
def test_what_cannot_be_shown_is_an_error_of_usage(words: list[str], said: str) -> None:
    done = run_command(["inspect", SPEC, *words])
    assert done.returncode == 2 and said in " ".join(done.stderr.split())


def test_every_form_is_named_in_the_help() -> None:
    text = run_command(["inspect", "--help"]).stdout
    assert [form for form in WHATS if form not in text] == []


class TestForms:
    pytestmark = slow

    def test_the_signature_and_the_operations_are_the_models(self, shared_home: Path) -> None:
        signature = inspected(SPEC, "--what", "signature")["signature"]
        assert [tensor["shape"] for tensor in signature["inputs"]] == [[None, 64]]
        operations = {each["name"]: each["count"] for each in inspected(SPEC, "--what", "ops")["operations"]}
        assert (operations["Conv2D"], operations["MatMul"], operations["Softmax"]) == (1, 2, 1)

    def test_hlo_is_for_the_batch_size_that_is_asked_for(self, shared_home: Path) -> None:
        text = inspected(SPEC, "--what", "hlo", "--batch", "3")["text"]
        assert "f32[3,64]{1,0}, f32[256,64]{1,0}, f32[64,10]{1,0})->(s64[3]{0}, f32[3,10]{1,0})" in text
        assert len(re.findall(r" convolution\(", text)) == 1 and "source_file" not in text

    @pytest.mark.sweep(night=["stablehlo-2.17.1", "mlir-tf-2.21.0"])
    @pytest.mark.parametrize("version", ["2.17.1", "2.21.0"])
    @pytest.mark.parametrize("form", ["mlir-tf", "stablehlo"])
    def test_mlir_is_what_tensorflow_reads_again(self, shared_home: Path, form: str, version: str) -> None:
        text = inspected(SPEC, "--what", form, "--batch", "3", "--tensorflow", version)["text"]
        assert ("tf.Conv2D" if form == "mlir-tf" else "stablehlo.convolution") in text and "tensor<3x10xf32>" in text
        assert str(REPOSITORY) not in text and "site-packages" not in text
        folders = Folders(cache=shared_home / "cache", data=shared_home / "data")
        python = ensure(version, folders=folders, progress=Silent()).python
        run([python, "-I", "-c", PARSES], stdin=text.encode(), timeout=300)

    def test_the_program_and_its_code_have_the_models_layers(self, shared_home: Path, tmp_path: Path) -> None:
        lines = inspected(SPEC, "--what", "program")["operations"]
        assert sum(" = dense " in line for line in lines) == 2 and sum(" = softmax " in line for line in lines) == 1
        source = inspected(SPEC, "--what", "cpp")["source"]
        assert 'extern "C" void tfaot_program(' in source
        drawn = run_command(["inspect", SPEC, "--what", "program", "-o", tmp_path / "program.svg"])
        assert drawn.returncode == 0, drawn.stderr
        root = ET.parse(tmp_path / "program.svg").getroot()
        texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
        assert texts.count("dense") == 2 and "output 1" in texts

    def test_the_program_is_shown_after_each_pass(self, shared_home: Path, tmp_path: Path) -> None:
        def opcodes(*words: str) -> Counter[str]:
            lines = inspected(SPEC, "--what", "program", *words)["operations"]
            return Counter(found[1] for line in lines if (found := re.search(r" = ([\w-]+)", line)))

        assert opcodes("--after", "import").total() > opcodes("--after", "simplify").total()
        simple = opcodes("--after", "simplify")
        assert (simple["dense"], simple["dot"], simple["convolution"]) == (0, 2, 1)
        dense = opcodes("--after", "raise-dense")
        assert (dense["dense"], dense["dot"]) == (2, 0) and dense["add"] > opcodes()["add"]
        # What is shown with all constants is a program again, and the remaining passes give the same.
        done = run_command(["inspect", SPEC, "--what", "program", "--after", "raise-dense", "--constants"])
        whole = run_command(["inspect", SPEC, "--what", "program", "--constants"])
        rest = PASSES[len(until("raise-dense")) :]
        made = text_of(run_passes(parse(done.stdout), rest))
        assert renumbered(made) == renumbered(whole.stdout)

    def test_machine_code_calls_the_kernels_of_its_target(self, shared_home: Path) -> None:
        for target, unit in (("x86-64-v2", "%xmm"), ("x86-64-v3", "%ymm")):
            text = inspected(SPEC, "--what", "asm", "--target", target)["text"]
            assert f"tfaot_kernels::{target.replace('-', '_')}::" in text and unit in text and "\tret" in text
            assert ("%ymm" in text) is (target == "x86-64-v3")

    def test_memory_is_what_arrays_of_the_signature_take(self, shared_home: Path, tmp_path: Path) -> None:
        found = inspected(spec_of(tmp_path), "--what", "memory")
        # image: 64 float32; digit: int64; probability: 10 float32. Weights are float32 as well.
        assert [(row["arguments"], row["results"]) for row in found["batch_sizes"]] == [(256, 48), (1024, 192)]
        assert found["engine"] == "program" and found["batch_sizes"][0]["scratch"] == found["batch_sizes"][1]["scratch"]
        numbers = 3 * 3 * 16 + 16 + 256 * 64 + 64 + 2 * 64 + 64 * 10 + 10
        # They are aligned, and some are packed in the form in which the kernels read them.
        assert 4 * numbers <= found["weights"] <= 1.05 * 4 * numbers

    def test_memory_of_xlas_code_grows_with_the_batch(self, shared_home: Path, tmp_path: Path) -> None:
        found = inspected(spec_of(tmp_path, engine="xla"), "--what", "memory")
        first, second = (row["scratch"] for row in found["batch_sizes"])
        assert found["engine"] == "xla" and second > first > 0

    def test_xlas_code_has_instructions_and_no_program(self, shared_home: Path, tmp_path: Path) -> None:
        spec = spec_of(tmp_path, engine="xla")
        assert "tfaot_b4_run" in inspected(spec, "--what", "asm", "--batch", "4")["text"]
        done = run_command(["inspect", spec, "--what", "cpp", "--json"])
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["kind"]) == (12, "model") and "compilation.engine is xla" in error["message"]

    def test_sizes_add_up_to_what_binutils_count(
        self, shared_home: Path, tmp_path: Path, require_program: Callable[[str], str]
    ) -> None:
        found = inspected(SPEC, "--what", "sizes")
        assert found["static"]["kinds"].keys() >= {"weights", "kernel library", "program", "interface"}
        functions = found["static"]["functions"]
        assert any(each["name"].startswith("tfaot_kernels::x86_64_v3::sumBlocks<") for each in functions)
        rest = sum(size for kind, size in found["static"]["kinds"].items() if kind != "weights")
        assert sum(each["bytes"] for each in functions) == rest
        counted = [
            dict(re.findall(r"^(\.\S+)\s+(\d+)", run([require_program("size"), "-A", each]).stdout, re.MULTILINE))
            for each in Path(shared_home).glob("cache/builds/native/*/*/libtfaot-model-digits.so")
            if each.stat().st_size == found["shared"]["file"]
        ]  # fmt: skip
        shown = found["shared"]["sections"]
        # Several: sections are padded, so that libraries of other versions in the cache may have the same size.
        assert shown in [{name: int(sections.get(name, 0)) for name in shown} for sections in counted]

    def test_a_folder_of_a_saved_model_needs_no_spec(self, shared_home: Path, tmp_path: Path) -> None:
        model = shutil.copytree(DIGITS / "saved_model", tmp_path / "net")
        assert inspected(model, "--what", "memory")["model"] == "model"
