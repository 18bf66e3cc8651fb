from google.protobuf.internal.containers import RepeatedScalarFieldContainer
from google.protobuf.message import Message
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

class TensorProto(Message):
    dtype: int
    tensor_shape: TensorShapeProto
    tensor_content: bytes
    string_val: RepeatedScalarFieldContainer[bytes]
    bool_val: RepeatedScalarFieldContainer[bool]
    int_val: RepeatedScalarFieldContainer[int]
    int64_val: RepeatedScalarFieldContainer[int]
    float_val: RepeatedScalarFieldContainer[float]
    double_val: RepeatedScalarFieldContainer[float]
