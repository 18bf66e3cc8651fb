"""A signal at any instruction: what was started ends, and what was made for a while goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfaot_pkg.ground.interruption import Stopped, shielded, take_signals, taken_signal
from tfaot_pkg.ground.temporary import remove_left, temporary_file, temporary_folder

# Folders are made, filled and removed and programs are started, without an end; the pipe says that it has begun.
_PROGRAM = """
import sys
from pathlib import Path
from tfaot_pkg.ground.interruption import Stopped, take_signals
from tfaot_pkg.ground.process import kill_running, run
from tfaot_pkg.ground.storage import new_folder, write_file
from tfaot_pkg.ground.temporary import remove_left, temporary_folder

def work(root):
    number = 0
    while True:
        number += 1
        with temporary_folder(root / "scratch", prefix="work.") as folder, new_folder(root / "kept" / str(number)) as made:
            for name in range(20):
                (folder / str(name)).touch()
            write_file(made / "file", b"whole")
            run(["true"])
            run(["sh", "-c", "sleep 0.001 & wait"])

take_signals()
try:
    print("begun", flush=True)
    work(Path(sys.argv[1]))
except Stopped:
    kill_running()
    remove_left()
"""


# The first arrives while a class is made, the second in a finalizer at the very end of the command.
_COMMANDS = """
import signal
import typer
from tfaot_pkg.cli.run import run_program

class Field:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)

class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

app = typer.Typer()

@app.command()
def declare():
    type("Owner", (), {"field": Field()})

@app.command()
def die():
    Dying()

run_program(app, program="program")
"""


def test_a_signal_while_a_class_is_made_interrupts_the_command() -> None:
    ended = subprocess.run([sys.executable, "-c", _COMMANDS, "declare"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "\ninterrupted: no partial result was kept\n")


@pytest.mark.slow
def test_a_signal_as_the_command_ends_does_not_kill_the_process() -> None:
    for _ in range(10):
        ended = subprocess.run([sys.executable, "-c", _COMMANDS, "die"], capture_output=True, text=True, check=False)
        assert ended.returncode in (0, 130)


@pytest.mark.slow
def test_a_signal_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    for turn in range(32):
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(tmp_path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(0.0005 * turn)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0  # disks may be busy
        process.stdout.close()
        assert list((tmp_path / "scratch").iterdir()) == []
        for folder in (tmp_path / "kept").glob("*"):
            assert not folder.name.startswith(".")
            assert (folder / "file").read_bytes() == b"whole"
    own = f"TMPDIR={tmp_path}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            assert own not in environment.read_bytes().split(b"\0")
        except OSError:
            continue


class TestShielded:
    @pytest.fixture(autouse=True)
    def _signals(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        take_signals()
        yield
        for number, handler in before.items():
            signal.signal(number, handler)

    def test_a_signal_waits_for_the_end_of_the_block(self) -> None:
        steps = []

        def work() -> None:
            with shielded():
                signal.raise_signal(signal.SIGTERM)
                steps.append("after the signal")

        with pytest.raises(Stopped) as stopped:
            work()
        assert steps == ["after the signal"]
        assert stopped.value.exit_code == 128 + signal.SIGTERM

    def test_it_waits_for_the_outermost_block(self) -> None:
        steps = []

        def work() -> None:
            with shielded():
                with shielded():
                    signal.raise_signal(signal.SIGINT)
                steps.append("inner")

        with pytest.raises(Stopped):
            work()
        assert steps == ["inner"]

    def test_a_second_signal_does_not_disturb_the_cleaning(self) -> None:
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    def test_a_signal_in_a_finalizer_is_not_lost(self) -> None:
        class Dying:
            def __del__(self) -> None:
                signal.raise_signal(signal.SIGINT)

        def work() -> None:
            Dying()  # what its __del__ raises, Python only prints
            time.sleep(30)

        with pytest.raises(Stopped) as stopped:
            work()
        assert stopped.value.number == signal.SIGINT

    def test_a_signal_that_python_turned_into_another_error_is_known(self) -> None:
        class Field:
            def __set_name__(self, owner: type, name: str) -> None:
                signal.raise_signal(signal.SIGINT)

        assert taken_signal() is None
        with pytest.raises((Stopped, RuntimeError)):  # a RuntimeError up to Python 3.11
            type("Owner", (), {"field": Field()})
        stopped = taken_signal()
        assert stopped is not None
        assert stopped.exit_code == 130

    def test_other_threads_are_not_stopped_and_shield_nothing(self) -> None:
        inside, leave = threading.Event(), threading.Event()

        def other() -> None:
            with shielded():
                inside.set()
                leave.wait()

        thread = threading.Thread(target=other)
        thread.start()
        inside.wait()
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGINT)
        leave.set()
        thread.join()


class TestTemporary:
    @pytest.fixture(autouse=True)
    def _own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What other tests keep for longer, pools of workers say, is not for these to remove."""
        monkeypatch.setattr("tfaot_pkg.ground.temporary._noted", set())

    def test_what_removal_could_not_finish_is_removed_later(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise Stopped(signal.SIGINT)

        def work() -> None:
            with temporary_folder(tmp_path, prefix="x.") as folder:
                (folder / "file").touch()

        with monkeypatch.context() as patch:
            patch.setattr("shutil.rmtree", interrupted)
            with pytest.raises(Stopped):
                work()
        assert len(list(tmp_path.iterdir())) == 1
        remove_left()
        assert list(tmp_path.iterdir()) == []

    def test_what_was_renamed_away_stays(self, tmp_path: Path) -> None:
        with temporary_folder(tmp_path, prefix="x.") as folder:
            (folder / "file").touch()
            folder.rename(tmp_path / "kept")
        with temporary_file(tmp_path, prefix="y.") as file:
            file.touch()
            file.rename(tmp_path / "kept" / "other")
        remove_left()
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept", "other"]

    def test_only_its_owner_may_look_into_it(self, tmp_path: Path) -> None:
        with temporary_folder(tmp_path, prefix="x.") as folder:
            assert folder.stat().st_mode & 0o777 == 0o700

    def test_an_error_removes_it(self, tmp_path: Path) -> None:
        def work() -> None:
            with temporary_file(tmp_path, prefix="x.", suffix=".part") as file:
                file.write_text("half")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            work()
        assert list(tmp_path.iterdir()) == []
