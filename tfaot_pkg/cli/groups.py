"""Groups of commands whose help has sections, and describes each command with its whole first sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


class Group(TyperGroup):
    """A group without sections: its commands stand in the order of their registration.

    Typer's own help cuts a description off at the end of the line, and knows sections with Rich alone, whose import
    takes as long as everything else that --help does.
    """

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The commands of each section, by its title. Every command of the group is in one of them, unless it is empty."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names of commands, which no help lists."""

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))

    def list_commands(self, ctx: Context) -> list[str]:
        named = [name for names in self.sections.values() for name in names]
        return named or super().list_commands(ctx)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        names = self.list_commands(ctx)
        # One width for all sections: else each would begin its descriptions in another column.
        width = max(map(len, names))
        for title, section in (self.sections or {"Commands": names}).items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", self._summary(ctx, name)) for name in section])

    def _summary(self, ctx: Context, name: str) -> str:
        found = self.get_command(ctx, name)
        assert found is not None
        return first_sentence(found.help or "")


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]
