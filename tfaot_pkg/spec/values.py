"""What the keys of a spec accept, in Python and in the JSON Schema: the types that the settings of types.py name.

Values whose order means nothing are sorted, and other spellings of one value become one, as both must not change the
package's key.
"""

from __future__ import annotations

import math
import sys
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainValidator,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from tfaot_pkg.ground.forms.document import scalar
from tfaot_pkg.ground.forms.form import DISTINCT, FILLED, between, checked, problem
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.ground.wording import described, number, shown
from tfaot_pkg.spec import rules
from tfaot_pkg.spec.expand import Expanded
from tfaot_pkg.spec.rules import Limit
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


def _below_one(value: float) -> float:
    if value >= 1:
        raise problem(f"must be less than 1 (a relative error of 1 accepts any answer near zero), got {number(value)}")
    return value


def _at_most_one(value: float) -> float:
    if value > 1:
        raise problem(f"must be at most 1, got {number(value)}")
    return value


def _few(values: list[Any]) -> list[Any]:
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


def _as_choice(*choices: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"enum": list(choices)}, {"type": "string", "pattern": f"^{_EXPRESSION}$"}]})


def choice(*words: str) -> Any:
    """The type of a value that is one of `words`."""
    wanted = f"{', '.join(words[:-1])} or {words[-1]}"
    fault = checked(lambda given: "" if given in words else f"must be {wanted}, got {shown(given)}")
    return Annotated[str, fault, _as_choice(*words)]


def _integer(lowest: int, highest: int, unit: str = "") -> Any:
    limits = as_scalar("integer", minimum=lowest, maximum=highest)
    return Annotated[int, BeforeValidator(evaluated), between(lowest, highest, unit), limits]


_HEX = "[0-9a-fA-F]"

Text = Annotated[str, checked(rules.text_fault)]
Line = Annotated[str, checked(rules.line_fault)]
FilledLine = Annotated[str, checked(rules.filled_line_fault), WithJsonSchema({"type": "string", "minLength": 1})]
FilePath = Annotated[str, checked(rules.path_fault), as_pattern(r"[^$\\]+")]
Subdir = Annotated[str, checked(rules.subdir_fault), as_pattern(r"(?![/~]|(.*/)?\.\.(/|$))[^$\\]*")]
ModelName = Annotated[str, checked(rules.model_name_fault), as_pattern(rules.NAME_PATTERN)]
SignatureName = Annotated[str, checked(rules.name_fault), as_pattern(rules.NAME_PATTERN)]
OperationName = Annotated[str, checked(rules.operation_fault)]
# A number is allowed in the schema, because 1.10 without quotes is one for YAML; its text is used.
Version = Annotated[str, checked(rules.version_fault), as_pattern(rules.VERSION_PATTERN, types=("string", "number"))]
Homepage = Annotated[str, checked(rules.homepage_fault), as_pattern(r"(https?://.+)?")]
Card = Annotated[str, checked(rules.card_fault)]
Tags = Annotated[list[FilledLine], list_of("strings"), FILLED, AfterValidator(lambda tags: [*dict.fromkeys(tags)])]
Keywords = Annotated[list[FilledLine], list_of("words"), DISTINCT, AfterValidator(_few)]
Feeds = Annotated[list[FilledLine], list_of("names"), DISTINCT, AfterValidator(_few)]
Counts = dict[FilledLine, FilledLine]
Sha256 = Annotated[
    str, checked(rules.digest_fault), AfterValidator(str.lower), as_pattern(_HEX + "{64}", types=("string", "integer"))
]
Revision = Annotated[
    str,
    checked(rules.revision_fault),
    AfterValidator(str.lower),
    as_pattern(_HEX + "{40}", types=("string", "integer")),
]
BatchSize = _integer(1, rules.MAX_BATCH_SIZE, " (larger batches are composed of smaller ones)")
BatchSizes = Annotated[
    list[BatchSize],  # type: ignore[valid-type]
    list_of("integers"),
    FILLED,
    AfterValidator(_few),
    AfterValidator(lambda sizes: sorted(set(sizes))),
]
# An empty name is the model's.
ClassName = Annotated[str, checked(rules.class_name_fault), as_pattern(f"({rules.CLASS_PATTERN})?")]
Namespace = Annotated[str, checked(rules.namespace_fault), as_pattern(rules.NAMESPACE_PATTERN)]
TensorFlow = Annotated[str, checked(rules.tensorflow_fault), as_pattern(rules.TENSORFLOW_PATTERN)]
Targets = Annotated[
    list[Annotated[str, checked(rules.target_fault), _as_choice(*TARGETS)]],
    list_of("target names"),
    FILLED,
    DISTINCT,
    one_architecture("build one package for each"),
    AfterValidator(lambda names: sorted(names, key=lambda name: TARGETS[name].level)),
]
MaxIterations = _integer(0, MAX_ITERATIONS, " (values of all iterations are kept in memory)")
Seed = _integer(0, MAX_SEED)
Samples = _integer(1, MAX_SAMPLES)
Classes = Annotated[
    list[Annotated[str, checked(rules.class_fault), _as_choice(*rules.INPUT_CLASSES)]],
    list_of("classes of inputs"),
    DISTINCT,
    AfterValidator(lambda given: [name for name in rules.INPUT_CLASSES if name in given]),
]
Glibc = Annotated[str, checked(rules.glibc_fault), as_pattern(rules.GLIBC_PATTERN, types=("string", "number"))]
_FLAG_ITEM = as_pattern(rules.FLAG_PATTERN)
Flags = Annotated[
    list[Annotated[str, checked(rules.flag_fault), _FLAG_ITEM]],
    list_of("strings", lone_text=True),
    AfterValidator(_few),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _FLAG_ITEM.json_schema}, {"type": "string"}]}),
]
_Axis = _integer(1, MAX_AXIS)
_EITHER = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": MAX_AXIS},
        {"type": "string", "pattern": f"^({rules.SYMBOL_PATTERN}|{_EXPRESSION})$"},
    ]
}
_Shape = Annotated[
    list[Annotated[_Axis, WrapValidator(_or_symbol), WithJsonSchema(_EITHER)] | None],  # type: ignore[valid-type]
    list_of("integers and null"),
    BeforeValidator(_null_for_batch),
    AfterValidator(_batch_axis_first),
]
Shapes = dict[str, _Shape]
_NUMBER = as_scalar("number", minimum=0)
Number = Annotated[float, BeforeValidator(evaluated), AfterValidator(_tolerance), _NUMBER]
Rtol = Annotated[Number, AfterValidator(_below_one), as_scalar("number", minimum=0, exclusiveMaximum=1)]

