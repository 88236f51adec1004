"""The house is in order: the import table, the bans, and the purity of what is called pure. See rules.py."""

import ast

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
    pure = [(path, tree) for _, path, tree in MODULES if rules.is_called_pure(tree)]
    findings = [str(f) for path, tree in pure for f in rules.check_purity(path, tree)]
    assert not findings, "\n".join(findings)
    assert len(pure) > len(MODULES) // 4, "most decisions are pure, and say so"


def test_every_room_is_a_package_of_the_build() -> None:
    """Sub-packages follow from their room, if each folder is a package."""
    assigned = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in ast.parse((rules.ROOT / "setup.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS"
    }
    assert sorted(assigned["ROOMS"]) == sorted(rules.ROOMS)
    folders = {path.parent for room in rules.ROOMS for path in (rules.ROOT / room).glob("**/*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("storage", "from lograft.raft.core.raft_core import Core"),
        ("storage", "import lograft.proto.errors_pb2"),
        ("storage", "from lograft import proto"),
        ("runtime", "from lograft.storage.log.partition_log import PartitionLog"),
        ("clients", "from lograft.storage.log.partition_log import PartitionLog"),
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


@pytest.mark.parametrize(
    ("docstring", "is_pure"),
    [
        ("The rule. Pure.", True),
        ("The rule. Pure.\n\nMore about it.", True),
        ("The rule.\n\nMore about it. Pure.\n", True),
        ("Pure functions are elsewhere.", False),
        ("", False),
    ],
)
def test_a_module_says_that_it_is_pure_where_a_paragraph_ends(docstring: str, is_pure: bool) -> None:
    assert rules.is_called_pure(ast.parse(f'"""{docstring}"""')) == is_pure


def test_a_sorted_set_may_be_iterated() -> None:
    assert not list(rules.check_purity("x.py", ast.parse("s = {1, 2}\nfor x in sorted(s): pass")))
