"""A client of `Fetch` that keeps what it was sent, and its requests in few words."""

from collections.abc import Sequence
from typing import Any

from support.log_services import ORDERS, Node, Talk
from support.served_replicas import values_of

from lograft.broker.fetch.fetch_service import FetchLimits, FetchService
from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import FETCH
from lograft.rpc.coded_error import ReplicaError

PLENTY = 2**40
NOT_LEADER = ReplicaError(errors_pb2.NOT_LEADER, "another leads")


class Fetching(Talk[pb.FetchResponse]):
    """A client that keeps what it was sent, by handle."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream, pb.FetchResponse)
        self.data: dict[int, list[pb.FetchResponse.Data]] = {}

    async def ask(self, *add: pb.FetchRequest.Add, **fields: Any) -> None:
        await self.say(pb.FetchRequest(add=add, **fields))

    async def take(self) -> Sequence[pb.FetchResponse.Data]:
        """What the next message that has any brings."""
        data = (await self.hear_until(lambda response: bool(response.data))).data
        for each in data:
            self.data.setdefault(each.handle, []).append(each)
        return data

    def values(self, handle: int) -> list[bytes | None]:
        return values_of(b"".join(each.batches for each in self.data.get(handle, [])))

    async def until(self, handle: int, count: int) -> list[bytes | None]:
        """The partition's records so far, once there are so many."""
        while len(self.values(handle)) < count:
            await self.take()
        return self.values(handle)

    async def error_of(self, handle: int) -> errors_pb2.ErrorDetail:
        while True:
            for each in await self.take():
                if each.handle == handle and each.HasField("error"):
                    return each.error


async def fetching(node: Node, limits: FetchLimits | None = None) -> Fetching:
    service = FetchService(node.runtime, node.logs, limits)
    return Fetching((await node.serve(service.handlers())).open(FETCH))


def add(handle: int, partition: int = 0, offset: int = 0, **fields: Any) -> pb.FetchRequest.Add:
    return pb.FetchRequest.Add(
        **{"handle": handle, "topic_id": ORDERS, "partition": partition, "offset": offset, **fields}
    )


def seek(handle: int, offset: int, number: int) -> pb.FetchRequest.Seek:
    return pb.FetchRequest.Seek(handle=handle, offset=offset, number=number)
