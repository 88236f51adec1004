"""A client's access to a group's coordinator: asks any broker to find it, and follows it when it moves."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from lograft.clients.cluster.cluster_client import ClusterClient
from lograft.clients.cluster.item_results import Result, checked
from lograft.clients.errors import Loading, LograftError, NotCoordinator, Unavailable, is_worth_retrying
from lograft.proto import groups_pb2 as pb
from lograft.proto.methods import COMMIT_OFFSETS, FIND_COORDINATOR, GROUP_HEARTBEAT
from lograft.runtime.network import ConnectFailed
from lograft.runtime.tasks.deadline import COORDINATOR_MS
from lograft.runtime.tasks.retry import ExponentialWait, retrying

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_FIRST_RETRY_MS = 20
_LAST_RETRY_MS = 500

# Methods that may create a group. All others get GroupNotFound if the cluster never had one.
_MAKE_GROUPS = (COMMIT_OFFSETS, GROUP_HEARTBEAT)


class GroupCoordinator:
    """Calls the coordinator of `group`."""

    def __init__(self, cluster: ClusterClient, group: str) -> None:
        self.group = group
        self._cluster = cluster
        self._address: str | None = None
        self._leader_epoch = -1

    async def call(self, method: str, request: Message, response_type: type[R]) -> R:
        """Return the coordinator's answer. Retry on retriable errors; the caller bounds the time."""
        return await self._insist(lambda: self.call_once(method, request, response_type))

    async def call_for_group(
        self, method: str, request: Message, response_type: type[R], said_of_group: Callable[[R], Result]
    ) -> Result:
        """Like `call`, for an answer with a result or error per group: return this group's result."""

        async def ask() -> Result:
            answer = await self.call_once(method, request, response_type)
            try:
                return checked(said_of_group(answer))
            except LograftError as error:
                self._heed(error)
                raise

        return await self._insist(ask)

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        async for attempt in retrying(self._cluster.runtime.clock, self.retry_wait(), on=is_worth_retrying):
            with attempt:
                answer = await ask()
        return answer

    async def call_once(
        self, method: str, request: Message, response_type: type[R], attempt_ms: int | None = None
    ) -> R:
        """Like `call`, without retries. After an error, the next call may go to another broker."""
        address = await self.find(existing_only=method not in _MAKE_GROUPS)
        try:
            return await self._cluster.call_address(address, method, request, response_type, attempt_ms)
        except ConnectFailed as error:
            self._address = None
            raise Unavailable(str(error)) from None
        except LograftError as error:
            self._heed(error)
            raise

    def _heed(self, error: LograftError) -> None:
        """Forget the coordinator after an error that may mean it moved, or follow the hint in it."""
        if error.retriable and not isinstance(error, Loading):
            self._address = self._hinted(error)

    async def find(self, *, existing_only: bool = False) -> str:
        """Return the coordinator's address; the caller bounds the time. With `existing_only`, raise `GroupNotFound` if
        the cluster never had a group; otherwise the cluster creates the offsets topic."""
        return self._address or await self._find(existing_only)

    async def _find(self, existing_only: bool) -> str:
        await self._cluster.identify()
        request = pb.FindCoordinatorRequest(group=self.group, existing_only=existing_only)
        answer = await self._cluster.call_any(
            FIND_COORDINATOR, request, pb.FindCoordinatorResponse, repeatable=True, attempt_ms=COORDINATOR_MS
        )
        self._leader_epoch = answer.leader_epoch
        self._address = answer.address
        return answer.address

    def _hinted(self, error: LograftError) -> str | None:
        """Return the coordinator's address from a `NotCoordinator` error, if it is newer than the known one."""
        if not isinstance(error, NotCoordinator) or error.leader_address is None or error.leader_epoch is None:
            return None
        if error.leader_epoch <= self._leader_epoch:
            return None
        self._leader_epoch = error.leader_epoch
        return error.leader_address

    def retry_wait(self) -> ExponentialWait:
        return ExponentialWait(self._cluster.runtime.rng, _FIRST_RETRY_MS, _LAST_RETRY_MS)
