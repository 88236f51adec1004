"""A client of `Produce`, and its requests in few words."""

from typing import Any

from support.log_services import ORDERS, Node, Talk

from lograft.broker.produce.produce_service import ProduceLimits, ProduceService
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import PRODUCE


async def producing(node: Node, limits: ProduceLimits | None = None) -> Talk[pb.ProduceResponse]:
    service = ProduceService(node.runtime, node.logs, limits)
    return Talk((await node.serve(service.handlers())).open(PRODUCE), pb.ProduceResponse)


def request(*items: pb.ProduceRequest.Item, acks: int = pb.ACKS_ALL, **fields: Any) -> pb.ProduceRequest:
    return pb.ProduceRequest(items=items, acks=acks, **fields)  # type: ignore[arg-type]


def item(number: int, content: bytes, partition: int = 0, **fields: Any) -> pb.ProduceRequest.Item:
    return pb.ProduceRequest.Item(
        **{"number": number, "topic_id": ORDERS, "partition": partition, "batch": content, **fields}
    )


def numbers(response: pb.ProduceResponse) -> list[int]:
    return [result.number for result in response.results]


def broken(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])
