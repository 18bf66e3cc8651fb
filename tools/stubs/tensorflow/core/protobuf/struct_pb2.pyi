from google.protobuf.internal.containers import MessageMap, RepeatedCompositeFieldContainer
from google.protobuf.message import Message
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

class TensorSpecProto(Message):
    name: str
    shape: TensorShapeProto
    dtype: int

class ListValue(Message):
    values: RepeatedCompositeFieldContainer[StructuredValue]

class DictValue(Message):
    fields: MessageMap[str, StructuredValue]

class PairValue(Message):
    key: str
    value: StructuredValue

class NamedTupleValue(Message):
    name: str
    values: RepeatedCompositeFieldContainer[PairValue]

class StructuredValue(Message):
    tensor_spec_value: TensorSpecProto
    list_value: ListValue
    tuple_value: ListValue
    dict_value: DictValue
    named_tuple_value: NamedTupleValue
