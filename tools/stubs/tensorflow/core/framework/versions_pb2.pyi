from google.protobuf.message import Message

class VersionDef(Message):
    producer: int
    min_consumer: int
