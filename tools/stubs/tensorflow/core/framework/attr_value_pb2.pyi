from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.message import Message
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

class AttrValue(Message):
    class ListValue(Message):
        s: RepeatedScalarFieldContainer[bytes]
        i: RepeatedScalarFieldContainer[int]
        f: RepeatedScalarFieldContainer[float]
        b: RepeatedScalarFieldContainer[bool]
        type: RepeatedScalarFieldContainer[int]
        shape: RepeatedCompositeFieldContainer[TensorShapeProto]
        tensor: RepeatedCompositeFieldContainer[TensorProto]
        func: RepeatedCompositeFieldContainer[NameAttrList]

    s: bytes
    i: int
    f: float
    b: bool
    type: int
    shape: TensorShapeProto
    tensor: TensorProto
    list: AttrValue.ListValue
    func: NameAttrList
    placeholder: str

class NameAttrList(Message):
    name: str
    attr: MessageMap[str, AttrValue]
