from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

_F = TypeVar("_F", bound=Callable[..., Any])

# Their operators and attributes depend on dtypes, on versions, and on whether they are symbolic or eager.
Tensor: TypeAlias = Any
TensorShape: TypeAlias = Any
TensorSpec: TypeAlias = Any
DType: TypeAlias = Any
Operation: TypeAlias = Any
Graph: TypeAlias = Any
Variable: TypeAlias = Any

# What it returns is called like the function, and has `get_concrete_function` besides.
@overload
def function(
    func: Callable[..., Any],
    /,
    *,
    input_signature: Sequence[TensorSpec] | None = ...,
    autograph: bool = ...,
    jit_compile: bool | None = ...,
) -> Any: ...
@overload
def function(
    *, input_signature: Sequence[TensorSpec] | None = ..., autograph: bool = ..., jit_compile: bool | None = ...
) -> Callable[[_F], _F]: ...
def __getattr__(name: str) -> Any: ...
