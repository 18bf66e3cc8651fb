from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message

class TensorShapeProto(Message):
    class Dim(Message):
        size: int
        name: str

    dim: RepeatedCompositeFieldContainer[TensorShapeProto.Dim]
    unknown_rank: bool
