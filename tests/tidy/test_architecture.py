"""ARCHITECTURE.md, CONTRIBUTING.md and docs/ name files that exist, and name in them what is there."""

import ast
import re
from pathlib import Path

import pytest
from tidy.rules import ROOMS, ROOT

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
DOCUMENTS = [ARCHITECTURE, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_FOLDERS = (*ROOMS, "lograft", "spark_plugin", "tests", "tools", "benchmarks", "deploy", "docs", "examples")
_PATH = re.compile(rf"`((?:{'|'.join(_FOLDERS)})/(?:[\w./-]*(?:/|\.\w+))?)`")
# `Class.method` (`path.py`), also `path.py`, pure
_NAME_IN_FILE = re.compile(r"`([A-Za-z_][\w.]*)`\s+\(`([\w/]+\.py)`")


def declared_in(source: str) -> set[str]:
    """Return the names of a module's functions and classes, and `Class.method` of these."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {node.name, *(f"{node.name}.{one.name}" for one in inner)}
    return found


def missing_names(text: str, sources: dict[str, str] | None = None) -> list[str]:
    """Return each `Name` (`file.py`) of a text that is not declared there."""

    def source_of(path: str) -> str:
        if sources is not None:
            return sources.get(path, "")
        return (ROOT / path).read_text() if (ROOT / path).exists() else ""

    pairs = _NAME_IN_FILE.findall(" ".join(text.split()))
    return [f"{name} ({path})" for name, path in pairs if name not in declared_in(source_of(path))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document: Path) -> None:
    named = _PATH.findall(document.read_text())
    assert not [path for path in named if not (ROOT / path).exists()]


def test_the_walks_name_what_is_there() -> None:
    text = ARCHITECTURE.read_text()
    assert missing_names(text) == []
    assert len(_NAME_IN_FILE.findall(" ".join(text.split()))) > 40, "the walks name functions and their files"


def test_a_wrong_name_is_noticed() -> None:
    sources = {"raft/x.py": "class Leader:\n    def tick(self): ...\n\ndef elect(): ...\n"}
    text = (
        "`Leader.tick` (`raft/x.py`), then `elect` (`raft/x.py`, pure), `Leader.stop`\n(`raft/x.py`), `a` (`raft/y.py`)"
    )
    assert missing_names(text, sources) == ["Leader.stop (raft/x.py)", "a (raft/y.py)"]
