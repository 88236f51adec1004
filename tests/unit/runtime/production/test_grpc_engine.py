"""Which gRPC there is, found without importing it."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from lograft.runtime.production import grpc_engine

FOUND = """
import sys
from lograft.runtime.production.grpc_engine import _grpc_version
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
    monkeypatch.setattr(grpc_engine, "find_spec", lambda _: Spec)
    monkeypatch.delenv("GRPC_EXPERIMENTS", raising=False)
    grpc_engine.wait_without_pool()
    assert "GRPC_EXPERIMENTS" not in os.environ


def test_one_that_is_known_waits_without_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_EXPERIMENTS", "")
    monkeypatch.delenv("GRPC_EXPERIMENTS")
    monkeypatch.setattr(grpc_engine, "_grpc_version", lambda: (1, 80))
    grpc_engine.wait_without_pool()
    assert "event_engine_client" in os.environ["GRPC_EXPERIMENTS"]
