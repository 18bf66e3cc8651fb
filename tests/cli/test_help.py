from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command

from tfaot_pkg.cli.app import app
from tfaot_pkg.cli.cmsdist import compile_app


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{path} {name}")


ALL = dict([*commands(get_command(app), "tfaot-pkg"), *commands(get_command(compile_app), "cms_tfaot_compile")])


@pytest.mark.parametrize("path", ALL)
def test_a_terminal_shows_help_texts_whole(path: str) -> None:
    texts = [getattr(parameter, "help", None) or "" for parameter in ALL[path].params]
    for text in [(ALL[path].help or "").replace("\b", ""), *texts]:
        assert Text.from_markup(text).plain == text
