"""Run a command line: the only place where errors become messages and exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from typing import NoReturn

import typer
from typer.main import get_command

from tfaot_pkg.cli.command import said
from tfaot_pkg.errors import StorageError, TfaotError
from tfaot_pkg.ground.interruption import Stopped, ignore_signals, take_signals, taken_signal
from tfaot_pkg.ground.process import kill_running
from tfaot_pkg.ground.temporary import remove_left
from tfaot_pkg.ground.wording import say, say_json

INTERRUPTED = 128 + signal.SIGINT
INTERNAL = 70  # EX_SOFTWARE of sysexits.h
_BROKEN_PIPE = 141  # 128 + SIGPIPE, as a shell reports a program that this signal ended


def run_program(commands: typer.Typer, *, program: str) -> NoReturn:
    """Run the command line of this process and exit."""
    try:
        code = run_commands(commands, sys.argv[1:], program=program)
        # Python's own exit takes time: a signal during it would kill the process, or print a traceback.
        ignore_signals()
    except Stopped as stop:  # between these two
        code = _stop(stop)
    sys.exit(code)


def run_commands(commands: typer.Typer, arguments: list[str], *, program: str) -> int:
    """Run a command line; the exit code. Every expected failure is a message on standard error."""
    said.forget()
    take_signals()
    # A terminal's encoding may lack letters of a package's description, which must not end a command.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        # Standalone: Typer reports wrong usage itself (exit code 2), and ends in SystemExit after `--help` too.
        get_command(commands).main(args=arguments, prog_name=program, standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Stopped as stop:
        return _stop(stop)
    except Exception as error:  # noqa: BLE001 (the user gets a message for every error)
        # After a signal the user asked to stop, whatever error came of it.
        stopped = taken_signal()
        return _stop(stopped) if stopped else _report_any(error)
    return 0


def _stop(stop: Stopped) -> int:
    # A second Ctrl-C must not interrupt the cleaning up.
    ignore_signals()
    # Before the removal: a program that still runs could write into the folders that are removed.
    kill_running()
    remove_left()
    _report_stop(stop)
    return stop.exit_code


def _report_stop(stop: Stopped) -> None:
    message = "interrupted: no partial result was kept"
    if said.json:
        document = {"kind": "interrupted", "exit_code": stop.exit_code, "message": message, "hint": "", "log": None}
        say_json({"error": document})
    else:
        # A terminal shows ^C in the line of the progress: the message begins a new one.
        say(f"\n{message}")


def _report_any(error: Exception) -> int:
    if isinstance(error, TfaotError):
        _report(error)
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        # Else Python flushes standard output at exit, fails again, and prints a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return _report_other(error)


def _report(error: TfaotError) -> None:
    if said.debug:
        say("".join(traceback.format_exception(error)).rstrip())
    if said.json:
        say_json({"error": error.as_dict()})
        return
    say(error.message, head=f"{_styled('error', '1;31')}: ")
    if error.hint:
        say(error.hint, head=f"{_styled('hint', '1;36')}: ")
    if error.log is not None and error.log.exists():
        say(f"log: {error.log}")


def _report_other(error: Exception) -> int:
    """An unexpected error: disk full, read-only or permission denied are the machine's fault, all others are ours."""
    from tfaot_pkg.ground.storage import is_refusal, storage_errors

    if isinstance(error, OSError) and is_refusal(error):
        # Raised again inside of storage_errors, which knows the words for each of them.
        try:
            with storage_errors("write a file"):
                raise error
        except StorageError as refused:
            _report(refused)
            return refused.exit_code
    _report_internal(error)
    return INTERNAL


def _report_internal(error: Exception) -> None:
    if said.debug:
        say("".join(traceback.format_exception(error)).rstrip())
    message = f"internal error: {type(error).__name__}: {error}"
    if said.json:
        say_json({"error": {"kind": "internal", "exit_code": INTERNAL, "message": message}})
    else:
        hint = "this is a fault of tfaot-pkg: repeat the command with --debug and report what it prints"
        say(message)
        say(hint, head=f"{_styled('hint', '1;36')}: ")


def _styled(text: str, code: str) -> str:
    colours = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    return f"\033[{code}m{text}\033[0m" if colours else text
