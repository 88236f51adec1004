"""The runtime of a real node, put together and taken apart."""

import asyncio
import os
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import pytest

from lograft.runtime.files import read_whole
from lograft.runtime.production import node_runtime
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


# -- how gRPC waits for sockets

FOUND = """
import sys
from lograft.runtime.production.node_runtime import _grpc_version
print(*_grpc_version())
assert not {"grpc", "importlib.metadata"} & {*sys.modules}, "that would be too late, or take too long"
"""


def test_the_version_is_found_without_importing_it() -> None:
    done = subprocess.run([sys.executable, "-c", FOUND], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == version("grpcio").split(".")[:2]


@pytest.mark.parametrize(
    "text", [None, "", '__version__ = "unknown"', '__version__ = """1.60.0"""', "__version__ = '2.0.1'"]
)
def test_one_that_is_not_known_is_left_as_it_is(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Spec:
        origin = str(tmp_path / "__init__.py")

    if text is not None:
        (tmp_path / "_grpcio_metadata.py").write_text(text)
    monkeypatch.setattr(node_runtime, "find_spec", lambda _: Spec)
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    node_runtime.wait_without_pool()
    assert "GRPC_EXPERIMENTS" not in os.environ


def test_one_that_is_known_waits_without_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    monkeypatch.delenv("GRPC_EXPERIMENTS")
    monkeypatch.setattr(node_runtime, "_grpc_version", lambda: (1, 80))
    node_runtime.wait_without_pool()
    assert "event_engine_client" in os.environ["GRPC_EXPERIMENTS"]
