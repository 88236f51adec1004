"""Asks partition leaders for start offsets, end offsets, and offsets by time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.errors import LograftError, UnknownTopicId, error_of
from lograft.clients.types import TopicPartition
from lograft.proto import log_pb2 as pb
from lograft.proto.methods import LIST_OFFSETS
from lograft.runtime.network import ConnectFailed
from lograft.runtime.tasks.retry import ExponentialWait, TryAgain, retrying

EARLIEST = pb.ListOffsetsRequest.EARLIEST
LATEST = pb.ListOffsetsRequest.LATEST
AT_TIME = pb.ListOffsetsRequest.AT_TIME

_FIRST_RETRY_MS = 20
_LAST_RETRY_MS = 300


@dataclass(frozen=True, slots=True)
class OffsetQuestion:
    """A question about one partition. `timestamp`: in milliseconds, for AT_TIME only."""

    topic_id: bytes
    kind: pb.ListOffsetsRequest.Kind
    timestamp: int = 0


@dataclass(slots=True)
class OffsetAnswers:
    """`found`: offsets, None where there is no such record. `errors`: final refusals. Partitions in neither can be
    retried."""

    found: dict[TopicPartition, int | None] = field(default_factory=dict)
    errors: dict[TopicPartition, LograftError] = field(default_factory=dict)


class OffsetLookup:
    """`look_again` refreshes the leaders, for a client that does not follow the cluster's metadata."""

    def __init__(self, cluster: ClusterClient, look_again: Callable[[], Awaitable[object]] | None = None) -> None:
        self._cluster = cluster
        self._look_again = look_again

    async def find(self, questions: Mapping[TopicPartition, OffsetQuestion]) -> dict[TopicPartition, int | None]:
        """Ask until all offsets are found; the caller bounds the time. Raise the first final refusal."""
        runtime = self._cluster.runtime
        found: dict[TopicPartition, int | None] = {}
        async for attempt in retrying(
            runtime.clock, ExponentialWait(runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS), on=()
        ):
            with attempt:
                if attempt.retry_state.attempt_number > 1 and self._look_again is not None:
                    await self._look_again()
                answers = await self.ask({name: asked for name, asked in questions.items() if name not in found})
                for error in answers.errors.values():
                    raise error
                found.update(answers.found)
                if len(found) < len(questions):
                    raise TryAgain
        return {name: found[name] for name in questions}

    async def ask(
        self, questions: Mapping[TopicPartition, OffsetQuestion], answers: OffsetAnswers | None = None
    ) -> OffsetAnswers:
        """Ask all leaders once, concurrently. Add answers to `answers` as they arrive."""
        answers = answers if answers is not None else OffsetAnswers()
        by_leader: dict[int, dict[TopicPartition, OffsetQuestion]] = {}
        for name, question in questions.items():
            leader = self._cluster.view.leader(question.topic_id, name.partition)
            if leader is None:
                answers.errors[name] = UnknownTopicId(f"topic {name.topic!r} was deleted")
            elif leader.broker_id is not None:
                by_leader.setdefault(leader.broker_id, {})[name] = question
        async with asyncio.TaskGroup() as group:
            for broker_id, asked in by_leader.items():
                group.create_task(self._ask_leader(broker_id, asked, answers))
        return answers

    async def _ask_leader(
        self, broker_id: int, questions: Mapping[TopicPartition, OffsetQuestion], answers: OffsetAnswers
    ) -> None:
        request = pb.ListOffsetsRequest()
        for name, question in questions.items():
            leader = self._cluster.view.leader(question.topic_id, name.partition)
            request.items.add(
                topic_id=question.topic_id,
                partition=name.partition,
                leader_epoch=leader.epoch if leader is not None else None,
                kind=question.kind,
                timestamp=question.timestamp,
            )
        try:
            response = await self._cluster.call_broker(broker_id, LIST_OFFSETS, request, pb.ListOffsetsResponse)
        except ConnectFailed:
            return
        except LograftError as error:
            if not error.retriable:
                answers.errors.update(dict.fromkeys(questions, error))
            return
        for (name, question), result in zip(questions.items(), response.results, strict=True):
            self._take(name, question, result, answers)

    def _take(
        self,
        name: TopicPartition,
        question: OffsetQuestion,
        result: pb.ListOffsetsResponse.Result,
        answers: OffsetAnswers,
    ) -> None:
        if not result.HasField("error"):
            answers.found[name] = result.offset if result.HasField("offset") else None
            return
        error = error_of(result.error)
        self._cluster.hinted(question.topic_id, name.partition, error)
        if not error.retriable:
            answers.errors[name] = error
