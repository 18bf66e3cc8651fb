"""`tfaot_pkg.compile`: live objects of real frameworks become verified, loaded models."""

from __future__ import annotations

import json
import pydoc
import time
from pathlib import Path

import numpy as np
import pytest

import tfaot_pkg
from tests.kept import REPOSITORY
from tests.live.conftest import Run, environment, frontend_python
from tests.samples import Sample
from tfaot_pkg.frontends.toolchain.definition import NEWEST_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

TAGGER = REPOSITORY / "examples" / "from-onnx" / "tagger.onnx"
KERNEL = ("ipykernel==7.4.0", "nbclient==0.11.0", "numpy==2.4.6")
JAX = ("jax==0.10.2", "numpy==2.4.6", "flax", "equinox", "flatbuffers")
CATBOOST = ("catboost==1.2.10", "numpy==2.4.6", "pandas==3.1.1")
FRAMES = ("jax==0.10.2", "numpy==2.4.6", "pandas==3.1.1", "polars")
pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]


@pytest.mark.nightly
def test_forests_and_boosters_answer_as_their_libraries(shared_home_folder: Path, run_program: Run) -> None:
    found = run_program(frontend_python(shared_home_folder, "trees"), "trees")
    assert {each["validated"] for each in found.values()} == {"scikit-learn 1.9.1", "XGBoost 3.2.0", "LightGBM 4.7.0"}
    for name, each in found.items():
        assert each["off"] < 1e-6, name
        assert each["same"] and each["again"] < 0.3
        assert each["name"] == name
        assert each["verdict"].startswith(f"tfaot-model-{name.replace('_', '-')} 1.0.0: verified against ")


@pytest.mark.nightly
def test_pipelines_take_frames_and_arrays(shared_home_folder: Path, run_program: Run) -> None:
    found = run_program(frontend_python(shared_home_folder, "trees"), "pipelines")
    assert found["linear"] < 1e-14 and found["trees"]
    assert found["xgboost"] < 1e-6 and found["lightgbm"] and found["same"]
    assert found["voting"] < 1e-7 and found["shaped"] < 1e-13
    assert found["unfitted"] == "the Pipeline was not fitted"
    assert all("verified against scikit-learn 1.9.1" in each for each in found["verdicts"])


@pytest.mark.release
def test_models_of_catboost_are_compared_with_its_own_answers(shared_home_folder: Path, run_program: Run) -> None:
    found = run_program(environment(shared_home_folder, *CATBOOST), "catboost_objects")
    assert found["off"].keys() == {"two", "three", "texts", "numbers"} and max(found["off"].values()) < 2e-6
    for name, report in found["reports"].items():
        assert "verified against ONNX Runtime" in report[0], name
        assert report[-1].startswith("CatBoost 1.2.10's own answers to 256 rows at its thresholds: at most "), name
    for name in ("categories", "truths"):
        assert found["errors"][name][0].startswith("CatBoost cannot write this model as ONNX: ")
        assert "labels that are integers or texts" in found["errors"][name][1]
    # CatBoost's file has the sums, and its own call their exponentials.
    why, hint = found["errors"]["counts"]
    assert why.startswith("predictions of the package differs from the answers of CatBoost 1.2.10 itself, in ")
    assert "another objective" in hint


def test_a_model_proto_and_a_path_are_compiled_saved_and_published(
    shared_home_folder: Path, run_program: Run, tmp_path: Path
) -> None:
    found = run_program(frontend_python(shared_home_folder, "onnx"), "onnx_objects", str(TAGGER), str(tmp_path))
    assert max(*found["off"], found["by name"]) < 1e-5
    assert found["installed"] == ["tfaot-model-tagger", "installed"]
    assert found["published"] == ["tagger", "published", True]
    assert found["again"] == ["already published", False]
    assert found["benchmark"][0][1] == [1], found["benchmark"]
    # The same graph, whether it was compiled here or is an installed package.
    for page in (found["page"], found["loaded page"]):
        assert (
            "<summary>graph</summary>" in page and page.count("<rect") > 5 and "verified against ONNX Runtime" in page
        )
    errors = found["errors"]
    assert errors["unknown"][1] == "a builtins.object is no model that tfaot-pkg knows"
    assert errors["missing"][0] == "SpecError" and "no such file or folder" in errors["missing"][1]
    assert errors["option"] == ["TypeError", "compile() got unexpected options for this model: dynamic", ""]
    # As on the command line: the fault with its place in the spec.
    assert errors["spec"][0] == "SpecError" and "validation.rtol" in errors["spec"][1]


@pytest.mark.release
def test_frames_are_read_by_names_and_tensors_without_copies(shared_home_folder: Path, run_program: Run) -> None:
    python = environment(shared_home_folder, *FRAMES)
    found = run_program(python, "frames", str(TAGGER))
    assert found.pop("columns") == "model tagger: input jet: float32[N, 4] got a data frame of 3 columns"
    assert found.pop("alone") == "model tagger: the data frame has no columns jet, tracks"
    assert found.pop("texts") == (
        "model tagger: the column pt has texts, and the model has no list of categories for it"
    )
    assert set(found.values()) == {True}


