"""Group members in their own processes: they join, leave in an orderly way, and are killed."""

import signal
import sys
from pathlib import Path

from lograft.chaos.live.clients.base import Place
from lograft.chaos.live.cluster.cluster import LiveCluster
from lograft.runtime.process.supervised_process import SupervisedProcess
from lograft.runtime.rng import Rng

_END_SECONDS = 30


class Crowd:
    """The present members. Each writes its own history in `directory`."""

    def __init__(
        self, cluster: LiveCluster, directory: Path, place: Place, group: str, rng: Rng, session_ms: int
    ) -> None:
        self._cluster = cluster
        self._session_ms = session_ms
        self._directory = directory
        self._place = place
        self._group = group
        self._rng = rng
        self._count = 0
        self._members: dict[str, SupervisedProcess] = {}

    @property
    def members(self) -> list[str]:
        """The names of the members that still run."""
        self._members = {name: process for name, process in self._members.items() if process.is_running}
        return list(self._members)

    @property
    def histories(self) -> list[Path]:
        return sorted(self._directory.glob("history-*.jsonl"))

    def come(self) -> str:
        """Start another member."""
        self._count += 1
        name = f"crowd{self._count}"
        member = self._members[name] = SupervisedProcess(
            [
                sys.executable, "-P", "-m", "lograft.chaos.live.clients.member_process", self._place.bootstrap,
                self._place.topic, self._group, name, str(self._directory / f"history-{name}.jsonl"),
                str(self._rng.randrange(2**31)), str(self._session_ms),
            ],
            self._directory / f"{name}.txt",
            directory=self._directory,
        )  # fmt: skip
        member.start()
        return name

    def leave(self, name: str) -> None:
        """Ask a member to leave in an orderly way, which may take a while."""
        self._members[name].send(signal.SIGTERM)

    def kill(self, name: str) -> None:
        self._members[name].kill()

    async def end(self) -> None:
        """Ask all members to leave, and kill those that do not."""
        for name in self.members:
            self.leave(name)
        try:
            await self._cluster.until(lambda: not self.members, _END_SECONDS, "members leave")
        finally:
            for name in self.members:
                self.kill(name)
