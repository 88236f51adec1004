"""How a node with an empty store joins the quorum: the IO around the rule in `decision.py`.

bootstrapper = Bootstrapper(runtime, store, await store.load(), {1: "host1:9093", ...})
server = await runtime.network.serve(address, {**bootstrapper.handlers(), **transport.handlers()}, on_panic)
state = await bootstrapper.run()  # may wait for an operator to start another controller
node = RaftNode(runtime, store, state, transport, state_machine)
bootstrapper.follow(lambda: node.status().configuration)
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lograft.proto.wire_format import CodecError
from lograft.raft.bootstrap.codec import (
    Offer,
    decode_answer,
    decode_offer,
    decode_offer_answer,
    decode_probe,
    encode_empty,
    encode_initialised,
    encode_joining,
    encode_offer,
    encode_offer_answer,
    encode_probe,
)
from lograft.raft.bootstrap.decision import (
    AcceptFirstVoters,
    Answer,
    JoinAsLearner,
    StartFromStore,
    Unreachable,
    Wait,
    WriteFirstVoters,
    decide,
    refuse_offer,
)
from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import SnapshotMetadata
from lograft.raft.interfaces import Store, StoredState
from lograft.runtime.network import ConnectFailed, Handler, Status, Stream, StreamError
from lograft.runtime.observability.logging import get_logger
from lograft.runtime.tasks.retry import ExponentialWait
from lograft.runtime.world import Runtime

log = get_logger(__name__)

PROBE_METHOD = "/lograft.internal.v1.Raft/Probe"
OFFER_METHOD = "/lograft.internal.v1.Raft/Offer"


@dataclass(frozen=True, slots=True)
class BootstrapTiming:
    """Milliseconds. Rounds are apart by a random time from half the delay up; the delay doubles up to the maximum."""

    call_timeout_ms: int = 1000
    first_delay_ms: int = 50
    max_delay_ms: int = 500


class Bootstrapper:
    """Decides the node's first start. Answers other nodes' probes for the life of the process."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        state: StoredState,
        controllers: Mapping[int, str],
        timing: BootstrapTiming | None = None,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._state = state
        self._controllers = dict(controllers)
        self._timing = timing or BootstrapTiming()
        self._is_joining = False
        self._configuration: Callable[[], Configuration] | None = None
        self._waiting_reason: str | None = None
        self._writing = asyncio.Lock()
        self._decided = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None

    @property
    def waiting_reason(self) -> str | None:
        """The operator-readable reason why the node has not joined yet; None once it has, or if it waits for no other
        node."""
        return self._waiting_reason

    @property
    def is_joining(self) -> bool:
        """True if the node started empty and waits to be added to an existing cluster."""
        return self._is_joining

    async def run(self) -> StoredState:
        """Wait until the node may start; return the state it starts from."""
        if not self._state.is_empty:
            return self._state
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                asking = group.create_task(self._ask_until_decided(), name="raft-bootstrap")
                await self._decided.wait()
                asking.cancel()
                self._group = None
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            self._group = None  # later offers are refused
        self._waiting_reason = None
        return self._state

    def follow(self, current: Callable[[], Configuration]) -> None:
        """Answer probes with the started node's configuration, which `current` returns."""
        self._configuration = current

    # -- asking

    async def who_answers(self, node_id: int) -> Member | None:
        """Probe a controller and return it with its present directory id; None if it does not answer or belongs to
        another cluster. Do not trust an open connection instead: it may lead to the controller's previous process."""
        member, answer = await self._probe(node_id)
        if isinstance(answer, Unreachable) or answer.cluster_id != self._state.identity.cluster_id:
            return None
        return member

    async def _ask_until_decided(self) -> None:
        wait = ExponentialWait(self._runtime.rng, self._timing.first_delay_ms, self._timing.max_delay_ms)
        while not self._decided.is_set():
            await self._act_on(await self._ask_all())
            await self._runtime.clock.sleep_ms(wait.next_ms())

    async def _act_on(self, answers: Mapping[int, Answer]) -> None:
        async with self._writing:
            match decide(self._state, self._controllers, answers):
                case StartFromStore():
                    pass  # an offer was accepted meanwhile
                case Wait(reason=reason):
                    self._wait(reason)
                    return
                case WriteFirstVoters(voters=voters):
                    await self._write(voters, "raft_first_voters_written")
                    await self._offer_to_all(voters)
                case AcceptFirstVoters(voters=voters):
                    await self._write(voters, "raft_first_voters_accepted")
                case JoinAsLearner():
                    self._is_joining = True
                    log.info("raft_waiting_to_be_added", member=str(self._state.identity.member))
            self._decided.set()

    def _wait(self, reason: str) -> None:
        if reason != self._waiting_reason:
            self._waiting_reason = reason
            log.info("raft_waiting", reason=reason)

    async def _write(self, voters: Configuration, event: str) -> None:
        """Make the state durable, then answer probes with it."""
        assert self._state.is_empty
        await self._store.initialise(voters)
        self._state = replace(self._state, snapshot=SnapshotMetadata(0, 0, voters))
        log.info(event, voters=[str(voter) for voter in voters.voters])

    async def _ask_all(self) -> dict[int, Answer]:
        others = [node_id for node_id in self._controllers if node_id != self._state.identity.node_id]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._ask(node_id)) for node_id in others]
        return {node_id: task.result() for node_id, task in zip(others, tasks, strict=True)}

    async def _ask(self, node_id: int) -> Answer:
        return (await self._probe(node_id))[1]

    async def _probe(self, node_id: int) -> tuple[Member | None, Answer]:
        try:
            data = await self._call(node_id, PROBE_METHOD, encode_probe(self._state.identity))
            member, answer = decode_answer(data)
        except _CallFailed as error:
            return None, Unreachable(error.reason)
        except CodecError as error:
            return None, Unreachable(f"its answer is malformed: {error}")
        if member.node_id != node_id:
            return None, Unreachable(f"node {member.node_id} answers there")
        return member, answer

    async def _offer_to_all(self, voters: Configuration) -> None:
        """Send the first voters to the other founders. Only an optimisation: a founder that misses the offer learns
        them by probing."""
        data = encode_offer(Offer(self._state.identity, voters))
        async with asyncio.TaskGroup() as group:
            for voter in voters.voters:
                if voter != self._state.identity.member:
                    group.create_task(self._offer(voter.node_id, data))

    async def _offer(self, node_id: int, data: bytes) -> None:
        try:
            refusal = decode_offer_answer(await self._call(node_id, OFFER_METHOD, data))
        except (_CallFailed, CodecError) as error:
            refusal = str(error)
        if refusal:
            log.info("raft_offer_not_accepted", node_id=node_id, reason=refusal)

    async def _call(self, node_id: int, method: str, request: bytes) -> bytes:
        """Exchange one message for one answer."""
        address, timeout_ms = self._controllers[node_id], self._timing.call_timeout_ms
        try:
            connection = await self._runtime.network.connect(address, timeout_ms)
        except ConnectFailed as error:
            raise _CallFailed("refused" if "refused" in error.reason else error.reason) from None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                stream = connection.open(method)
                await stream.send(request)
                await stream.half_close()
                answer = await stream.receive()
        except TimeoutError:
            raise _CallFailed(f"no answer within {timeout_ms} ms") from None
        except StreamError as error:
            raise _CallFailed(error.message) from None
        finally:
            await connection.close()
        if answer is None:
            raise _CallFailed("an answer without content")
        return answer

    # -- answering

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers for the node's server, by method."""
        return {PROBE_METHOD: self._serve_probe, OFFER_METHOD: self._serve_offer}

    async def _serve_probe(self, stream: Stream) -> None:
        request = await stream.receive()
        try:
            decode_probe(request or b"")
        except CodecError as error:
            raise StreamError(Status.INVALID_ARGUMENT, str(error)) from error
        await stream.send(self._describe())

    def _describe(self) -> bytes:
        state = self._state
        if not state.is_empty:
            first_voters = state.snapshot.configuration if state.snapshot.index == 0 else Configuration()
            return encode_initialised(state.identity, first_voters if first_voters.voters else None)
        if self._configuration is not None and self._configuration().voters:
            return encode_initialised(state.identity, None)
        if self._is_joining:
            return encode_joining(state.identity)
        return encode_empty(state.identity, tuple(sorted(self._controllers)))

    async def _serve_offer(self, stream: Stream) -> None:
        request = await stream.receive()
        try:
            offer = decode_offer(request or b"")
        except CodecError as error:
            raise StreamError(Status.INVALID_ARGUMENT, str(error)) from error
        await stream.send(encode_offer_answer(await self._consider(offer)))

    async def _consider(self, offer: Offer) -> str | None:
        if self._group is None:
            return "this node has decided already" if self._decided.is_set() else "this node is not ready yet"
        # The caller may disconnect meanwhile; the write must finish all the same.
        return await asyncio.shield(self._group.create_task(self._accept(offer)))

    async def _accept(self, offer: Offer) -> str | None:
        async with self._writing:
            if self._is_joining:
                return f"{self._state.identity.member} waits to be added to an existing cluster"
            if self._state.snapshot.configuration == offer.voters and not self._state.is_empty:
                return None  # a repeated offer
            sender = offer.identity.member
            refusal = refuse_offer(self._state, offer.identity.cluster_id, sender, offer.voters)
            if refusal is None:
                await self._write(offer.voters, "raft_first_voters_accepted")
                self._decided.set()
            return refusal


class _CallFailed(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
