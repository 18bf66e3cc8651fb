from google.protobuf.internal.containers import MessageMap, RepeatedScalarFieldContainer
from google.protobuf.message import Message
from tensorflow.core.framework.attr_value_pb2 import AttrValue

class NodeDef(Message):
    name: str
    op: str
    device: str
    input: RepeatedScalarFieldContainer[str]
    attr: MessageMap[str, AttrValue]
