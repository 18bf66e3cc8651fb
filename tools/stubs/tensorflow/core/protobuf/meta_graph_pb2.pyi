from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedScalarFieldContainer,
)
from google.protobuf.message import Message
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.protobuf.saved_object_graph_pb2 import SavedObjectGraph

class TensorInfo(Message):
    name: str
    dtype: int
    tensor_shape: TensorShapeProto

class SignatureDef(Message):
    inputs: MessageMap[str, TensorInfo]
    outputs: MessageMap[str, TensorInfo]
    method_name: str

class CollectionDef(Message):
    class NodeList(Message):
        value: RepeatedScalarFieldContainer[str]

    node_list: CollectionDef.NodeList

class SaverDef(Message):
    restore_op_name: str

class MetaGraphDef(Message):
    class MetaInfoDef(Message):
        tags: RepeatedScalarFieldContainer[str]

    meta_info_def: MetaGraphDef.MetaInfoDef
    graph_def: GraphDef
    saver_def: SaverDef
    signature_def: MessageMap[str, SignatureDef]
    collection_def: MessageMap[str, CollectionDef]
    object_graph_def: SavedObjectGraph
