"""Store a record and read it back without lograft's client: plain gRPC, with message types from the server's
reflection.

python examples/plain_grpc.py localhost:9092 orders
"""

import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


class PlainClient:
    """Calls any unary method of a server that supports reflection."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))

    def call(self, service: str, method: str, **fields: object) -> object:
        described = self._pool.FindServiceByName(service).methods_by_name[method]
        request_class, response_class = GetMessageClass(described.input_type), GetMessageClass(described.output_type)
        call = self._channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=request_class.SerializeToString,
            response_deserializer=response_class.FromString,
        )
        return call(request_class(**fields), timeout=10)


def leader_address(client: PlainClient, topic: str) -> str:
    """Return the address of the broker that leads partition 0."""
    cluster = client.call("lograft.v1.Cluster", "Describe", topics=[topic])
    leader = cluster.topics[0].partitions[0].leader
    return next(broker.address for broker in cluster.brokers if broker.id == leader)


def main(address: str, topic: str) -> None:
    with grpc.insecure_channel(address) as channel:
        leader = leader_address(PlainClient(channel), topic)
    with grpc.insecure_channel(leader) as channel:
        client = PlainClient(channel)
        record = {"key": b"k", "value": b"from plain gRPC", "headers": [{"key": "trace", "value": b"1"}]}
        stored = client.call("lograft.v1.Log", "Append", topic=topic, partition=0, records=[record])
        print(f"stored at offset {stored.base_offset}")
        read = client.call("lograft.v1.Log", "Read", topic=topic, partition=0, offset=stored.base_offset, wait_ms=5000)
        for each in read.records:
            print(f"read {each.offset}: {each.value.decode()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
