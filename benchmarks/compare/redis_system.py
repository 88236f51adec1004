"""Redis Streams: a primary, two replicas, three sentinels that choose another primary, and redis-py."""

import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

from compare.failover import measure_pause
from compare.failures import Wrong
from compare.obtaining import Program
from compare.pacing import age_seconds, due_times, stamped
from compare.servers import HOST, Servers, free_ports, until
from compare.system import REPLICAS, Amount, Limit, Mode

_PIPELINE, _XREAD = "XADD in pipelines", "XREAD"
_PIPELINE_RECORDS = 1000
_READ_RECORDS = 1000
_WAIT_MS = 30_000
_SERVICE = "compare"
_FIELD = b"v"
_DOWN_AFTER_MS = 5000  # as in the tutorial of Sentinel's documentation; the default is 30 s


class RedisSystem:
    name = "Redis Streams"
    modes: Sequence[Mode] = (Mode("fsync", "appendfsync always"), Mode("os", "appendfsync everysec (default)"))
    writers: Sequence[str] = (_PIPELINE,)
    readers: Sequence[str] = (_XREAD,)

    def __init__(self, program: Program) -> None:
        self.servers = Servers()
        self._program = program
        self._ports: list[int] = []
        self._sentinels: list[int] = []
        self._partitions: dict[str, int] = {}
        self._modes: dict[str, Mode] = {}
        self._set: Mode | None = None

    def versions(self) -> str:
        return f"{self._program.version}, redis-py {version('redis')}, hiredis {version('hiredis')}"

    # -- the servers

    def start(self, directory: Path) -> float:
        ports = free_ports(2 * REPLICAS)
        self._ports, self._sentinels = ports[:REPLICAS], ports[REPLICAS:]
        started = perf_counter()
        for number, port in enumerate(self._ports):
            self._start_server(directory / f"server-{number}", port, self._ports[0] if number else None)
        until(lambda: self._has_written(), "a write that two Redis replicas have")
        seconds = perf_counter() - started
        for number, port in enumerate(self._sentinels):
            self._start_sentinel(directory / f"sentinel-{number}", port)
        until(self._sentinels_agree, "three sentinels")
        return seconds

    def _start_server(self, home: Path, port: int, primary: int | None) -> None:
        home.mkdir(parents=True)
        lines = [
            f"port {port}", f"bind {HOST}", f"dir {home}", "appendonly yes", "appendfsync always", 'save ""',
            "protected-mode no", "repl-diskless-sync-delay 0",
        ]  # fmt: skip
        lines += [f"replicaof {HOST} {primary}"] if primary else []
        (home / "redis.conf").write_text("\n".join(lines) + "\n")
        self.servers.start(
            f"server-{port}", [self._program.path, str(home / "redis.conf")], home, self._program.variables
        )

    def _start_sentinel(self, home: Path, port: int) -> None:
        home.mkdir(parents=True)
        lines = [
            f"port {port}", f"bind {HOST}", f"dir {home}", "protected-mode no",
            f"sentinel monitor {_SERVICE} {HOST} {self._ports[0]} 2",
            f"sentinel down-after-milliseconds {_SERVICE} {_DOWN_AFTER_MS}",
        ]  # fmt: skip
        (home / "sentinel.conf").write_text("\n".join(lines) + "\n")
        command = [self._program.path, str(home / "sentinel.conf"), "--sentinel"]
        self.servers.start(f"sentinel-{port}", command, home, self._program.variables)

    def _has_written(self) -> bool:
        from redis.exceptions import RedisError

        self.servers.check()
        try:
            primary = self._client(self._ports[0])
            primary.xadd("first:0", {_FIELD: b"hello"})
            return int(primary.execute_command("WAIT", REPLICAS - 1, 1000)) == REPLICAS - 1
        except RedisError:
            return False

    def _sentinels_agree(self) -> bool:
        from redis.exceptions import RedisError

        self.servers.check()
        try:
            states = [self._client(port).sentinel_master(_SERVICE) for port in self._sentinels]
        except RedisError:
            return False
        return all(
            int(state["num-other-sentinels"]) == REPLICAS - 1 and int(state["num-slaves"]) == REPLICAS - 1
            for state in states
        )

    @staticmethod
    def _client(port: int) -> Any:
        import redis

        return redis.Redis(host=HOST, port=port, protocol=2)

    def make_topic(self, name: str, mode: Mode, partitions: int) -> None:
        """Streams come to be with the first record; how they are synced is a setting of the whole server."""
        self._partitions[name] = partitions
        self._modes[name] = mode

    def _use(self, topic: str) -> None:
        mode = self._modes[topic]
        if mode != self._set:
            for port in self._ports:
                self._client(port).config_set("appendfsync", "always" if mode.durability == "fsync" else "everysec")
            self._set = mode

    # -- clients

    def produce(self, writer: str, topic: str, values: Sequence[bytes], limit: Limit) -> Amount:
        self._use(topic)
        client = self._client(self._ports[0])
        streams = cycle(self._streams(topic))
        sent, started = 0, perf_counter()
        for some in limit.begun().pieces(values, _PIPELINE_RECORDS):
            sent += _add(client, next(streams), some, REPLICAS - 1)
        return Amount(sent, perf_counter() - started)

    def _streams(self, topic: str) -> list[str]:
        return [f"{topic}:{number}" for number in range(self._partitions[topic])]

    def stored(self, topic: str) -> int:
        """On the primary; and the replicas have as many."""

        def counts() -> list[int]:
            return [sum(self._client(port).xlen(stream) for stream in self._streams(topic)) for port in self._ports]

        until(lambda: len(set(counts())) == 1, f"{topic} on all replicas")
        return counts()[0]

    def consume(self, reader: str, topic: str, count: int, seconds: float) -> Amount:
        client = self._client(self._ports[0])
        after: dict[Any, Any] = {stream.encode(): b"0" for stream in self._streams(topic)}
        have, started = 0, perf_counter()
        while have < count and perf_counter() < started + seconds:
            for stream, entries in client.xread(after, count=_READ_RECORDS):
                have += len(entries)
                after[stream] = entries[-1][0]
        return Amount(have, perf_counter() - started)

    def latencies(self, topic: str, size_bytes: int, rate: float, seconds: float) -> list[float]:
        self._use(topic)
        writer, reader = self._client(self._ports[0]), self._client(self._ports[0])
        stream, expected = self._streams(topic)[0], int(rate * seconds)
        ages: list[float] = []

        def read() -> None:
            after: Any = b"0"
            while len(ages) < expected:
                answer = reader.xread({stream: after}, block=10_000)
                if not answer:
                    return
                entries = answer[0][1]
                after = entries[-1][0]
                ages.extend([age_seconds(fields[_FIELD]) for _, fields in entries])

        reading = threading.Thread(target=read)
        reading.start()
        waiting: list[bytes] = []
        for due in due_times(rate, seconds):
            waiting.append(stamped(due, size_bytes))
            if perf_counter() < due + 1 / rate:  # else more are due already, and go along
                _add(writer, stream, waiting, REPLICAS - 1)
                waiting = []
        if waiting:
            _add(writer, stream, waiting, REPLICAS - 1)
        reading.join()
        if len(ages) != expected:
            raise Wrong(f"{topic}: {len(ages)} of {expected} records came through")
        return ages

    def failover(self, topic: str) -> float:
        """A write counts when one replica has it, too: of three there will be two. Each attempt asks the sentinels who
        the primary is if the last one failed, as redis-py's own class for that does."""
        from redis.exceptions import RedisError
        from redis.sentinel import Sentinel

        self._use(topic)
        sentinels = Sentinel([(HOST, port) for port in self._sentinels], socket_timeout=1)
        primary, stream = sentinels.master_for(_SERVICE, socket_timeout=1), self._streams(topic)[0]

        def send(acknowledged: Callable[[float], None]) -> None:
            try:
                pipeline = primary.pipeline(transaction=False)
                pipeline.xadd(stream, {_FIELD: b"record"})
                pipeline.execute_command("WAIT", 1, 500)
                if int(pipeline.execute()[1]) >= 1:
                    acknowledged(perf_counter())
            except RedisError:
                pass  # not acknowledged is all that counts

        return measure_pause(send, lambda: self.servers.kill(f"server-{self._ports[0]}"))

    def spark_options(self, topic: str) -> dict[str, str] | None:
        return None

    def stop(self) -> None:
        self.servers.stop()


def _add(client: Any, stream: str, values: Sequence[bytes], replicas: int) -> int:
    """Acknowledged by so many replicas, or `Wrong`."""
    pipeline = client.pipeline(transaction=False)
    for value in values:
        pipeline.xadd(stream, {_FIELD: value})
    pipeline.execute_command("WAIT", replicas, _WAIT_MS)
    answers = pipeline.execute()
    if int(answers[-1]) < replicas:
        raise Wrong(f"{stream}: {answers[-1]} replicas have acknowledged, not {replicas}")
    return len(values)
