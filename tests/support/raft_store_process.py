"""A process that saves to a Raft store until it is killed, and says what was confirmed: `<directory>` as argument.

Prints the store's directory id, then, whenever a save is confirmed, the index of its entry.
"""

import asyncio
import sys
from collections import deque

from support.raft_stores import disk_runtime, entry, open_store, snapshot

from lograft.raft.core.entries import HardState

UNDER_WAY = 8
ENTRIES_BETWEEN_SNAPSHOTS = 37


async def main(directory: str) -> None:
    async with disk_runtime() as runtime:
        store = await open_store(runtime, directory)
        print(store.identity.directory_id, flush=True)
        state = await store.load()
        index = state.snapshot.index + len(state.entries)
        under_way: deque[tuple[int, asyncio.Task[None]]] = deque()
        async with asyncio.TaskGroup() as tasks:
            while True:
                index += 1
                save = store.save(HardState(index), [entry(index, index, bytes(index % 7000))], None)
                under_way.append((index, tasks.create_task(save)))
                if len(under_way) == UNDER_WAY:
                    saved, task = under_way.popleft()
                    await task
                    print(saved, flush=True)
                    if saved % ENTRIES_BETWEEN_SNAPSHOTS == 0:
                        await store.save_own_snapshot(snapshot(saved, saved, bytes(saved % 600_000)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
