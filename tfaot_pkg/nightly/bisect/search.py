"""Which of the parts that changed makes a difference: one at a time, then as few as possible together. Pure.

A variant is the later build with some parts as they were before, its *undone* parts. Its share says how much of the
difference is gone with them: 1 for all of it, 0 for none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Undone = frozenset[str]
Share = Callable[[Undone], float | None]
"""The share of a variant; None if there is none, because the variant cannot be built."""

ALL, SOME = 0.75, 0.25
"""Shares from which on parts make the whole difference, or some of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guilt:
    """Without `parts` the difference is gone, to `share`; none of them can be left out.

    Several mean that only all of them together take it away. `alone` is the share that these parts bring back, if they
    alone are as in the later build; None if that cannot be built.
    """

    parts: tuple[str, ...]
    share: float
    alone: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Who makes a difference: each of `guilty` alone takes it away; `some` are parts that take away a part of it.

    `unknown` are parts without which nothing can be built. No `guilty` means that what was tried does not explain it.
    """

    guilty: tuple[Guilt, ...]
    some: tuple[tuple[str, float], ...] = ()
    unknown: tuple[str, ...] = ()


def search(parts: Sequence[str], share: Share) -> Found:
    """Find who of `parts` makes the difference."""
    shares = {part: share(frozenset([part])) for part in parts}
    some = tuple((part, found) for part, found in shares.items() if found is not None and SOME <= found < ALL)
    unknown = tuple(part for part, found in shares.items() if found is None)
    guilty = [Guilt(parts=(part,), share=found) for part, found in shares.items() if found is not None and found >= ALL]
    if not guilty and len(parts) > 1 and (together := _together([*dict(some), *parts], share)) is not None:
        guilty = [together]
    return Found(guilty=tuple(_confirmed(each, parts, share) for each in guilty), some=some, unknown=unknown)


def _together(parts: Sequence[str], share: Share) -> Guilt | None:
    """As few parts as possible that take the difference away together; None if even all of them do not."""
    undone = list(dict.fromkeys(parts))
    best = share(frozenset(undone))
    if best is None or best < ALL:
        return None
    # From the end: parts that take some of it away come first, and stay.
    for part in reversed(undone.copy()):
        rest = frozenset(undone) - {part}
        found = share(rest) if rest else None
        if found is not None and found >= ALL:
            undone.remove(part)
            best = found
    return Guilt(parts=tuple(undone), share=best)


def _confirmed(guilt: Guilt, parts: Sequence[str], share: Share) -> Guilt:
    """`guilt`, with what its parts do alone: all others are as they were before."""
    others = frozenset(parts) - set(guilt.parts)
    left = share(others) if others else 0.0
    alone = None if left is None else 1.0 - left
    return Guilt(parts=guilt.parts, share=guilt.share, alone=alone)
