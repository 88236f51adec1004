"""The runtime of a real node, put together and taken apart."""

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from lograft.runtime.files import read_whole
from lograft.runtime.production.node_runtime import close_production_runtime, production_runtime


@pytest.fixture
def _switch_interval_is_restored():  # type: ignore[no-untyped-def]
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_switch_interval_is_restored")
def test_a_closed_runtime_has_done_its_work_and_leaves_no_thread(tmp_path: Path) -> None:
    async def main() -> None:
        panics: list[BaseException] = []
        runtime = production_runtime(panics.append)
        opened = [runtime.files.create(f"{tmp_path}/{number}") for number in range(5)]
        done: list[str] = []

        def perform(operations: list[bytes]) -> str:
            opened[0].write(0, operations)
            runtime.files.sync_all(opened)
            return "synced"

        runtime.make_worker("disk", perform, done.append).submit(b"content")
        assert await runtime.blocking.run_blocking(opened[1].size) == 0
        await close_production_runtime(runtime)
        assert done == ["synced"]
        assert panics == []
        assert read_whole(runtime.files, f"{tmp_path}/0") == b"content"
        for file in opened:
            file.close()

    before = set(threading.enumerate())
    asyncio.run(main())
    assert set(threading.enumerate()) <= before
