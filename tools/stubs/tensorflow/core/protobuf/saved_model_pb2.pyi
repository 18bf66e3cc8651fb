from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message
from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef

class SavedModel(Message):
    saved_model_schema_version: int
    meta_graphs: RepeatedCompositeFieldContainer[MetaGraphDef]
