import importlib.util
import inspect
import shutil
from pathlib import Path
from types import ModuleType

import pytest

import lograft
from lograft import aio

ROOT = Path(__file__).resolve().parents[3]
GENERATED = "clients/consumer/sync_consumer_calls.py"
BY_HAND = "clients/consumer/sync_consumer.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "tools" / "generate_sync_clients.py"
    specification = importlib.util.spec_from_file_location("generate_sync_clients", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "clients", tmp_path / "clients", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_synchronous_clients_are_what_the_awaitable_ones_make(tool: ModuleType) -> None:
    assert tool.stale_files(ROOT) == [], "run `make sync-clients`"


def test_a_changed_docstring_makes_forwarding_and_handwritten_methods_stale(tool: ModuleType, copy: Path) -> None:
    source = copy / "clients/consumer/aio_consumer.py"
    text = source.read_text()
    for docstring in ("Return the partitions that the consumer reads.", "Return records as soon as there are any"):
        assert docstring in text
        text = text.replace(docstring, f"Changed: {docstring}")
    source.write_text(text)
    assert tool.stale_files(copy) == [BY_HAND, GENERATED]
    assert tool.write(copy) == [BY_HAND, GENERATED]
    assert tool.stale_files(copy) == []
    assert "Changed: Return the partitions" in (copy / GENERATED).read_text()
    assert "Changed: Return records as soon" in (copy / BY_HAND).read_text()


def test_a_new_method_is_forwarded_with_its_arguments(tool: ModuleType, copy: Path) -> None:
    source = copy / "clients/admin/topic_admin.py"
    text = source.read_text()
    method = '    async def rename(self, name: str, *to: str, is_sure: bool = False) -> str:\n        """Rename."""\n\n'
    source.write_text(text.replace("    async def list_topics(", f"{method}    async def list_topics("))
    tool.write(copy)
    generated = (copy / "clients/admin/sync_admin_calls.py").read_text()
    assert "    def rename(self, name: str, *to: str, is_sure: bool = False) -> str:" in generated
    assert "        return self._wait(self._inner.rename, name, *to, is_sure=is_sure)\n" in generated


@pytest.mark.parametrize("name", ["Admin", "Consumer", "Producer"])
def test_both_faces_have_the_same_methods(name: str) -> None:
    """But for those that exist for the other face, and for life cycles."""
    faces = []
    for client in (getattr(lograft, name), getattr(aio, name)):
        methods = {each: member for each, member in inspect.getmembers(client) if not each.startswith("_")}
        faces.append(methods)
    sync, awaitable = faces
    assert sync.keys() <= awaitable.keys()
    for each, member in sync.items():
        if callable(member):
            assert inspect.getdoc(member) == inspect.getdoc(awaitable[each]), each
            parameters = inspect.signature(member).parameters
            assert list(parameters) == list(inspect.signature(awaitable[each]).parameters), each
