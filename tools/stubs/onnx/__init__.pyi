from typing import Any

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer, RepeatedScalarFieldContainer
from google.protobuf.message import Message

class StringStringEntryProto(Message):
    key: str
    value: str

class OperatorSetIdProto(Message):
    domain: str
    version: int

class TensorShapeProto(Message):
    class Dimension(Message):
        dim_value: int
        dim_param: str

    dim: RepeatedCompositeFieldContainer[TensorShapeProto.Dimension]

class TypeProto(Message):
    class Tensor(Message):
        elem_type: int
        shape: TensorShapeProto

    class Sequence(Message):
        elem_type: TypeProto

    tensor_type: TypeProto.Tensor
    sequence_type: TypeProto.Sequence

class ValueInfoProto(Message):
    name: str
    type: TypeProto

class TensorProto(Message):
    FLOAT: int
    DOUBLE: int
    INT64: int
    STRING: int
    name: str
    data_type: int
    dims: RepeatedScalarFieldContainer[int]
    string_data: RepeatedScalarFieldContainer[bytes]

class SparseTensorProto(Message):
    values: TensorProto
    indices: TensorProto
    dims: RepeatedScalarFieldContainer[int]

class AttributeProto(Message):
    INT: int
    INTS: int
    TENSOR: int
    GRAPH: int
    SPARSE_TENSOR: int
    TYPE_PROTO: int
    TYPE_PROTOS: int
    name: str
    type: int
    i: int
    f: float
    s: bytes
    t: TensorProto
    g: GraphProto
    graphs: RepeatedCompositeFieldContainer[GraphProto]
    sparse_tensor: SparseTensorProto
    ints: RepeatedScalarFieldContainer[int]
    floats: RepeatedScalarFieldContainer[float]
    strings: RepeatedScalarFieldContainer[bytes]

class NodeProto(Message):
    name: str
    op_type: str
    domain: str
    overload: str
    input: RepeatedScalarFieldContainer[str]
    output: RepeatedScalarFieldContainer[str]
    attribute: RepeatedCompositeFieldContainer[AttributeProto]
    metadata_props: RepeatedCompositeFieldContainer[StringStringEntryProto]

class GraphProto(Message):
    node: RepeatedCompositeFieldContainer[NodeProto]
    input: RepeatedCompositeFieldContainer[ValueInfoProto]
    output: RepeatedCompositeFieldContainer[ValueInfoProto]
    value_info: RepeatedCompositeFieldContainer[ValueInfoProto]
    initializer: RepeatedCompositeFieldContainer[TensorProto]
    sparse_initializer: RepeatedCompositeFieldContainer[SparseTensorProto]

class FunctionProto(Message):
    name: str
    domain: str
    overload: str
    node: RepeatedCompositeFieldContainer[NodeProto]

class ModelProto(Message):
    graph: GraphProto
    functions: RepeatedCompositeFieldContainer[FunctionProto]
    opset_import: RepeatedCompositeFieldContainer[OperatorSetIdProto]
    metadata_props: RepeatedCompositeFieldContainer[StringStringEntryProto]
    producer_name: str
    producer_version: str

def __getattr__(name: str) -> Any: ...
