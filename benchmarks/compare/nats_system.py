"""NATS JetStream: three servers in a cluster, streams with three replicas in files, and nats-py."""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from compare.failover import measure_pause_awaiting
from compare.failures import CannotRun, Wrong
from compare.obtaining import Program
from compare.pacing import age_seconds, stamped, wait_until_due
from compare.servers import HOST, Servers, free_ports, until
from compare.system import REPLICAS, Amount, Limit, Mode

T = TypeVar("T")

_PUBLISH, _SUBSCRIBE = "publish_async", "ordered consumer"
_IN_FLIGHT = 4000  # nats-py's own limit
_STEP = 200
_CONFIGURATION = """\
server_name: n{number}
host: {host}
port: {client}
jetstream {{ store_dir: "{store}", max_memory_store: 1GB, max_file_store: 50GB }}
cluster {{ name: compare, host: {host}, port: {route}, routes: [{routes}] }}
"""


class NatsSystem:
    name = "NATS JetStream"
    # 2.9 has no setting for it: files are synced every two minutes.
    modes: Sequence[Mode] = (Mode("os", "default"),)
    writers: Sequence[str] = (_PUBLISH,)
    readers: Sequence[str] = (_SUBSCRIBE,)

    def __init__(self, program: Program) -> None:
        self.servers = Servers()
        self._program = program
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Any = None
        self._partitions: dict[str, int] = {}

    def versions(self) -> str:
        return f"{self._program.version}, nats-py {version('nats-py')}"

    def _run(self, work: Awaitable[T]) -> T:
        assert self._loop is not None
        return self._loop.run_until_complete(work)

    # -- the cluster

    def start(self, directory: Path) -> float:
        ports = free_ports(2 * REPLICAS)
        clients, routes = ports[:REPLICAS], ports[REPLICAS:]
        self._loop = asyncio.new_event_loop()
        started = perf_counter()
        for number, (client, route) in enumerate(zip(clients, routes, strict=True), 1):
            home = directory / f"node-{number}"
            home.mkdir(parents=True)
            text = _CONFIGURATION.format(
                number=number, host=HOST, client=client, route=route, store=home / "data",
                routes=", ".join(f"nats://{HOST}:{port}" for port in routes),
            )  # fmt: skip
            (home / "nats.conf").write_text(text)
            command = [self._program.path, "-c", str(home / "nats.conf")]
            self.servers.start(f"n{number}", command, home, self._program.variables)
        addresses = [f"nats://{HOST}:{port}" for port in clients]
        until(lambda: self._has_connected(addresses), "a connection to NATS")
        until(lambda: self._has_made("first"), "JetStream's metadata leader")
        acknowledged = self._run(self._connection.jetstream().publish("first.0", b"hello", timeout=10))
        if acknowledged.stream != "first-0":
            raise CannotRun("the first write to JetStream went elsewhere")
        return perf_counter() - started

    def _has_connected(self, addresses: list[str]) -> bool:
        import nats

        self.servers.check()

        async def say_nothing(_: Exception) -> None: ...

        try:
            self._connection = self._run(
                nats.connect(
                    addresses, connect_timeout=1, allow_reconnect=True, max_reconnect_attempts=-1,
                    reconnect_time_wait=0.1, error_cb=say_nothing,
                )
            )  # fmt: skip
        except Exception:
            return False
        return True

    def _has_made(self, name: str) -> bool:
        from nats.errors import Error

        try:
            self.make_topic(name, self.modes[0], 1)
        except (Error, TimeoutError):  # while there is no leader
            return False
        return True

    def make_topic(self, name: str, mode: Mode, partitions: int) -> None:
        from nats.js.api import StorageType, StreamConfig

        jetstream = self._connection.jetstream(timeout=5)
        for number in range(partitions):
            config = StreamConfig(
                name=f"{name}-{number}", subjects=[f"{name}.{number}"], num_replicas=REPLICAS, storage=StorageType.FILE
            )
            self._run(jetstream.add_stream(config))
        self._partitions[name] = partitions
        until(lambda: self._is_in_sync(name), f"stream {name} in sync")

    def _is_in_sync(self, name: str) -> bool:
        infos = [self._info(name, number) for number in range(self._partitions[name])]
        return all(
            info.cluster is not None
            and info.cluster.leader
            and len(info.cluster.replicas or []) == REPLICAS - 1
            and all(replica.current for replica in info.cluster.replicas)
            for info in infos
        )

    def _info(self, name: str, number: int) -> Any:
        return self._run(self._connection.jetstream(timeout=5).stream_info(f"{name}-{number}"))

    # -- clients

    def produce(self, writer: str, topic: str, values: Sequence[bytes], limit: Limit) -> Amount:
        return self._run(self._produce(topic, values, limit))

    async def _produce(self, topic: str, values: Sequence[bytes], limit: Limit) -> Amount:
        jetstream = self._connection.jetstream(publish_async_max_pending=_IN_FLIGHT)
        subjects = [f"{topic}.{number}" for number in range(self._partitions[topic])]
        started = perf_counter()
        futures: list[Any] = []
        for some, subject in zip(limit.begun().pieces(values, _STEP), cycle(subjects), strict=False):
            for value in some:
                futures.append(await jetstream.publish_async(subject, value))
        answers = await asyncio.wait_for(asyncio.gather(*futures), 120)
        elapsed = perf_counter() - started
        if any(answer.duplicate for answer in answers):
            raise Wrong(f"{topic}: records were taken for duplicates")
        return Amount(len(answers), elapsed)

    def stored(self, topic: str) -> int:
        until(lambda: self._is_in_sync(topic), f"stream {topic} in sync")
        return sum(self._info(topic, number).state.messages for number in range(self._partitions[topic]))

    def consume(self, reader: str, topic: str, count: int, seconds: float) -> Amount:
        return self._run(self._consume(topic, count, seconds))

    async def _consume(self, topic: str, count: int, seconds: float) -> Amount:
        jetstream = self._connection.jetstream()
        have, is_done = 0, asyncio.Event()

        async def take(_message: Any) -> None:
            nonlocal have
            have += 1
            if have >= count:
                is_done.set()

        started = perf_counter()
        subscriptions = [
            await jetstream.subscribe(f"{topic}.{number}", cb=take, ordered_consumer=True)
            for number in range(self._partitions[topic])
        ]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(is_done.wait(), seconds)
        amount = Amount(have, perf_counter() - started)
        for subscription in subscriptions:
            await subscription.unsubscribe()
        return amount

    def latencies(self, topic: str, size_bytes: int, rate: float, seconds: float) -> list[float]:
        return self._run(self._latencies(topic, size_bytes, rate, seconds))

    async def _latencies(self, topic: str, size_bytes: int, rate: float, seconds: float) -> list[float]:
        jetstream = self._connection.jetstream(publish_async_max_pending=_IN_FLIGHT)
        expected = int(rate * seconds)
        ages: list[float] = []
        is_done = asyncio.Event()

        async def take(message: Any) -> None:
            ages.append(age_seconds(message.data))
            if len(ages) == expected:
                is_done.set()

        subscription = await jetstream.subscribe(f"{topic}.0", cb=take, ordered_consumer=True)
        futures, started = [], perf_counter()
        for number in range(expected):
            due = started + number / rate
            await wait_until_due(due)
            futures.append(await jetstream.publish_async(f"{topic}.0", stamped(due, size_bytes)))
        await asyncio.gather(*futures)
        try:
            await asyncio.wait_for(is_done.wait(), 30)
        except TimeoutError:
            raise Wrong(f"{topic}: {len(ages)} of {expected} records came through") from None
        await subscription.unsubscribe()
        return ages

    def failover(self, topic: str) -> float:
        leader = self._info(topic, 0).cluster.leader
        jetstream = self._connection.jetstream()

        async def send() -> None:
            await jetstream.publish(f"{topic}.0", b"record", timeout=5)

        return self._run(measure_pause_awaiting(send, lambda: self.servers.kill(leader)))

    def spark_options(self, topic: str) -> dict[str, str] | None:
        return None

    def stop(self) -> None:
        if self._loop is not None:
            if self._connection is not None:
                self._run(self._connection.close())
            self._loop.close()
        self._loop = self._connection = None
        self.servers.stop()
