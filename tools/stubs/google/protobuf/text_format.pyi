from typing import TypeVar

from google.protobuf.message import Message

_M = TypeVar("_M", bound=Message)

class ParseError(Exception): ...

def Parse(text: str | bytes, message: _M) -> _M: ...
def MessageToString(message: Message) -> str: ...