Share = Annotated[Number, AfterValidator(_at_most_one), as_scalar("number", minimum=0, maximum=1)]
Quantiles = Annotated[
    dict[str, Number],
    checked(lambda given: next(filter(None, map(rules.quantile_fault, given)), "")),
    WithJsonSchema({"type": "object", "additionalProperties": _NUMBER.json_schema}),
]

Missing = Annotated[
    float,
    BeforeValidator(_missing),
    AfterValidator(_not_infinite),
    # As a text, because JSON has no NaN, and NaN equals nothing: specs are compared, and are parts of keys.
    AfterValidator(repr),
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
    list[Annotated[FilledLine, WrapValidator(_or_renamed)]],
    list_of("tensor names"),
    BeforeValidator(_one_by_one),  # runs before list_of: of BeforeValidators, pydantic calls the last one first
    AfterValidator(_few),
    AfterValidator(_distinct_names),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _ITEM_SCHEMA}, _RENAMED_SCHEMA]}),
]
VariableNames = Annotated[
    list[FilledLine], list_of("names of variables"), AfterValidator(_few), DISTINCT, AfterValidator(sorted)
]
Truth = Annotated[bool, BeforeValidator(evaluated), as_scalar("boolean")]


def _limit(value: object) -> Limit:
    """A finite number, or the text of a symbol plus a number (Limit.read)."""
    value = evaluated(value)
    if isinstance(value, str):
        if fault := rules.limit_fault(value):
            raise problem(fault)
        return Limit.read(value)
    # Not math.isfinite, which fails for integers that are larger than any float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise problem(f"must be a finite number, or a symbol such as `n - 1`, got {described(value)}")
    return Limit(number=value)


def _pair(value: object) -> tuple[Limit, Limit]:
    if not isinstance(value, list) or len(value) != 2:
        raise problem(f"must be the least and the largest number, such as [0, 9], got {described(value)}")
    low, high = map(_limit, value)
    if not low.symbol and not high.symbol and low.number > high.number:
        raise problem(f"must not begin above its end, got [{number(low.number)}, {number(high.number)}]")
    return low, high


_LIMIT_SCHEMA = {
    "anyOf": [{"type": "number"}, {"type": "string", "pattern": f"^({rules.LIMIT_PATTERN}|{_EXPRESSION})$"}]
}
Ranges = Annotated[
    dict[str, Annotated[list[Any], PlainValidator(_pair)]],
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
    dict[str, Annotated[Values, PlainValidator(_constant)]],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["boolean", "number", "array", "string"]}}),
]
