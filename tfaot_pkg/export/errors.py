"""What is wrong with an export, for its author."""

from __future__ import annotations


class ExportError(Exception):
    """The message says what is wrong and what to do."""
