"""What an adaptor makes of a live object: a model's file, the sections of its spec, and its content for the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground.arrays import Array

Sections = Mapping[str, Mapping[str, Any]]
"""Parts of a spec: {"validation": {"rtol": 1e-3}}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAnswers:
    """What the call of an object of `framework` gives for `x`, the model's one input, by the names of outputs.

    Numbers of the package may be off by `tolerance` of the larger of 1 and the largest answer.
    """

    framework: str
    x: Array
    answers: Mapping[str, Array]
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSource:
    """A model that is to become files.

    `content` are bytes that determine the model, `write` puts its file into a folder and returns the path. `sections`
    are what the object says for the spec. `order` are the names of inputs in the order of the object's own call, "" if
    it does not have them. `own` are the object's own answers, if validation compares with those of another framework.
    """

    framework: str
    content: Sequence[bytes]
    write: Callable[[Path], Path]
    sections: Sections = field(default_factory=dict)
    order: tuple[str, ...] = ()
    own: OwnAnswers | None = None


class Adaptor(Protocol):
    """Reads objects of one framework, which is imported by its functions only."""

    def source_of(self, net: Any, example: Any, options: Mapping[str, Any]) -> LiveSource | None:
        """The source of `net`; None if it is no model of this framework. Raises ModelError, and pops its `options`."""


def examples_by_name(example: Any, names: Sequence[str], what: str) -> dict[str, Any]:
    """`example`, an array, a sequence or a mapping of arrays, by the names of inputs. Raises ModelError."""
    if example is None:
        raise ModelError(
            f"{what} needs an example of its inputs", hint="compile(net, example): an array of a few rows, or a tuple"
        )
    if isinstance(example, Mapping):
        return {str(name): value for name, value in example.items()}
    given = tuple(example) if isinstance(example, tuple | list) else (example,)
    if len(given) > len(names):
        raise ModelError(f"{what} takes {len(names)} inputs ({', '.join(names)}), and the example has {len(given)}")
    return dict(zip(names, given, strict=False))


def of_bytes(
    framework: str,
    name: str,
    content: bytes,
    *,
    sections: Sections | None = None,
    order: tuple[str, ...] = (),
    own: OwnAnswers | None = None,
) -> LiveSource:
    """A model whose file `name` is `content`."""

    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return LiveSource(
        framework=framework,
        content=[name.encode(), content],
        write=write,
        sections=sections or {},
        order=order,
        own=own,
    )
