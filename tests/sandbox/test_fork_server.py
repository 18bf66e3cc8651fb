"""What a fork server forks is confined as any other program, and one program cannot reach the server or the next one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.attempts import ALLOWED, REFUSED
from tests.sandbox.conftest import Place, running_below

pytestmark = pytest.mark.slow

HERE = Path(__file__).resolve().parent
Forked = Callable[..., dict[str, Any]]

_PRELOADED = """
import tempfile
def preload():
    tempfile.gettempdir()
    global imported
    imported = ["by the server"]
"""

_ATTEMPTS = """
import json, os, sys
answers = int(sys.argv[1])
sys.argv = ["attempts.py", *{arguments!r}]
import attempts

def with_any(use):
    works = 0
    for number in range(answers + 1, 256):
        try:
            use(number)
            works += 1
        except OSError:
            pass
    if not works:
        raise OSError("none is open")

every = {{
    # First: others open files.
    "talk to the server": lambda: with_any(lambda number: os.write(number, b"kill")),
    "have its files": lambda: with_any(os.fstat),
    **attempts.ALLOWED, **attempts.REFUSED,
    "signal the server": lambda: os.kill(os.getppid(), 0),
    "read the server's memory": lambda: attempts.read(f"/proc/{{os.getppid()}}/mem"),
    "read the server's environment": lambda: attempts.read(f"/proc/{{os.getppid()}}/environ"),
    "limit the server": lambda: attempts.limit(os.getppid()),
    "read another's folder": lambda: os.listdir({other!r}),
    "read another's file": lambda: attempts.read({other!r} + "/file"),
    "write another's file": lambda: attempts.write({other!r} + "/new"),
    "write beside all": lambda: attempts.write(os.path.dirname({other!r}) + "/new"),
}}
with os.fdopen(answers, "w") as file:
    json.dump({{name: attempts.outcome(each) for name, each in every.items()}}, file)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where all boxes are: a server shows no other."""
    made = tmp_path / "boxes"
    made.mkdir()
    return made


@pytest.fixture
def forked(wrapper: list[str], place: Place, tmp_path: Path, folder: Path) -> Forked:
    """`forked(TEXT, BOX, ...)`: run the Python program TEXT in each box, in processes of one server."""

    def run(text: str, *boxes: dict[str, Any]) -> dict[str, Any]:
        program = tmp_path / "program"
        program.mkdir()
        (program / "preloaded.py").write_text(_PRELOADED)
        (program / "__main__.py").write_text(text)
        shutil.copy(HERE / "attempts.py", program)
        request = {"program": str(program), "folder": str(folder), "boxes": boxes}
        done = subprocess.run(
            [*wrapper, sys.executable, str(HERE / "fork.py"), json.dumps(request)],
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["level"] == ("landlock" if wrapper else "namespaces")
        return found

    return run


def _box(writable: Path, readable: Sequence[Path] = (), **more: Any) -> dict[str, Any]:
    writable.mkdir(exist_ok=True)
    return {"readable": [*map(str, readable)], "writable": [str(writable)], **more}


def test_it_can_do_its_work_and_nothing_else(forked: Forked, place: Place, folder: Path) -> None:
    model = shutil.copytree(place.model, folder / "model", symlinks=True)
    other = folder / "other"
    other.mkdir()
    (other / "file").write_text("another model's")
    text = _ATTEMPTS.format(arguments=[str(model), *place.arguments[1:]], other=str(other))
    found = forked(text, _box(folder / "first", [model]), _box(folder / "second", [model]))
    for each in found["found"]:
        assert each["code"] == 0, each
        outcomes = json.loads(each["said"])
        assert {name: outcomes[name] for name in ALLOWED if outcomes[name]} == {}
        more = set(outcomes) - {*ALLOWED, *REFUSED}
        assert len(more) == 10
        assert [name for name in (*REFUSED, *more) if not outcomes[name]] == []
    assert [path.name for path in other.iterdir()] == ["file"] and not found["ended"]


_CHANGES = """
import builtins, os, sys, tempfile, preloaded
with os.fdopen(int(sys.argv[1]), "w") as answers:
    print(preloaded.imported, hasattr(builtins, "left"), os.environ.get("LEFT"), tempfile.gettempdir(), file=answers)
preloaded.imported.append("by a model")
builtins.left, os.environ["LEFT"] = True, "1"
print("printed")
"""


def test_what_one_does_to_its_interpreter_the_next_does_not_see(forked: Forked, folder: Path) -> None:
    boxes = [folder / "first", folder / "second"]
    found = forked(_CHANGES, *map(_box, boxes))
    assert [(each["said"], each["code"], each["log"]) for each in found["found"]] == [
        (f"['by the server'] False None {box}\n", 0, "printed\n") for box in boxes
    ]


def test_what_runs_on_is_killed_and_the_server_serves_the_next(forked: Forked, folder: Path) -> None:
    text = "import os, sys, threading\nos.write(int(sys.argv[1]), b'here\\n')\nthreading.Event().wait()\n"
    found = forked(text, _box(folder / "first", ends=True), _box(folder / "second", ends=True))
    assert [(each["said"], each["code"]) for each in found["found"]] == [("here\n", -9)] * 2
    assert not found["ended"] and running_below(folder) == []


def test_how_it_ended_is_told(forked: Forked, folder: Path) -> None:
    text = "import os, signal, sys\nif 'first' in os.getcwd():\n    sys.exit(7)\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    found = forked(text, _box(folder / "first"), _box(folder / "second"))
    assert [each["code"] for each in found["found"]] == [7, -11]


@pytest.mark.parametrize(
    ("text", "limits", "fault"),
    [
        (
            "import threading\nfor n in range(1000):\n    threading.Thread(target=threading.Event().wait).start()\n",
            {"threads": 300},
            "started more than 300 threads and processes (TFAOT_WORKER_THREADS)",
        ),
        (
            "import threading\nfor n in range(64):\n    open(str(n), 'wb').write(bytes(1 << 20))\nthreading.Event().wait()\n",
            {"disk": 16 << 20},
            "wrote more than 0.015625 GiB (TFAOT_WORKER_DISK)",
        ),
    ],
    ids=["threads", "disk"],
)
def test_its_limits_hold(forked: Forked, folder: Path, text: str, limits: dict[str, Any], fault: str) -> None:
    (found,) = forked(text, _box(folder / "first", **limits))["found"]
    assert found["fault"] == fault or (found["code"] != 0 and "can't start new thread" in found["log"]), found
    assert running_below(folder) == []


def test_files_are_limited_as_those_of_the_process_that_wants_it(forked: Forked, folder: Path) -> None:
    text = "for _ in range(3):\n    open('file', 'ab', buffering=0).write(bytes(1 << 20))\n"
    small, large = forked(text, _box(folder / "first", largest=2 << 20), _box(folder / "second", largest=4 << 20))[
        "found"
    ]
    assert small["code"] == 1 and "File too large" in small["log"]
    assert large["code"] == 0
