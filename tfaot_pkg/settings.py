"""The user's settings that are numbers in environment variables."""

from __future__ import annotations

import os

from tfaot_pkg.errors import TfaotError


def number_from(
    variable: str, default: float, least: float, most: float, *, error: type[TfaotError], unit: str = ""
) -> float:
    """The number from `least` to `most` in the environment variable; `default` if it is unset or empty.

    Raises `error`.
    """
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    # Every comparison with NaN is false, so a user's "nan" is rejected too.
    if not least <= value <= most:
        kind = f"a number of {unit}" if unit else "a number"
        raise error(
            f"{variable} must be {kind} from {least:g} to {most:,.12g}, got {text!r}",
            hint=f"correct or unset {variable}",
        )
    return value
