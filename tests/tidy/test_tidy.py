"""The house is in order: the import table, the bans, and the purity of what is called pure. See rules.py."""

import ast
import tomllib

import pytest
from tidy import rules

MODULES = list(rules.modules())


def test_rooms_import_only_what_the_table_allows() -> None:
    findings = [str(f) for room, path, tree in MODULES for f in rules.check_import_table(room, path, tree)]
    assert not findings, "\n".join(findings)


def test_the_outside_world_is_reached_through_the_runtime_alone() -> None:
    findings = [str(f) for room, path, tree in MODULES for f in rules.check_outside_world(room, path, tree)]
    assert not findings, "\n".join(findings)


def test_pure_modules_are_pure() -> None:
    findings = [str(f) for _, path, tree in MODULES if path in rules.PURE for f in rules.check_purity(path, tree)]
    assert not findings, "\n".join(findings)


def test_every_module_called_pure_exists() -> None:
    assert not [path for path in rules.PURE if path not in [p for _, p, _ in MODULES]]


def test_every_room_is_a_package_of_the_build() -> None:
    setuptools = tomllib.loads((rules.ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    inits = [path for room in rules.ROOMS for path in (rules.ROOT / room).glob("**/__init__.py")]
    folders = [str(path.parent.relative_to(rules.ROOT)) for path in inits]
    packages = {f"lograft.{folder.replace('/', '.')}": folder for folder in folders}
    packages["pyspark_lograft"] = "spark/pyspark_lograft"  # where Spark looks
    assert sorted(setuptools["packages"]) == sorted(["lograft", *packages])
    assert setuptools["package-dir"] == {"lograft": "lograft"} | packages


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("storage", "from lograft.raft.core import Core"),
        ("storage", "import lograft.proto.errors_pb2"),
        ("storage", "from lograft import proto"),
        ("runtime", "from lograft.storage.log import PartitionLog"),
        ("clients", "from lograft.storage.log import PartitionLog"),
        ("proto", "import lograft.runtime.clock"),
        ("broker", "from lograft import Producer"),
    ],
)
def test_the_import_table_bites(room: str, source: str) -> None:
    assert list(rules.check_import_table(room, "x.py", ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "import random",
        "import uuid",
        "from uuid import uuid4",
        "import os\nos.urandom(8)",
        "import threading",
        "from concurrent.futures import ThreadPoolExecutor",
        "import socket",
        "import grpc.aio",
        "import asyncio\nasyncio.to_thread(f)",
        "loop.run_in_executor(None, f)",
        "from datetime import datetime\ndatetime.now()",
    ],
)
def test_the_bans_bite(source: str) -> None:
    assert list(rules.check_outside_world("storage", "x.py", ast.parse(source)))
    assert not list(rules.check_outside_world("runtime", "x.py", ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "for x in {1, 2}: pass",
        "members = set(names)\nfor member in members: pass",
        "def f(isr: frozenset[int]):\n    return [x for x in isr]",
        "class A:\n    voters: set[int]\n    def f(self):\n        return list(self.voters)",
        "for x in set(a) | b: pass",
        "async def f(): pass",
        "import asyncio",
        "print('x')",
    ],
)
def test_purity_bites(source: str) -> None:
    assert list(rules.check_purity("x.py", ast.parse(source)))


def test_a_sorted_set_may_be_iterated() -> None:
    assert not list(rules.check_purity("x.py", ast.parse("s = {1, 2}\nfor x in sorted(s): pass")))
