"""Keeps a member in its group: sends the member's heartbeats and hands it the coordinator's answers."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from lograft.clients.consumer.group.coordinator_client import GroupCoordinator
from lograft.clients.consumer.group.member import Beat, BeatAnswer, GroupMember, GroupPartition
from lograft.clients.errors import LograftError
from lograft.proto import groups_pb2 as pb
from lograft.proto.methods import GROUP_HEARTBEAT
from lograft.runtime.clock import Clock
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.cancellation import until_first_ends

log = get_logger(__name__)

_ATTEMPTS_A_SESSION = 8  # for a heartbeat that asks for an immediate answer


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """The constant part of a member's heartbeats."""

    instance_id: str
    assignor: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    rack: str


class GroupHeartbeat:
    """Call `wake` after every change of the member. It calls `on_change` when an answer or a timeout changed the
    member. `names`: the names of assigned topics by id, as far as the coordinator sent them."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        member: GroupMember,
        identity: MemberIdentity,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self.names: dict[bytes, str] = {}
        self._coordinator = coordinator
        self._member = member
        self._identity = identity
        self._clock = clock
        self._on_change = on_change
        self._woken = asyncio.Event()
        self._is_urgent = False
        self._sent = 0  # beats
        self._heard = 0  # the number of the latest beat that was answered or refused
        self._news = asyncio.Event()  # set, and replaced by a new one, after every answer, refusal and loss

    def wake(self) -> None:
        self._woken.set()

    async def confirm(self) -> None:
        """Wait until the coordinator answers a beat sent from now on, or the member leaves the group."""
        number = self._sent + 1
        self._is_urgent = True
        self._woken.set()
        while self._heard < number and self._member.is_in_group:
            await self._news.wait()

    async def said_farewell(self) -> None:
        """Wait until the last beat, which leaves the group, was answered or refused."""
        while self._member.beat is not None:
            await self._news.wait()

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        wait = self._coordinator.retry_wait()
        while True:
            self._woken.clear()
            self._tick()
            beat = self._next_beat()
            if beat is None:
                await self._sleep_until(self._member.due_ms)
                continue
            try:
                await self._say(beat)
                wait.succeeded()
            except LograftError as error:
                self._refused(beat, error)
                if error.retriable:
                    self._is_urgent = True  # find out quickly whether a coordinator is reachable
                    await self._clock.sleep_ms(wait.next_ms())

    def _tick(self) -> None:
        before = self._member.generation
        self._member.tick(self._clock.monotonic_ms())
        if self._member.generation != before:
            log.warning("group_partitions_lost", group=self._coordinator.group, reason="nothing heard, or not polled")
            self._tell()

    def _next_beat(self) -> Beat | None:
        beat = self._member.beat
        if not self._is_urgent or beat is None:
            return self._member.next_beat(self._clock.monotonic_ms())
        self._is_urgent = False
        return replace(beat, max_wait_ms=0)

    async def _sleep_until(self, due_ms: float) -> None:
        delay_ms = due_ms - self._clock.monotonic_ms()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(delay_ms, 0) / 1000 if delay_ms != float("inf") else None):
                await self._woken.wait()

    # -- one beat

    async def _say(self, beat: Beat) -> None:
        """Send the beat, and wait until it is answered or outdated."""
        self._sent += 1
        await until_first_ends(self._call(beat, self._sent), self._outdated(beat))

    async def _call(self, beat: Beat, number: int) -> None:
        sent_ms = self._clock.monotonic_ms()
        attempt_ms = beat.max_wait_ms + self._identity.session_timeout_ms // _ATTEMPTS_A_SESSION
        answer = await self._coordinator.call_once(
            GROUP_HEARTBEAT, self._request(beat), pb.GroupHeartbeatResponse, attempt_ms
        )
        if not _same(self._member.beat, beat):
            return  # the member has changed since this beat
        self._member.answered(beat, self._read(answer), sent_ms)
        self._heard = number
        self._tell()

    async def _outdated(self, beat: Beat) -> None:
        while _same(self._member.beat, beat) and not self._is_urgent:
            self._woken.clear()
            await self._sleep_until(self._member.over_ms)
            self._tick()

    def _refused(self, beat: Beat, error: LograftError) -> None:
        log.info("group_heartbeat_refused", group=self._coordinator.group, epoch=beat.epoch, reason=str(error))
        if _same(self._member.beat, beat):
            self._member.refused(beat, error)
        if not error.retriable:
            self._heard = self._sent
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
        self._on_change()

    # -- on the wire

    def _request(self, beat: Beat) -> pb.GroupHeartbeatRequest:
        identity = self._identity
        owned: dict[bytes, list[int]] = {}
        for topic_id, number in beat.owned:
            owned.setdefault(topic_id, []).append(number)
        return pb.GroupHeartbeatRequest(
            group=self._coordinator.group,
            member_id=beat.member_id,
            member_epoch=beat.epoch,
            instance_id=identity.instance_id,
            topics=beat.topics,
            owned=[pb.GroupTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in owned.items()],
            assignor=identity.assignor,
            session_timeout_ms=identity.session_timeout_ms,
            rebalance_timeout_ms=identity.rebalance_timeout_ms,
            max_wait_ms=beat.max_wait_ms,
            client_id=identity.client_id,
            rack=identity.rack,
        )

    def _read(self, answer: pb.GroupHeartbeatResponse) -> BeatAnswer:
        self.names |= {topic.topic_id: topic.name for topic in answer.assigned if topic.name}
        return BeatAnswer(
            answer.member_epoch,
            tuple(GroupPartition(topic.topic_id, number) for topic in answer.assigned for number in topic.partitions),
            answer.heartbeat_interval_ms,
        )


def _same(beat: Beat | None, other: Beat) -> bool:
    """Return True if the beats are equal except for `max_wait_ms`."""
    return beat is not None and replace(beat, max_wait_ms=other.max_wait_ms) == other
