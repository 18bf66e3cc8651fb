"""Filling an environment: venv and pip, and what their failures mean.

Only venv and pip are used: nothing else may be assumed on the user's machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tfaot_pkg.errors import NetworkError, StorageError, TfaotError, ToolchainError, TrustError
from tfaot_pkg.process import CommandFailed, stream
from tfaot_pkg.progress import Progress
from tfaot_pkg.toolchain.interpreter import Interpreter, no_venv

# Settings that would put the packages elsewhere or choose others. The user's settings about the network are kept.
_DROPPED = {
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIREMENT"),
    *("PIP_CONSTRAINT", "PIP_NO_BINARY", "PIP_DRY_RUN", "PIP_EDITABLE", "PIP_LOG", "PIP_QUIET", "PIP_VERBOSE"),
}
_COLLECTING = re.compile(r"^Collecting ([\w.-]+)==([^ ;]+)")
_PROCESSING = re.compile(r"^Processing (?:.*/)?([\w.]+)-([^-/]+)-[^/]*\.whl")  # a wheel from a folder
_UNREACHABLE = (
    *("Temporary failure in name resolution", "Name or service not known", "NewConnectionError", "Connection refused"),
    *("ReadTimeoutError", "ConnectTimeoutError", "Read timed out", "ProxyError", "SSLError", "ConnectionResetError"),
    *("Connection aborted", "Network is unreachable", "IncompleteRead", "Connection broken", "Could not fetch URL"),
    *("HTTP error 4", "HTTP error 5"),
)
_NOTHING = "(from versions: none)"  # all that pip says of an index out of reach when it is told not to retry
_FULL = ("No space left on device", "Disk quota exceeded", "Errno 28", "Errno 122")


def clean_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` without what would change where pip installs to or which Python modules it sees."""
    return {name: value for name, value in variables.items() if name not in _DROPPED}


def requirement_names(text: str) -> list[str]:
    """The names that a lock file pins, in its order; a name with several versions for several Pythons counts once."""
    names = (line.partition("==")[0].strip() for line in text.splitlines() if "==" in line and line[0].isalnum())
    return list(dict.fromkeys(names))


def install(
    *,
    interpreter: Interpreter,
    folder: Path,
    requirements: Path,
    wheelhouse: Path | None,
    what: str,
    log: Path,
    progress: Progress,
    pass_fds: tuple[int, ...] = (),
) -> None:
    """Make the virtual environment `folder` with `interpreter` and put `requirements` into it.

    Every file must have one of the hashes in `requirements`; only wheels are taken, so no code of theirs runs here.
    `pass_fds` stay open in what is started. Raises NetworkError, TrustError, StorageError, ToolchainError.
    """
    if wheelhouse is not None and not wheelhouse.is_dir():
        raise ToolchainError(f"the wheelhouse {wheelhouse} is no folder", hint="name a folder with wheels in it")
    if not interpreter.pip:
        raise no_venv(interpreter)
    env = clean_environment(os.environ)
    names = requirement_names(requirements.read_text(encoding="utf-8"))

    def start(argv: list[str | Path], on_line: Callable[[str], None]) -> None:
        try:
            stream(argv, on_line=on_line, log=log, env=env, pass_fds=pass_fds)
        except CommandFailed as error:
            raise failure(error, what=what, log=log, wheelhouse=wheelhouse) from error

    with progress.step(what, total=len(names) + 2, unit="packages") as step:

        def on_line(line: str) -> None:
            progress.output(line)
            match = _COLLECTING.match(line) or _PROCESSING.match(line)
            if match:
                step.advance(note=f"{match[1]} {match[2]}")
            elif line.startswith("Installing collected packages"):
                step.advance(note="unpacking")

        step.advance(note="virtual environment")
        start([interpreter.path, "-I", "-m", "venv", folder], progress.output)
        start(_pip(folder, requirements, wheelhouse), on_line)


def _pip(folder: Path, requirements: Path, wheelhouse: Path | None) -> list[str | Path]:
    checked = ["--require-hashes", "--only-binary", ":all:", "--no-deps"]
    quiet = ["--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-user"]
    offline: list[str | Path] = ["--no-index", "--find-links", wheelhouse] if wheelhouse else []
    return [folder / "bin" / "python", "-I", "-m", "pip", "install", *checked, *quiet, *offline, "-r", requirements]


def failure(error: CommandFailed, *, what: str, log: Path, wheelhouse: Path | None) -> TfaotError:
    """The error that a failed venv or pip stands for, by what it printed."""
    output = error.output
    if any(sign in output for sign in _FULL):
        return StorageError(
            f"no space left while installing {what}",
            hint="free some space (TensorFlow needs 2 GB), or set TFAOT_HOME to a folder on another disk",
            log=log,
        )
    if "DO NOT MATCH THE HASHES" in output:
        return TrustError(
            f"a package of {what} is not the one that was pinned: {_after(output, 'DO NOT MATCH THE HASHES')}",
            hint="the server, a proxy or the wheelhouse gives other files than were locked: use another source",
            log=log,
        )
    if wheelhouse is None and (_NOTHING in output or any(sign in output for sign in _UNREACHABLE)):
        return NetworkError(
            f"cannot download {what}: the package index cannot be reached or has nothing for this machine and Python",
            hint="check the network and pip's settings, or install offline from a folder of wheels: --wheelhouse DIR",
            log=log,
        )
    return _other_failure(error, what=what, log=log, wheelhouse=wheelhouse)


def _other_failure(error: CommandFailed, *, what: str, log: Path, wheelhouse: Path | None) -> ToolchainError:
    missing = re.search(r"No matching distribution found for (\S+)", error.output)
    if missing:
        where = f"in the wheelhouse {wheelhouse}" if wheelhouse else "in the package index for this machine and Python"
        hint = (
            "fill it on a machine with a network: pip download --only-binary :all: --no-deps -r REQUIREMENTS -d DIR"
            if wheelhouse
            else "only 64-bit Linux with glibc is supported; check pip's settings (pip config list)"
        )
        return ToolchainError(f"{missing[1]}, which {what} needs, is not {where}", hint=hint, log=log)
    last = error.tail.strip().splitlines()[-1:] or [""]
    return ToolchainError(f"cannot install {what} ({error.reason}): {last[0]}", hint="see the log", log=log)


def _after(output: str, sign: str) -> str:
    """The package and file that pip names below its complaint about hashes."""
    lines = [line.strip() for line in output.partition(sign)[2].splitlines()[1:] if line.strip()]
    return lines[0].rstrip(":") if lines else "unknown file"
