"""Types of a spec's fields: the values that each accepts, in Python and in the JSON Schema. `form.py` uses them."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from tfaot_pkg.forms.document import scalar
from tfaot_pkg.forms.form import DISTINCT, between, checked, problem
from tfaot_pkg.spec import rules
from tfaot_pkg.spec.expand import Expanded
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.wording import described, number, shown
from tfaot_pkg.worker_program.messages.conversions import Values

MAX_ITEMS = 256
MAX_SAMPLES = 1_000_000
MAX_AXIS = 2**31 - 1
MAX_ITERATIONS = 1_000_000
MAX_SEED = 2**32 - 1

# Editors check a file before expansion: wherever a value has a pattern, an expression is valid too.
_EXPRESSION = r"[\s\S]*\{\{[\s\S]*"


def list_of(what: str, *, lone_text: bool = False) -> BeforeValidator:
    """A validator of lists; `what` names the items in messages. `lone_text` splits a single string into words."""

    def validate(value: object) -> object:
        # As in cms-tfaot, where flags are one string.
        if lone_text and isinstance(value, str):
            return value.split()
        if not isinstance(value, list):
            raise problem(f"must be a list of {what}, got {described(value)}")
        return value

    return BeforeValidator(validate)


def evaluated(value: object) -> object:
    """The number or boolean that the text of an expression means."""
    # Other texts stay: one in quotes, without an expression, is meant as a text.
    return scalar(str(value)) if isinstance(value, Expanded) else value


def _iterations(value: object) -> str:
    """`best`, `all` or a number, as a text."""
    value = evaluated(value)
    if isinstance(value, str) and value in ("best", "all"):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_ITERATIONS:
        return str(value)
    raise problem(f"must be best, all, or a number of iterations from 1 on, got {described(value)}")


def _missing(value: object) -> object:
    """A number; `nan` as a text too, because JSON has no other form of it."""
    value = evaluated(value)
    return math.nan if value == "nan" else value


def _not_infinite(value: float) -> float:
    if math.isinf(value):
        raise problem("must be a number, or .nan for none, got an infinity")
    return value


def _tolerance(value: float) -> float:
    if not math.isfinite(value):
        raise problem(f"must be a finite number, got {number(value)}")
    if value < 0:
        raise problem(f"must be at least 0, got {number(value)}")
    return value


def below_one(value: float) -> float:
    if value >= 1:
        raise problem(f"must be less than 1 (a relative error of 1 accepts any answer near zero), got {number(value)}")
    return value


def few(values: list[Any]) -> list[Any]:
    if len(values) > MAX_ITEMS:
        raise problem(f"must have at most {MAX_ITEMS} items, got {len(values)}")
    return values


def one_architecture(remedy: str) -> AfterValidator:
    """A validator that all targets are of one architecture; `remedy` says what to do if not."""

    def fault_of(targets: list[str]) -> str:
        architectures = sorted({TARGETS[target].architecture for target in targets})
        several = f"must all be of one architecture, got {' and '.join(architectures)}: {remedy}"
        return several if len(architectures) > 1 else ""

    return checked(fault_of)


def _null_for_batch(shape: object) -> object:
    return [None, *shape[1:]] if isinstance(shape, list) and shape[:1] == [rules.BATCH_AXIS] else shape


def _batch_axis_first(shape: list[int | None]) -> list[int | None]:
    if None in shape[1:]:
        raise problem("only the first axis can be null (the batch axis): give the other axes their sizes")
    return shape


# Pydantic's own serializer would warn of values that the annotation does not name, such as a symbol for a size.
def _as_it_is(value: object) -> Any:
    return value


def _or_symbol(value: object, size_of: ValidatorFunctionWrapHandler) -> object:
    """A size, or the text of a symbol (rules.symbol_of)."""
    value = evaluated(value)
    if not isinstance(value, str):
        return size_of(value)
    if fault := rules.symbol_fault(value):
        raise problem(fault)
    return value


def as_pattern(*patterns: str, types: tuple[str, ...] = ("string",), **more: object) -> WithJsonSchema:
    """For editors: a string that fully matches one of `patterns`, or contains an expression."""
    kind: object = types[0] if len(types) == 1 else list(types)
    return WithJsonSchema({"type": kind, "pattern": f"^({'|'.join([*patterns, _EXPRESSION])})$", **more})


def as_scalar(kind: str, **limits: float) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind, **limits}, {"type": "string", "pattern": f"^{_EXPRESSION}$"}]})


def as_choice(*choices: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"enum": list(choices)}, {"type": "string", "pattern": f"^{_EXPRESSION}$"}]})


HEX = "[0-9a-fA-F]"

Text = Annotated[str, checked(rules.text_fault)]
Line = Annotated[str, checked(rules.line_fault)]
FilledLine = Annotated[str, checked(rules.filled_line_fault), WithJsonSchema({"type": "string", "minLength": 1})]
FilePath = Annotated[str, checked(rules.path_fault), as_pattern(r"[^$\\]+")]
Subdir = Annotated[str, checked(rules.subdir_fault), as_pattern(r"(?![/~]|(.*/)?\.\.(/|$))[^$\\]*")]
BatchSize = Annotated[
    int,
    BeforeValidator(evaluated),
    between(1, rules.MAX_BATCH_SIZE, " (larger batches are composed of smaller ones)"),
    as_scalar("integer", minimum=1, maximum=rules.MAX_BATCH_SIZE),
]
_FLAG_ITEM = as_pattern(rules.FLAG_PATTERN)
Flags = Annotated[
    list[Annotated[str, checked(rules.flag_fault), _FLAG_ITEM]],
    list_of("strings", lone_text=True),
    AfterValidator(few),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _FLAG_ITEM.json_schema}, {"type": "string"}]}),
]
Axis = Annotated[
    int, BeforeValidator(evaluated), between(1, MAX_AXIS), as_scalar("integer", minimum=1, maximum=MAX_AXIS)
]
_EITHER = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MAX_AXIS},
        {"type": "string", "pattern": f"^({rules.SYMBOL_PATTERN}|{_EXPRESSION})$"},
    ]
}
Shape = Annotated[
    list[Annotated[Axis, WrapValidator(_or_symbol), PlainSerializer(_as_it_is), WithJsonSchema(_EITHER)] | None],
    list_of("integers and null"),
    BeforeValidator(_null_for_batch),
    AfterValidator(_batch_axis_first),
]
Number = Annotated[float, BeforeValidator(evaluated), AfterValidator(_tolerance), as_scalar("number", minimum=0)]


Missing = Annotated[
    float,
    BeforeValidator(_missing),
    AfterValidator(_not_infinite),
    WithJsonSchema(
        {"anyOf": [{"type": "number"}, {"enum": ["nan"]}, {"type": "string", "pattern": f"^{_EXPRESSION}$"}]}
    ),
]
Iterations = Annotated[
    str,
    PlainValidator(_iterations),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["best", "all"]},
                {"type": "integer", "minimum": 1, "maximum": MAX_ITERATIONS},
                {"type": "string", "pattern": f"^{_EXPRESSION}$"},
            ]
        }
    ),
]


def _one_by_one(value: object) -> object:
    """`{old: new}` as a list of such mappings, whose order is kept wherever a spec is written down."""
    return [{key: name} for key, name in value.items()] if isinstance(value, dict) else value


def _or_renamed(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """A name, or `{old: new}` with one of each."""
    if not isinstance(value, dict):
        return handler(value)
    if len(value) != 1:
        raise problem(f"must be a name, or one name and its new one as in `output_0: score`, got {described(value)}")
    ((old, new),) = value.items()
    return {handler(old): handler(new)}


def _distinct_names(names: list[Any]) -> list[Any]:
    """No name may occur twice, neither among the old names nor among the new ones."""
    pairs = [(name, name) if isinstance(name, str) else next(iter(name.items())) for name in names]
    for known in zip(*pairs, strict=True):
        if (again := next((name for name in known if known.count(name) > 1), None)) is not None:
            raise problem(f"{shown(again)} is given twice")
    return names


_NAME_SCHEMA = {"type": "string", "minLength": 1}
_RENAMED_SCHEMA = {"type": "object", "additionalProperties": _NAME_SCHEMA, "minProperties": 1}
_ITEM_SCHEMA = {"anyOf": [_NAME_SCHEMA, {**_RENAMED_SCHEMA, "maxProperties": 1}]}
TensorNames = Annotated[
    list[Annotated[FilledLine, WrapValidator(_or_renamed), PlainSerializer(_as_it_is)]],
    list_of("tensor names"),
    BeforeValidator(_one_by_one),  # runs before list_of: of BeforeValidators, pydantic calls the last one first
    AfterValidator(few),
    AfterValidator(_distinct_names),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _ITEM_SCHEMA}, _RENAMED_SCHEMA]}),
]
VariableNames = Annotated[list[FilledLine], list_of("names of variables"), AfterValidator(few), DISTINCT]
Truth = Annotated[bool, BeforeValidator(evaluated), as_scalar("boolean")]
SignatureName = Annotated[str, checked(rules.name_fault), as_pattern(rules.NAME_PATTERN)]


def _limit(value: object) -> object:
    """A finite number, or the text of a symbol plus a number (rules.limit_of)."""
    value = evaluated(value)
    if isinstance(value, str):
        if fault := rules.limit_fault(value):
            raise problem(fault)
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise problem(f"must be a finite number, or a symbol such as `n - 1`, got {described(value)}")
    return value


def _pair(value: object) -> object:
    if not isinstance(value, list) or len(value) != 2:
        raise problem(f"must be the least and the largest number, such as [0, 9], got {described(value)}")
    low, high = map(_limit, value)
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        raise problem(f"must not begin above its end, got [{number(low)}, {number(high)}]")
    return [low, high]


_LIMIT_SCHEMA = {
    "anyOf": [{"type": "number"}, {"type": "string", "pattern": f"^({rules.LIMIT_PATTERN}|{_EXPRESSION})$"}]
}
Ranges = Annotated[
    dict[str, Annotated[list[Any], PlainValidator(_pair), PlainSerializer(_as_it_is)]],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": "array", "items": _LIMIT_SCHEMA, "minItems": 2, "maxItems": 2},
        }
    ),
]


_MOST_CONSTANTS = 4096  # numbers of one input: larger arrays belong into the model's own file
_WANTED_CONSTANT = "must be true, false, a number, or a list of these"


def _constant(value: object) -> object:
    """`value` as it is, if it is an array; expressions become the numbers that they mean."""
    if isinstance(value, Values):
        return value
    shape, found = _flat(value)
    if len(found) > _MOST_CONSTANTS:
        raise problem(f"must have at most {_MOST_CONSTANTS} numbers, got {len(found)}")
    kinds = {type(each) for each in found}
    if bool in kinds and len(kinds) > 1:
        raise problem("must not mix true and false with numbers")
    # One float makes all of them floats, as in NumPy.
    if kinds in ({bool}, {int}):
        return Values(shape=shape, values=tuple(found))
    return Values(shape=shape, values=tuple(float(each) for each in found))


def _flat(value: object) -> tuple[tuple[int, ...], list[Any]]:
    """Shape and elements of nested lists."""
    value = evaluated(value)
    if isinstance(value, list):
        parts = [_flat(each) for each in value]
        if len({shape for shape, _ in parts}) > 1:
            raise problem("must have lists of the same length at each depth")
        inner = parts[0][0] if parts else ()
        return (len(value), *inner), [each for _, found in parts for each in found]
    if not isinstance(value, bool | int | float):
        raise problem(f"{_WANTED_CONSTANT}, got {described(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise problem("must be a finite number")
    # What int64 or uint64 can hold; the type of the input decides later which.
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise problem("must be a number of at most 64 bits")
    return (), [value]


Constants = Annotated[
    dict[str, Annotated[Values, PlainValidator(_constant), PlainSerializer(_as_it_is)]],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["boolean", "number", "array", "string"]}}),
]
