"""How large a graph is after its functions are inlined, which a small file does not show.

Functions that call others twice describe any number of nodes. It is known before a framework, or a checker of its
format, follows the calls (decision 028, docs/security.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from messages.requests import ModelFault

_MOST_NODES = 2_000_000
_MOST_NESTED = 200


def require_finite(graph: str, calls: Mapping[str, tuple[int, Sequence[str]]]) -> None:
    """Raise ModelFault if functions are recursive, or if a small file describes a huge graph.

    `calls` has the number of nodes of each function and the functions that they call, once per call; "" is the graph,
    which errors name `graph`.
    """
    sizes: dict[str, int] = {}
    # With a list: calls may be nested deeper than Python's stack.
    path = [""]
    entered: set[str] = set()
    while path:
        name = path[-1]
        own, called = calls[name]
        missing = [one for one in called if one not in sizes]
        if not missing:
            sizes[path.pop()] = own + sum(sizes[one] for one in called)
            entered.discard(name)
            continue
        entered.add(name)
        if missing[0] in entered:
            raise ModelFault(
                f"the function {missing[0]!r}, which {graph} runs, calls itself",
                "compiled code has no recursion: use a loop (tf.while_loop, ONNX's Loop)",
            )
        path.append(missing[0])
        if len(path) > _MOST_NESTED:
            raise ModelFault(
                f"{graph} calls functions nested deeper than {_MOST_NESTED}",
                "export the model with fewer functions within functions",
            )
    if sizes[""] > _MOST_NODES:
        raise ModelFault(
            f"{graph} has more than {_MOST_NODES:,} nodes after its functions are inlined", "export a smaller model"
        )
