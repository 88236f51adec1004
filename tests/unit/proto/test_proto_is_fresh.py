import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from lograft.proto import errors_pb2
from lograft.proto.errors import ERRORS, error_detail
from lograft.runtime.network import Status

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    specification = importlib.util.spec_from_file_location("generate_proto", ROOT / "tools" / "generate_proto.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in (ROOT / "proto").iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    return tmp_path


def test_generated_code_is_what_the_proto_files_make(tool: ModuleType) -> None:
    assert tool.stale_files(ROOT / "proto") == [], "run `make proto`"


def test_a_changed_proto_file_makes_its_code_stale_until_generated(tool: ModuleType, folder: Path) -> None:
    source = folder / "errors.proto"
    source.write_text(source.read_text().replace("string message = 2;", "string message = 2; string more = 20;"))
    assert tool.stale_files(folder) == ["errors_pb2.py", "errors_pb2.pyi"]
    assert tool.write(folder) == ["errors_pb2.py", "errors_pb2.pyi"]
    assert tool.stale_files(folder) == []


def test_missing_and_left_over_code_is_stale(tool: ModuleType, folder: Path) -> None:
    (folder / "errors_pb2.pyi").unlink()
    (folder / "gone_pb2.py").write_text("")
    assert tool.stale_files(folder) == ["errors_pb2.pyi", "gone_pb2.py"]
    tool.write(folder)
    assert tool.stale_files(folder) == []
    assert not (folder / "gone_pb2.py").exists()


def test_code_by_another_version_of_the_compiler_is_not_stale(tool: ModuleType, folder: Path) -> None:
    code = folder / "errors_pb2.py"
    major, minor, patch = (
        line.strip(" ,") for line in code.read_text().partition("Domain.PUBLIC,\n")[2].splitlines()[:3]
    )
    older = code.read_text().replace(f"{major}.{minor}.{patch}", "6.30.2")
    older = older.replace(f"    {major},\n    {minor},\n    {patch},\n    '',", "    6,\n    30,\n    2,\n    '-rc1',")
    assert older.count("6.30.2") == older.count("'-rc1',") == 1
    code.write_text(older)
    assert tool.stale_files(folder) == []


def test_every_error_code_has_a_meaning() -> None:
    assert ERRORS.keys() == set(errors_pb2.ErrorCode.values())
    for code, meaning in ERRORS.items():
        assert errors_pb2.ErrorCode.Name(code) == meaning.name
        assert meaning.grpc_status == "OK" if code == errors_pb2.NONE else meaning.grpc_status in Status.__members__
        assert meaning.meaning


def test_a_detail_takes_retriable_from_the_table_and_survives_the_wire() -> None:
    detail = error_detail(errors_pb2.NOT_LEADER, "ask 2", leader_id=2, leader_address="b:1", leader_epoch=0)
    read = errors_pb2.ErrorDetail.FromString(detail.SerializeToString())
    assert (read.code, read.message, read.retriable) == (errors_pb2.NOT_LEADER, "ask 2", True)
    assert (read.leader_id, read.leader_address, read.HasField("leader_epoch")) == (2, "b:1", True)
    bare = error_detail(errors_pb2.INVALID_REQUEST, "no")
    assert not bare.retriable
    assert not bare.HasField("leader_id")


def test_the_document_has_every_error_as_the_table_does() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    rows = [
        line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `") and line.count("|") == 6
    ]
    assert rows == [
        [
            f"`{error.name}`",
            "yes" if error.retriable else "no",
            "unknown" if error.outcome_unknown else "nothing was done",
            error.grpc_status,
            error.meaning,
        ]
        for error in ERRORS.values()
        if error.name != "NONE"
    ]
