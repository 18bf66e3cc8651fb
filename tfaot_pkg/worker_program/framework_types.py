"""Types of the frameworks' objects, by short names: for annotations alone, so modules import them under TYPE_CHECKING.

Messages of Protocol Buffers have the fields that tools/stubs describes. All other objects of frameworks have no types
that hold for every release that runs this program: those are `Any` under a name that says what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from google.protobuf.internal.containers import MessageMap as MessageMap
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer as _RepeatedComposite
    from google.protobuf.message import Message as Message
    from tensorflow.compiler.tf2xla.tf2xla_pb2 import Config as Config
    from tensorflow.compiler.tf2xla.tf2xla_pb2 import TensorId as TensorId
    from tensorflow.core.framework.attr_value_pb2 import AttrValue as AttrValue
    from tensorflow.core.framework.attr_value_pb2 import NameAttrList as NameAttrList
    from tensorflow.core.framework.function_pb2 import FunctionDef as FunctionDef
    from tensorflow.core.framework.function_pb2 import FunctionDefLibrary as FunctionDefLibrary
    from tensorflow.core.framework.graph_pb2 import GraphDef as GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef as NodeDef
    from tensorflow.core.framework.op_def_pb2 import OpDef as OpDef
    from tensorflow.core.framework.tensor_pb2 import TensorProto as TensorProto
    from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto as TensorShapeProto
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef as MetaGraphDef
    from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef as SignatureDef
    from tensorflow.core.protobuf.meta_graph_pb2 import TensorInfo as TensorInfo
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel as SavedModel
    from tensorflow.core.protobuf.saved_object_graph_pb2 import SavedObject as SavedObject
    from tensorflow.core.protobuf.saved_object_graph_pb2 import SavedObjectGraph as SavedObjectGraph
    from tensorflow.core.protobuf.struct_pb2 import StructuredValue as StructuredValue
    from tensorflow.core.protobuf.struct_pb2 import TensorSpecProto as TensorSpecProto
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph as TrackableObjectGraph

    RepeatedComposite = _RepeatedComposite

    Nodes: TypeAlias = RepeatedComposite[NodeDef]
    """Nodes of a GraphDef or of a function's body, to which further ones can be added."""

Report: TypeAlias = Callable[[float, str], None]
"""Reports progress: the number of further steps that are done, and a note."""

Array: TypeAlias = npt.NDArray[Any]
"""An array of NumPy whose type of elements is only known when it runs."""

Bools: TypeAlias = npt.NDArray[np.bool_]

ConcreteFunction: TypeAlias = Any
"""A `ConcreteFunction` of TensorFlow, or what `wrap_function` makes."""

CheckpointReader: TypeAlias = Any
"""What `tf.train.load_checkpoint` returns."""

Keras: TypeAlias = Any
"""The module of Keras 2 or 3."""

KerasModel: TypeAlias = Any

KerasLayer: TypeAlias = Any

Session: TypeAlias = Any
"""An `onnxruntime.InferenceSession`, or what has its `run` (from_onnx/authored_nodes.py)."""
