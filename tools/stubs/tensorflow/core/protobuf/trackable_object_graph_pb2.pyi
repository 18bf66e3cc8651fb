from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message

class TrackableObjectGraph(Message):
    class TrackableObject(Message):
        class ObjectReference(Message):
            node_id: int
            local_name: str

        class SerializedTensor(Message):
            name: str
            full_name: str
            checkpoint_key: str

        children: RepeatedCompositeFieldContainer[TrackableObjectGraph.TrackableObject.ObjectReference]
        attributes: RepeatedCompositeFieldContainer[TrackableObjectGraph.TrackableObject.SerializedTensor]

    nodes: RepeatedCompositeFieldContainer[TrackableObjectGraph.TrackableObject]
