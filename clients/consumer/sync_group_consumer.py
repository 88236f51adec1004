"""What a consumer has to do with groups, for ordinary functions."""

import inspect
import re
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from lograft.clients.cluster.sync_client import SyncClient
from lograft.clients.consumer import aio_consumer
from lograft.clients.consumer.aio_group_consumer import CommitCallback, GroupMetadata
from lograft.clients.consumer.group.offset_commits import GivenOffsets
from lograft.clients.consumer.group.rebalance_listener import RebalanceListener
from lograft.clients.errors import ClientClosed, InvalidArgument
from lograft.clients.types import TopicPartition
from lograft.runtime.tasks.loop_thread import CallBacks, LoopLost

T = TypeVar("T")
P = ParamSpec("P")


class GroupConsumer(SyncClient):
    """The consumer is this, and more."""

    def __init__(self, inner: aio_consumer.Consumer) -> None:
        super().__init__()
        self._inner = inner
        self._call_backs = CallBacks(self._loop)
        self._has_listener = False
        # It must not know of this, which could never be dropped then.
        inner.call_listener = partial(_call_listener, self._call_backs)

    def _call(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **named: P.kwargs) -> T:
        """As `_wait`, for what may have to call a listener, in this thread."""
        if not self._has_listener:
            return self._wait(function, *arguments, **named)
        try:
            return self._call_backs.run(function, *arguments, **named)
        except LoopLost as error:
            raise ClientClosed(str(error)) from None

    # -- subscribing

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Share these topics with the other members of the group; instead of those that were subscribed to before. A
        pattern has to match the whole name; it is matched anew as topics come and go, and never with internal ones.
        `listener` is told which partitions come and go, by the thread that polls, while it does."""
        self._call(self._inner.subscribe, topics, listener)
        self._has_listener = listener is not None

    def subscription(self) -> list[str]:
        """The names of the topics that are subscribed to: for a pattern, those that it matches now."""
        return self._inner.subscription()

    def unsubscribe(self) -> None:
        """Read nothing any more. A member gives up its partitions, as in a rebalance, and leaves its group."""
        self._call(self._inner.unsubscribe)

    @property
    def member_id(self) -> str:
        """In its group; empty if it is no member."""
        return self._inner.member_id

    def group_metadata(self) -> GroupMetadata:
        """Who this is in its group."""
        return self._inner.group_metadata()

    # -- commits

    def commit(self, offsets: GivenOffsets | None = None) -> None:
        """Keep how far the group has come: these offsets, each of the next record to read; or behind all that was
        given. `CommitFailed`: the partitions are not this member's any more."""
        self._wait(self._inner.commit, offsets)

    def commit_async(self, offsets: GivenOffsets | None = None, callback: CommitCallback | None = None) -> None:
        """The same, without waiting. Commits are done in the order in which they were asked for. `callback` is told the
        offsets (None: all positions) and what went wrong, or None; on the client's own thread, where it must not wait
        for the client."""

        async def commit_async() -> None:
            self._inner.commit_async(offsets, callback)

        # What was given until now, and not what is given by the time the loop comes to it.
        self._wait(commit_async)

    def committed(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int | None]:
        """How far the group has come in each; None where nothing is committed."""
        return self._wait(self._inner.committed, partitions)


async def _call_listener(
    call_backs: CallBacks, method: Callable[[list[TopicPartition]], Any], partitions: list[TopicPartition]
) -> None:
    await call_backs.call(_call_method, method, partitions)


def _call_method(method: Callable[[list[TopicPartition]], Any], names: list[TopicPartition]) -> None:
    result = method(names)
    if inspect.iscoroutine(result):
        result.close()
        raise InvalidArgument("the listener's methods are coroutines: that is for lograft.aio.Consumer")
