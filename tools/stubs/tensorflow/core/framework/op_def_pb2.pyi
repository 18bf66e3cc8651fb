from google.protobuf.internal.containers import RepeatedCompositeFieldContainer, RepeatedScalarFieldContainer
from google.protobuf.message import Message
from tensorflow.core.framework.attr_value_pb2 import AttrValue

class OpDef(Message):
    class ArgDef(Message):
        name: str
        type: int
        type_attr: str
        number_attr: str
        type_list_attr: str
        is_ref: bool

    class AttrDef(Message):
        name: str
        type: str
        default_value: AttrValue
        allowed_values: AttrValue

    name: str
    input_arg: RepeatedCompositeFieldContainer[OpDef.ArgDef]
    output_arg: RepeatedCompositeFieldContainer[OpDef.ArgDef]
    control_output: RepeatedScalarFieldContainer[str]
    attr: RepeatedCompositeFieldContainer[OpDef.AttrDef]
    is_stateful: bool
