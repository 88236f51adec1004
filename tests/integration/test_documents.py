"""What the documents tell people to type, typed."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.server_processes import lograft, servers, start_all, variables

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = "localhost:9092"


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(servers(tmp_path_factory.mktemp("documents"), 3))
        start_all(nodes)
        created = lograft(
            "create", "topic", "orders", "--partitions", "3", "--replicas", "3", "--bootstrap", nodes[0].address
        )
        assert created.returncode == 0, created.stderr
        yield nodes[0].address


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=variables(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_python_blocks_run_one_after_the_other(document: str, bootstrap: str) -> None:
    found = blocks(document, "python")
    assert found
    assert all(DOCUMENTED in block or "lograft.testing" in block for block in found)
    outputs = [run("-c", block.replace(DOCUMENTED, bootstrap)) for block in found]
    assert all(outputs), "every block shows something"
    if document == "docs/python.md":
        assert "1001 records" in "".join(outputs)


def test_a_client_that_knows_only_reflection_stores_and_reads_a_record(bootstrap: str) -> None:
    assert "from plain gRPC" in run("examples/plain_grpc.py", bootstrap, "orders")
