"""What the documents tell people to type, typed."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.free_ports import PORTS_OF_DEV, free_port
from support.server_processes import lograft, servers, start_all, variables

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = "localhost:9092"


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


def block_needs_spark(block: str) -> bool:
    """`tests/spark` runs those."""
    return "spark." in block


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


@pytest.mark.parametrize("document", ["README.md", "docs/quickstart.md"])
def test_what_is_to_be_typed_works_in_that_order(document: str, tmp_path: Path) -> None:
    """As one shell, whose home and ports are its own. Python blocks of the quickstart come in between."""
    port = free_port(PORTS_OF_DEV)
    typed = []
    for language, block in re.findall(
        r"^```(sh|python)\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE
    ):
        if language == "sh":
            typed.append(block.replace("lograft dev up", f"lograft dev up --port {port}"))
        elif document != "README.md" and not block_needs_spark(block):
            typed.append(f"python - <<'END'\n{block}END\n")
    script = re.sub(r"(?<=localhost:)90\d\d", lambda found: str(int(found[0]) - 9092 + port), "".join(typed))
    script = script.replace("/tmp/lograft-example", str(tmp_path / "example"))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"trap 'lograft dev down >/dev/null 2>&1' EXIT\n{script}"], cwd=ROOT,
        env=variables(
            HOME=str(tmp_path),
            LOGRAFT_CONFIG=str(tmp_path / "contexts.yaml"),
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        ),
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ("hello" if document == "README.md" else "from Python") in done.stdout


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
def test_targets_that_are_named_are_there(target: str) -> None:
    subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_python_blocks_run_one_after_the_other(document: str, bootstrap: str) -> None:
    found = [block for block in blocks(document, "python") if not block_needs_spark(block)]
    assert found
    assert all(DOCUMENTED in block or "lograft.testing" in block for block in found)
    outputs = [run("-c", block.replace(DOCUMENTED, bootstrap)) for block in found]
    assert all(outputs), "every block shows something"
    if document == "docs/python.md":
        assert "1001 records" in "".join(outputs)


def test_a_client_that_knows_only_reflection_stores_and_reads_a_record(bootstrap: str) -> None:
    assert "from plain gRPC" in run("examples/plain_grpc.py", bootstrap, "orders")
