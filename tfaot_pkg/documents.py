"""Reading JSON that somebody else wrote: a server, a package, a file that a disk or an editor has changed.

Python's own reader takes more than JSON (NaN), and more than can be written again: text with half a pair of surrogates,
which no UTF-8 holds, raises far from the document that it came from.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(data: bytes | str) -> Any:
    """The value of a JSON document in UTF-8. What it holds can be written again, as JSON and as text.

    Raises ValueError, whatever is wrong with it.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        if _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("text in it is half a character (a surrogate without the other)") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value
