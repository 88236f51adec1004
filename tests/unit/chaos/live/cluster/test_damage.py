"""Files that are spoilt: one at a time, and carefully where that is asked for."""

from pathlib import Path
from uuid import UUID

import pytest

from lograft.chaos.live.cluster.damage import damage_files, lose_files
from lograft.runtime.rng import Rng
from lograft.storage.batch.codec import encode_batch
from lograft.storage.batch.header import stamp
from lograft.storage.files.file_names import INDEX_SUFFIX, LOG_SUFFIX, PartitionName, numbered
from lograft.storage.state.checkpoint import CHECKPOINT_FILE, EPOCHS_FILE, Checkpoint
from lograft.storage.state.watermarks_file import WATERMARKS_FILE

RECOVERY_POINT = 3


def batch(offset: int) -> bytes:
    return stamp(encode_batch([b"v%d" % offset], timestamps=0), offset, 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A partition with six batches, three of them below the recovery point; and what is no partition."""
    partition = tmp_path / str(PartitionName("orders", 0, UUID(int=1)))
    partition.mkdir()
    (partition / numbered(0, LOG_SUFFIX)).write_bytes(b"".join(batch(offset) for offset in range(6)))
    (partition / numbered(0, INDEX_SUFFIX)).write_bytes(b"index" * 5)
    (partition / CHECKPOINT_FILE).write_bytes(Checkpoint(recovery_point=RECOVERY_POINT).encode())
    (partition / EPOCHS_FILE).write_bytes(b"epochs" * 5)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "data.mdb").write_bytes(b"metadata")
    (tmp_path / "lock").write_bytes(b"")
    return tmp_path


def contents(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("is_careful", [True, False])
def test_one_file_of_a_partition_is_not_what_it_was(data: Path, seed: int, is_careful: bool) -> None:
    before = contents(data)
    vouched_for_bytes = sum(len(batch(offset)) for offset in range(RECOVERY_POINT))
    what = damage_files(data, Rng(seed), is_careful=is_careful)
    assert what is not None
    after = contents(data)
    (name,) = [name for name in before if before[name] != after.get(name)]
    assert what.startswith(f"orders-0/{name} ")
    assert name not in ("data.mdb", "lock")
    if name.endswith(LOG_SUFFIX):
        assert name in after
        if is_careful:
            kept = vouched_for_bytes
            assert after[name][:kept] != before[name][:kept]


def test_all_kinds_are_met(tmp_path: Path, data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    met = set()
    for seed in range(150):
        what = damage_files(data, Rng(seed), is_careful=False)
        assert what is not None
        name, _, way = what.partition("/")[2].partition(" ")
        met.add((name, way.split(" ")[0]))
        for path, content in before.items():
            path.write_bytes(content)
    log, index = numbered(0, LOG_SUFFIX), numbered(0, INDEX_SUFFIX)
    assert {(log, "a"), (log, "cut"), (index, "gone"), (CHECKPOINT_FILE, "a"), (EPOCHS_FILE, "cut")} <= met
    assert (log, "gone") not in met


def test_where_there_is_nothing_nothing_is_spoilt(tmp_path: Path) -> None:
    assert damage_files(tmp_path, Rng(1), is_careful=False) is None


@pytest.mark.parametrize("seed", range(20))
def test_files_of_one_partition_are_gone_and_others_are_as_they_were(data: Path, seed: int) -> None:
    before = contents(data)
    what = lose_files(data, Rng(seed))
    assert what is not None
    after = contents(data)
    lost = [name for name in before if name not in after]
    assert lost
    assert {name: before[name] for name in after} == after
    assert not {"data.mdb", "lock"} & set(lost)
    assert "orders-0 gone" in what


def test_every_kind_of_file_is_lost_some_time_and_now_and_then_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    kinds = set()
    for seed in range(150):
        directory = tmp_path_factory.mktemp("data") / str(PartitionName("orders", 0, UUID(int=1)))
        directory.mkdir()
        names = [numbered(base, suffix) for base in (0, 5, 9) for suffix in (LOG_SUFFIX, INDEX_SUFFIX)]
        for name in [*names, CHECKPOINT_FILE, EPOCHS_FILE]:
            (directory / name).write_bytes(b"content")
        (directory.parent / WATERMARKS_FILE).write_bytes(b"watermarks")
        what = lose_files(directory.parent, Rng(seed))
        left = [path.name for path in directory.iterdir()] if directory.exists() else []
        lost = [name for name in [*names, CHECKPOINT_FILE, EPOCHS_FILE] if name not in left]
        kinds.add("all" if not left else lost[0])
        if not (directory.parent / WATERMARKS_FILE).exists():
            assert what is not None
            assert WATERMARKS_FILE in what
            kinds.add(f"{WATERMARKS_FILE} and {'all' if not left else 'some'}")
    assert {"all", numbered(0, LOG_SUFFIX), numbered(5, LOG_SUFFIX), numbered(9, LOG_SUFFIX)} <= kinds
    assert {CHECKPOINT_FILE, EPOCHS_FILE, numbered(0, INDEX_SUFFIX)} <= kinds
    assert {f"{WATERMARKS_FILE} and all", f"{WATERMARKS_FILE} and some"} <= kinds
