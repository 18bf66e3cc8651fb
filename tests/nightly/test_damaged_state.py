"""Whatever stands in the files of the state folder, a night says what is wrong: it never fails for a reason unknown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nightly.nights import coordinator, home_of, stub, stub_decision
from tests.nightly.test_coordinator import Interrupted, Registry
from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.prune import prune
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.state import State, read_records
from tfaot_pkg.nightly.types import Decision

NIGHT = "nights/2026-11-21.2"
FILES = {
    "history.sqlite": "one",
    "history-2026-10.jsonl": "lines",
    "inputs.jsonl": "lines",
    f"{NIGHT}/outcomes.jsonl": "lines",
    f"{NIGHT}/plan.json": "one",
    f"{NIGHT}/gate.json": "one",
    f"{NIGHT}/sequence": "one",
    "nights/2026-11-21.1/night.json": "one",
    "nights/2026-11-21.1/plan.json": "one",
}
VALUES = {
    "nothing": "",
    "null": "null",
    "list": "[]",
    "object": "{}",
    "text": '"text"',
    "bytes": "\udcff\udcfe",
    "number": "1e999",
    "deep": "[" * 5000,
    "wrong": '{"format": 1, "decisions": 3, "built": [], "failed": "x", "limit": null, "night": 7, "task": [1], "key": {}}',
    "dates": '{"night": "2026-11-21.x", "task": "a", "sequence": "y"}',
    "inside": '{"decisions": [7, {"task": null}], "built": 1e400, "failed": NaN, "limit": "1"}',
}


class Away(Registry):
    def publish(self, decision: Decision, results: Results) -> bool:
        raise Interrupted


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Makes a state folder with a night that is over, and one that was cut off while it published."""
    root = tmp_path_factory.mktemp("cut off")
    coordinator(root, home_of(root), program=stub(0), publisher=Registry()).run(lambda: [stub_decision("one")])
    with pytest.raises(Interrupted):
        coordinator(root, home_of(root), program=stub(0), publisher=Away()).run(lambda: [stub_decision("two")])
    files = {path.relative_to(root): path.read_bytes() for path in (root / "state").rglob("*") if path.is_file()}

    def write(to: Path) -> None:
        for path, content in files.items():
            (to / path).parent.mkdir(parents=True, exist_ok=True)
            (to / path).write_bytes(content)

    return write


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_named_or_does_no_harm(
    cut_off: Callable[[Path], None], tmp_path: Path, file: str, value: str
) -> None:
    cut_off(tmp_path)
    text = VALUES[value] + ("\n" if FILES[file] == "lines" else "")
    (tmp_path / "state" / file).write_bytes(text.encode(errors="surrogateescape"))
    state, two = State(root=tmp_path / "state"), stub_decision("two")
    uses: list[Callable[[], object]] = [
        lambda: coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry()).run(lambda: [two]),
        lambda: read_records(state, {two.key: "2026-11-21T03:00:00Z"}, {two.task.id}),
        lambda: prune(state, 1, None),
    ]
    for use in uses:
        try:
            use()
        except StorageError as error:
            assert str(tmp_path / "state") in error.message  # noqa: PT017 (whether it fails depends on the file)
