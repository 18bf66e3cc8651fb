from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.message import Message
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.protobuf.struct_pb2 import StructuredValue
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

class SavedVariable(Message):
    dtype: int
    shape: TensorShapeProto
    name: str

class SavedConstant(Message):
    operation: str

class SavedFunction(Message):
    concrete_functions: RepeatedScalarFieldContainer[str]

class SavedBareConcreteFunction(Message):
    concrete_function_name: str

class SavedConcreteFunction(Message):
    bound_inputs: RepeatedScalarFieldContainer[int]
    canonicalized_input_signature: StructuredValue
    output_signature: StructuredValue

class SavedObject(Message):
    children: RepeatedCompositeFieldContainer[TrackableObjectGraph.TrackableObject.ObjectReference]
    variable: SavedVariable
    constant: SavedConstant
    function: SavedFunction
    bare_concrete_function: SavedBareConcreteFunction

class SavedObjectGraph(Message):
    nodes: RepeatedCompositeFieldContainer[SavedObject]
    concrete_functions: MessageMap[str, SavedConcreteFunction]
