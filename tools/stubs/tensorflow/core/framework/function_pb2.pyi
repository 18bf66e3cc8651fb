from google.protobuf.internal.containers import MessageMap, RepeatedCompositeFieldContainer, ScalarMap
from google.protobuf.message import Message
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.op_def_pb2 import OpDef

class FunctionDef(Message):
    class ArgAttrs(Message):
        attr: MessageMap[str, AttrValue]

    signature: OpDef
    attr: MessageMap[str, AttrValue]
    arg_attr: MessageMap[int, FunctionDef.ArgAttrs]
    resource_arg_unique_id: ScalarMap[int, int]
    node_def: RepeatedCompositeFieldContainer[NodeDef]
    ret: ScalarMap[str, str]
    control_ret: ScalarMap[str, str]

class GradientDef(Message):
    function_name: str
    gradient_func: str

class FunctionDefLibrary(Message):
    function: RepeatedCompositeFieldContainer[FunctionDef]
    gradient: RepeatedCompositeFieldContainer[GradientDef]
