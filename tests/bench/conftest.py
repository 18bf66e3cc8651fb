"""The command line in a home, as the tests of bad input have it."""

from __future__ import annotations

from tests.bad_input.conftest import bare, scratch, tfaot

__all__ = ["bare", "scratch", "tfaot"]
