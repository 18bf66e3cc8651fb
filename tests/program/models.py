"""Many small models, lowered by a toolchain: those whose rows interact are found, and no other.

Each toolchain has a file of its own (test_models_*.py), so that several processes share the work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.kept import kept
from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.analysis.rows import Rows
from tfaot_pkg.frontends.frozen.model import signature_of
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.keys import files_below, sha256_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.worker_program.messages.graph import Checked
from tfaot_pkg.worker_program.messages.wire import decoded

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = REPOSITORY / "tests" / "models"
MAKER = MODELS / "rows.py"
WORKER_PROGRAM = REPOSITORY / "tfaot_pkg" / "worker_program"

Models = Mapping[str, Checked]


def models_of(version: str, home: Path) -> Models:
    """The models of tests/models/{rows,loops}.py by name, as a toolchain lists them: once, and again when code changes."""
    program = sha256_tree(WORKER_PROGRAM, [path for path in files_below(WORKER_PROGRAM) if path.suffix == ".py"])
    makers = sha256_tree(MODELS, [MODELS / name for name in ("loops.py", "row_models.py", "rows.py")])
    folders = Folders(cache=home / "cache", data=home / "data")
    python = ensure(version, folders=folders, progress=Silent()).python
    parts = {"maker": makers, "python": str(python), "worker": program}
    folder = kept(home, "rows", parts, lambda made: run([python, "-I", MAKER, made, WORKER_PROGRAM], timeout=1800))
    files = sorted(folder.glob("*.json"))
    return {path.stem: decoded(Checked, json.loads(path.read_text()), path.name) for path in files}


def _rows(model: Checked) -> Rows:
    assert model.hlo is not None
    return rows_of(model.hlo, signature_of(model))


class RowsOfModels:
    """The tests of the toolchain that listed `models`."""

    def test_rows_meet_in_dependent_models_and_in_no_other(self, models: Models) -> None:
        found = {name: _rows(model) for name, model in models.items()}
        kinds = [name.partition("-")[0] for name in found]
        assert kinds.count("dependent") >= 80 and kinds.count("independent") >= 140
        flagged = {
            name: rows.meetings for name, rows in found.items() if name.startswith("independent") and rows.meetings
        }
        missed = [name for name, rows in found.items() if name.startswith("dependent") and rows.independent]
        assert (flagged, missed) == ({}, [])

    def test_the_place_where_rows_meet_is_named(self, models: Models) -> None:
        def place(name: str) -> tuple[str, str]:
            (meeting,) = _rows(models[f"dependent-{name}"]).meetings
            return meeting.node.rpartition("/")[2], meeting.operation

        assert place("mean") == ("Mean", "reduce")
        assert place("sort")[1] == "sort"
        assert place("reverse") == ("ReverseV2", "reverse")
        assert place("attention over rows")[1] == "dot"
        assert place("gather by data") == ("GatherV2", "gather")
        assert place("while")[1] == "reduce"
        (meeting,) = _rows(models["dependent-row number"]).meetings
        assert str(meeting).startswith(
            "output 'y': its rows depend on their position in the batch, or on the batch size in node "
        )

    def test_all_models_compile_at_every_size_that_is_looked_at(self, models: Models) -> None:
        assert {name: model.hlo.fault for name, model in models.items() if model.hlo and model.hlo.fault} == {}
