"""A group member in its own process, so that it can be killed. It writes its own history.

python -m lograft.chaos.live.clients.member_process BOOTSTRAP TOPIC GROUP NAME HISTORY SEED SESSION_MS
"""

import asyncio
import signal
import sys

from lograft.chaos.history.history import HistoryWriter
from lograft.chaos.history.recorder import Recorder
from lograft.chaos.live.clients.base import Place
from lograft.chaos.live.clients.readers import Member
from lograft.runtime.clock import LoopClock
from lograft.runtime.rng import Rng


async def live(member: Member) -> None:
    """Run the member until SIGTERM."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    await member.run(ending)


def main(bootstrap: str, topic: str, group: str, name: str, path: str, seed: str, session_ms: str) -> None:
    with open(path, "w", buffering=1, encoding="utf-8") as sink:
        recorder = Recorder(name, HistoryWriter(sink), LoopClock())
        member = Member(recorder, Place(bootstrap, topic), group, Rng(int(seed)), int(session_ms))
        asyncio.run(live(member))


if __name__ == "__main__":
    main(*sys.argv[1:])
