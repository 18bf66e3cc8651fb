"""The corpus of hostile models, and what tells whether one of them reached anything."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

HERE = Path(__file__).resolve().parent
TOKEN = "token-4711-of-nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Hostile models in `folder`: `models` says of each what must become of it. They reach for the rest."""

    python: Path
    folder: Path
    models: Mapping[str, Mapping[str, str]]
    secret: Path
    canaries: Path
    server: socket.socket

    def named(self, *outcomes: str) -> list[str]:
        return [name for name, told in self.models.items() if told["outcome"] in outcomes]

    def require_untouched(self, *written: Path) -> None:
        """Nothing was written, nobody connected, and the secret is not in the files below `written`."""
        assert list(self.canaries.iterdir()) == []
        with pytest.raises(BlockingIOError):
            self.server.accept()
        files = [file for folder in written for file in folder.rglob("*") if file.is_file()]
        assert [file for file in files if TOKEN.encode() in file.read_bytes()] == []


@pytest.fixture(scope="session")
def make_corpus(
    shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Corpus]]:
    """`make_corpus("2.17.1")`: the corpus, as that toolchain writes it. Made once."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    made: dict[str, Corpus] = {}

    def make(tensorflow: str) -> Corpus:
        if tensorflow not in made:
            made[tensorflow] = _made(ensure(tensorflow, folders=folders, progress=Silent()).python)
        return made[tensorflow]

    def _made(python: Path) -> Corpus:
        place = tmp_path_factory.mktemp("hostile")
        for name in ("models", "canaries", "home"):
            (place / name).mkdir()
        secret = place / "home" / ".netrc"
        secret.write_text(f"machine example login nobody password {TOKEN}\n")
        server = socket.create_server(("127.0.0.1", 0))
        server.setblocking(False)
        port = str(server.getsockname()[1])
        run([python, "-I", HERE / "make_models.py", place / "models", secret, place / "canaries", port], timeout=600)
        return Corpus(
            python=python,
            folder=place / "models",
            models=json.loads((place / "models" / "corpus.json").read_text()),
            secret=secret,
            canaries=place / "canaries",
            server=server,
        )

    yield make
    for corpus in made.values():
        corpus.server.close()
