"""The asyncio admin client: waiting for a condition."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from lograft.clients.admin.group_admin import GroupAdmin
from lograft.clients.admin.model.group_types import GroupDescription, GroupState
from lograft.clients.admin.model.types import TopicDescription
from lograft.clients.errors import GroupNotFound, LograftError, TimedOut, UnknownTopic
from lograft.runtime.tasks.retry import TryAgain

T = TypeVar("T")


class WaitingAdmin(GroupAdmin):
    async def wait_until(
        self,
        look: Callable[[], Awaitable[T]],
        is_so: Callable[[T], bool],
        what: str,
        *,
        timeout_ms: int | None = None,
    ) -> T:
        """Call `look` repeatedly until `is_so` accepts its result, and return that. Raise `TimedOut` after `timeout_ms`
        (default: the client's timeout); its message states `what` is not the case and the last result."""
        cluster = self._open()
        limit_ms = timeout_ms or self._timeout_ms
        last: object = "nothing was seen"
        try:
            async with cluster.within(limit_ms, what):
                async for attempt in self._retrying():
                    with attempt:
                        last = seen = await look()
                        if not is_so(seen):
                            raise TryAgain
        except TimedOut:
            raise TimedOut(f"{what} within {limit_ms} ms: {last}") from None
        return seen

    async def wait_for_topic(
        self, name: str, *, in_sync: bool = True, timeout_ms: int | None = None
    ) -> TopicDescription:
        """Return once the topic exists, each partition has a leader and, if `in_sync`, all its replicas are in sync."""

        async def look() -> TopicDescription | LograftError:
            try:
                return await self.describe_topic(name)
            except UnknownTopic as error:
                return error

        def is_there(seen: TopicDescription | LograftError) -> bool:
            if isinstance(seen, LograftError):
                return False
            return all(each.is_in_sync if in_sync else each.leader is not None for each in seen.partitions)

        found = await self.wait_until(look, is_there, f"topic {name!r} is not ready", timeout_ms=timeout_ms)
        assert not isinstance(found, LograftError)
        return found

    async def wait_for_no_topic(self, name: str, *, timeout_ms: int | None = None) -> None:
        """Return once no topic has this name."""

        async def look() -> list[str]:
            return await self.list_topics(include_internal=True)

        what = f"topic {name!r} is still there"
        await self.wait_until(look, lambda names: name not in names, what, timeout_ms=timeout_ms)

    async def wait_for_group(
        self,
        name: str,
        state: GroupState = GroupState.STABLE,
        *,
        members: int | None = None,
        timeout_ms: int | None = None,
    ) -> GroupDescription:
        """Return once the group is in that state, with `members` members if given."""

        async def look() -> GroupDescription | LograftError:
            try:
                return await self.describe_group(name)
            except GroupNotFound as error:
                return error

        def is_so(seen: GroupDescription | LograftError) -> bool:
            if isinstance(seen, LograftError) or seen.state is not state:
                return False
            return members is None or len(seen.members) == members

        what = f"group {name!r} is not {state.value}" + ("" if members is None else f" with {members} members")
        found = await self.wait_until(look, is_so, what, timeout_ms=timeout_ms)
        assert not isinstance(found, LograftError)
        return found