@pytest.mark.release
def test_modules_of_pytorch_are_exported_here(shared_home_folder: Path, run_program: Run) -> None:
    found = run_program(environment(shared_home_folder, "torch==2.14.1", "numpy==2.4.6"), "torch_objects")
    assert found["off"] < 1e-6 and "verified against PyTorch 2.14.1" in found["verdict"]
    assert found["same"] and found["again"] < 0.3
    assert found["order"] == ["x", "mask"]
    assert found["changes"]
    assert found["no copy"] and found["strided"] and found["out"], "tensors and arrays are read and written in place"
    assert found["gradient"] == "model(tensor.detach())"
    assert found["without"][0] == "a module of PyTorch needs an example of its inputs"


@pytest.mark.release
def test_functions_and_modules_of_jax_are_exported_with_their_parameters(
    shared_home_folder: Path, run_program: Run
) -> None:
    found = run_program(environment(shared_home_folder, *JAX), "jax_objects")
    assert found.pop("again") < 0.3
    for name, (off, verdict) in found.items():
        assert off < 1e-5, name
        assert "verified against JAX 0.10.2" in verdict


@pytest.mark.release
def test_models_of_keras_and_modules_of_tensorflow_are_saved(shared_home_folder: Path, run_program: Run) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = ensure(NEWEST_VERSION, folders=folders, progress=Silent()).python
    found = run_program(python, "tensorflow_objects")
    assert found.keys() == {"keras2", "keras3", "module"}
    for name, (off, verdict, again) in found.items():
        assert off < 1e-5 and "verified against tensorflow" in verdict, name
        assert again < 0.3


def test_the_path_of_a_saved_model_is_compiled(shared_home: Path, samples: dict[str, Sample]) -> None:
    sample = samples["digits"]
    model = tfaot_pkg.compile(REPOSITORY / "recipes/tfaot-model-digits/all/saved_model", name="digits", quiet=True)
    found = model(**sample.inputs)
    assert model.report.verdict.startswith("tfaot-model-digits 1.0.0: verified against tensorflow")
    for name, answers in sample.answers.items():
        np.testing.assert_allclose(found[name], answers, rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
def test_a_real_kernel_shows_progress_below_the_cell(shared_home_folder: Path, run_program: Run) -> None:
    """In Jupyter's kernel the stages are one output, which changes; the model is shown as HTML."""
    python = environment(shared_home_folder, *KERNEL)
    # A version of its own, because what was built before has no stages.
    found = run_program(python, "notebook", str(time.time_ns()))
    assert found["errors"] == []
    assert found["first"]["kinds"] == ["display_data", "execute_result"], "one line of progress, and the model"
    assert found["updates"] > 3
    for stage in ("validate (", "package ("):
        assert stage in found["first"]["progress"]
    assert "<summary>graph</summary>" in found["first"]["page"] and "verified against" in found["first"]["page"]


def test_the_notebook_of_the_examples_runs(shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = REPOSITORY / "examples" / "notebook" / "compile.ipynb"
    monkeypatch.chdir(path.parent)
    names: dict[str, object] = {}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert "again" in names


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("build", "tfaot_pkg.compile(MODEL)"),
        ("from_keras", "tfaot_pkg.compile(MODEL)"),
        ("InferenceSession", "tfaot_pkg.load(NAME, prefix=DIR)"),
        ("run", "tfaot-pkg run NAME"),
        ("publish", "model.publish(REGISTRY)"),
        ("install", "tfaot-pkg install NAME"),
        ("benchmark", "model.benchmark()"),
        ("search", "tfaot-pkg search"),
        ("nonsense", "it has CompiledModel, Model, "),
    ],
)
def test_a_name_that_people_try_says_what_to_use(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'tfaot_pkg' has no attribute '{name}'[:;] ") as caught:
        getattr(tfaot_pkg, name)
    assert instead in str(caught.value)


def test_names_of_python_itself_are_looked_for_without_a_word() -> None:
    assert not hasattr(tfaot_pkg, "__wrapped__")
    from tfaot_pkg import export  # a module of the package, although people try the name, too

    assert export.__name__ == "tfaot_pkg.export"


def test_the_package_shows_what_it_has() -> None:
    assert dir(tfaot_pkg) == sorted(tfaot_pkg.__all__)
    page = (REPOSITORY / "docs" / "reference" / "python.md").read_text()
    for name in tfaot_pkg.__all__:
        assert hasattr(tfaot_pkg, name)
        assert name == "__version__" or f".{name}\n" in page
    assert "tfaot_pkg.compile(net, example)" in pydoc.plain(pydoc.render_doc(tfaot_pkg))
