from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message
from tensorflow.core.framework.function_pb2 import FunctionDefLibrary
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.versions_pb2 import VersionDef

class GraphDef(Message):
    node: RepeatedCompositeFieldContainer[NodeDef]
    versions: VersionDef
    library: FunctionDefLibrary
