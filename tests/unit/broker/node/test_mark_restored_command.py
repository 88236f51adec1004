"""`lograft mark-restored`, on real files."""

import asyncio
from pathlib import Path

from click.testing import CliRunner, Result
from support.raft_stores import disk_runtime

from lograft.broker.node.mark_restored_command import mark_restored
from lograft.storage.log.data_directory import open_directory
from lograft.storage.state.used_epoch import RecordedUse


def use_of(path: Path) -> RecordedUse:
    """As a node finds it when it starts; the directory is made if it is not there."""

    async def look() -> RecordedUse:
        async with disk_runtime() as runtime:
            directory = await open_directory(runtime, str(path))
            await directory.close()
            return directory.use

    return asyncio.run(look())


def run(*paths: Path | str) -> Result:
    return CliRunner().invoke(mark_restored, [str(path) for path in paths])


def test_all_named_directories_are_marked(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        assert use_of(path) == RecordedUse()
    result = run(f"{paths[0]}/", paths[1])
    assert result.exit_code == 0, result.output
    assert f"{paths[0]} is marked as restored from a copy: directory" in result.output
    assert [use_of(path) for path in paths] == [RecordedUse(is_restored=True)] * 2


def test_a_controllers_metadata_are_mentioned_and_not_marked(tmp_path: Path) -> None:
    use_of(tmp_path / "a")
    (tmp_path / "a" / "metadata").mkdir()
    assert "lograft quorum replace" in run(tmp_path / "a").output


def test_what_is_no_data_directory_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 1
    assert result.output == (
        f"Error: {tmp_path} is not a data directory, for it has no directory-id: name one of the node's data_dirs\n"
    )
    assert list(tmp_path.iterdir()) == []
    assert run().exit_code == 2
