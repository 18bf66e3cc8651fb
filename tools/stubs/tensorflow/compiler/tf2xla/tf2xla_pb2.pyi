from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

class TensorId(Message):
    node_name: str
    output_index: int

class Feed(Message):
    id: TensorId
    shape: TensorShapeProto
    name: str
    type: int

class Fetch(Message):
    id: TensorId
    name: str
    shape: TensorShapeProto
    type: int

class Variable(Message):
    node_name: str
    name: str
    shape: TensorShapeProto
    type: int
    readonly: bool

class Config(Message):
    feed: RepeatedCompositeFieldContainer[Feed]
    fetch: RepeatedCompositeFieldContainer[Fetch]
    variable: RepeatedCompositeFieldContainer[Variable]
