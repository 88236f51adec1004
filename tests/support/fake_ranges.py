"""`ReadRange` on fake brokers, a message at a time, with whatever a test has happen between two.

ranges = FakeRanges(cluster)
ranges.before_message = lambda broker, offset: cluster.move_leader("orders", 0, 2) if offset == 40 else None
ranges.requests           # (broker, request), in order
ranges.open_streams       # how many there are now
"""

from collections.abc import Callable, Mapping
from functools import partial

from support.fake_log_service import FakeCluster, FakeLog, Refused, refused

from lograft.proto import errors_pb2
from lograft.proto import log_pb2 as pb
from lograft.proto.errors import ERRORS
from lograft.proto.methods import READ_RANGE
from lograft.runtime.network import Handler, Status, Stream, StreamError


class FakeRanges:
    """`before_message(broker, offset)` may raise `Refused`, or anything that breaks the stream. `answer` makes the
    message, and may be replaced to have lies told."""

    def __init__(self, cluster: FakeCluster, *, message_bytes: int = 1) -> None:
        self.cluster = cluster
        self.message_bytes = message_bytes  # 1: a batch a message
        self.requests: list[tuple[int, pb.ReadRangeRequest]] = []
        self.open_streams = 0
        self.before_message: Callable[[int, int], object] = lambda broker, offset: None
        self.answer: Callable[[FakeLog, int, int], pb.ReadRangeResponse] = self.honest_answer
        cluster.more_handlers = self._handlers

    @property
    def asked(self) -> list[tuple[int, int]]:
        """Which broker was asked, and from which offset on."""
        return [(broker, request.start) for broker, request in self.requests]

    def honest_answer(self, log: FakeLog, position: int, end: int) -> pb.ReadRangeResponse:
        batches, found = log.read(position, self.message_bytes)
        following = min(found, end)
        return pb.ReadRangeResponse(
            batches=batches, start_offset=position, next_offset=following, high_watermark=log.end,
            is_last=following >= end,
        )  # fmt: skip

    def _handlers(self, number: int) -> Mapping[str, Handler]:
        return {READ_RANGE: partial(self._serve, number)}

    async def _serve(self, number: int, stream: Stream) -> None:
        self.open_streams += 1
        try:
            data = await stream.receive()
            assert data is not None
            request = pb.ReadRangeRequest.FromString(data)
            self.requests.append((number, request))
            await self._send(number, request, stream)
        except Refused as refusal:
            detail = refusal.detail
            status = Status[ERRORS[detail.code].grpc_status]
            raise StreamError(status, detail.message, detail.SerializeToString()) from None
        finally:
            self.open_streams -= 1

    async def _send(self, number: int, request: pb.ReadRangeRequest, stream: Stream) -> None:
        position, is_last = request.start, False
        while not is_last:
            self.before_message(number, position)
            if number not in self.cluster.brokers:
                raise StreamError(Status.UNAVAILABLE, "this broker was killed")
            log = self._served(number, request)
            log.check(position)
            log.check(request.end)
            answer = self.answer(log, position, request.end)
            position, is_last = answer.next_offset, answer.is_last
            answer.batches = self.cluster.spoil(number, answer.batches)
            await stream.send(answer.SerializeToString())

    def _served(self, number: int, request: pb.ReadRangeRequest) -> FakeLog:
        broker = self.cluster.brokers[number]
        log = broker._find(request.topic_id, request.partition)
        if request.from_follower and log is not None:
            if number in log.in_sync and request.leader_epoch == log.epoch:
                return log
            raise refused(errors_pb2.OFFSET_NOT_AVAILABLE, "this broker follows, and is behind")
        return broker._led(request.topic_id, request.partition, request.leader_epoch)
