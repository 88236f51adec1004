"""Sends a producer's batches to the leaders of their partitions."""

import asyncio
import contextlib
from collections.abc import Callable

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.errors import LograftError, UnknownTopicId
from lograft.clients.producer.pipeline.accumulator import Accumulator
from lograft.clients.producer.pipeline.broker_stream import ProduceSettings, ProduceStream
from lograft.clients.producer.pipeline.metrics import ProducerCounters
from lograft.clients.producer.pipeline.partition_queue import ProducerIdentity
from lograft.clients.producer.pipeline.pending_batch import PartitionKey
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import INIT_PRODUCER

# The longest sleep, as a safety net against missed wake-ups.
_LOOK_EVERY_MS = 1000


class Sender:
    """`run` sends the accumulator's batches until cancelled. Call `wake` after adding records."""

    def __init__(self, cluster: ClusterClient, accumulator: Accumulator, settings: ProduceSettings) -> None:
        self._cluster = cluster
        self._clock = cluster.runtime.clock
        self._accumulator = accumulator
        self._settings = settings
        self.counters = ProducerCounters(self._clock.monotonic_ms())
        accumulator.when_settled = self.counters.settled
        self._lines: dict[int, ProduceStream] = {}
        self._woken = asyncio.Event()
        self._metadata_changed = False
        self._identifying: asyncio.Task[None] | None = None
        self.when_progress: Callable[[], None] | None = None
        self.progress = asyncio.Event()  # set, and replaced, whenever batches may be settled
        cluster.listen(self._hear_metadata)

    def wake(self) -> None:
        self._woken.set()

    def _hear_metadata(self) -> None:
        self._metadata_changed = True
        self._woken.set()

    def tell_progress(self) -> None:
        self.progress.set()
        self.progress = asyncio.Event()
        if self.when_progress is not None:
            self.when_progress()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._woken.clear()
                wake_ms = self._dispatch(group)
                self.tell_progress()
                await self._sleep_until(wake_ms)

    async def _sleep_until(self, wake_ms: float) -> None:
        delay_ms = min(wake_ms - self._clock.monotonic_ms(), _LOOK_EVERY_MS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(delay_ms, 0) / 1000):
                await self._woken.wait()

    def _dispatch(self, group: asyncio.TaskGroup) -> float:
        """Hand batches to the streams of their leaders. Return when to check again at the latest."""
        now_ms = self._clock.monotonic_ms()
        self._accumulator.expire(now_ms)
        if self._metadata_changed:
            self._metadata_changed = False
            self._heed_metadata()
        if self._accumulator.wants_identity and self._identifying is None:
            self._identifying = group.create_task(self._identify(), name="init-producer")
        moments: list[float] = []
        for key in self._accumulator.partitions:
            at_ms = self._accumulator.sendable_at_ms(key)
            if at_ms is None:
                continue
            if at_ms > now_ms:
                moments.append(at_ms)
            else:
                self._hand_over(key, group)
        expiry_ms = self._accumulator.expires_at_ms()
        return min([*moments, expiry_ms if expiry_ms is not None else now_ms + _LOOK_EVERY_MS])

    def _heed_metadata(self) -> None:
        """React to moved leaders and deleted topics."""
        for line in self._lines.values():
            line.recall()
        for key in self._accumulator.partitions:
            leader = self._cluster.view.leader(*key)
            if leader is None:
                self._accumulator.abandon(key, UnknownTopicId("the topic was deleted"))
            elif (queue := self._accumulator.queue(key)) is not None:
                queue.leader_seen(leader.epoch)

    def _hand_over(self, key: PartitionKey, group: asyncio.TaskGroup) -> None:
        leader = self._cluster.view.leader(*key)
        if leader is None or leader.broker_id is None:
            return  # wait for metadata with a leader
        line = self._lines.get(leader.broker_id)
        if line is None:
            line = ProduceStream(
                self._cluster, self._accumulator, leader.broker_id, self._settings, self.counters, self.wake
            )
            self._lines[leader.broker_id] = line
            group.create_task(line.run(), name=f"produce-to-{leader.broker_id}")
        line.want(key)

    async def _identify(self) -> None:
        request = pb.InitProducerRequest(client_id=self._settings.client_id)
        try:
            answer = await self._cluster.call_any(INIT_PRODUCER, request, pb.InitProducerResponse, repeatable=True)
            self._accumulator.identify(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        except LograftError as error:
            for key in self._accumulator.partitions:
                self._accumulator.abandon(key, error)
        finally:
            self._identifying = None
            self._woken.set()
