"""Models that compute something else at some sizes are found before they are traced, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kept import REPOSITORY, kept
from tests.program.listings import Builder, listing
from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.analysis.rows import Meeting
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.keys import files_below, sha256_file, sha256_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.worker_program.messages.listing import HloListing, SizeChoice

MAKER = REPOSITORY / "tests" / "models" / "size_choices.py"
WORKER_PROGRAM = REPOSITORY / "tfaot_pkg" / "worker_program"


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
@pytest.mark.sweep(night=["2.17.1"])
@pytest.mark.parametrize("version", ["2.17.1", "2.21.0"])
def test_what_sizes_choose_is_found_and_nothing_else(version: str, shared_home_folder: Path) -> None:
    home = shared_home_folder
    python = ensure(version, folders=Folders(cache=home / "cache", data=home / "data"), progress=Silent()).python
    program = sha256_tree(WORKER_PROGRAM, [path for path in files_below(WORKER_PROGRAM) if path.suffix == ".py"])
    parts = {"maker": sha256_file(MAKER), "python": str(python), "worker": program}
    folder = kept(
        home,
        "choices",
        parts,
        lambda made: run([python, "-I", MAKER, made / "found.json", WORKER_PROGRAM], timeout=800),
    )
    found = json.loads((folder / "found.json").read_text())
    kinds = [name.partition("-")[0] for name in found]
    assert kinds.count("chosen") >= 50 and kinds.count("same") >= 30
    wrong = {name: choices for name, choices in found.items() if bool(choices) != name.startswith("chosen")}
    assert wrong == {}


def test_rows_depend_on_one_another_if_the_batch_size_chooses_what_is_computed() -> None:
    def copied(builder: Builder) -> int:
        return builder.main.add("negate", (builder.batch, 4), builder.main.parameter((builder.batch, 4)))

    signature = Signature(
        inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 4)),),
        outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 4)),),
    )
    traced = listing(copied)
    assert rows_of(traced, signature).independent
    choice = SizeChoice(output=0, node="cond/Greater", operation="Greater", by_batch=True, symbols=())
    chosen = HloListing(modules=traced.modules, fault="", choices=(choice,))
    assert rows_of(chosen, signature).meetings == (
        Meeting(
            output="y",
            node="cond/Greater",
            operation="Greater",
            reason="what computes it is chosen by the batch size",
        ),
    )
