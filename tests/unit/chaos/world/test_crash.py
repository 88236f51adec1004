"""A simulated crash is told by the production code that was at work, and the call that it made."""

from lograft.chaos.world.crash import SimulatedCrash, calling_code, without_numbers
from lograft.chaos.world.files import VirtualFiles
from lograft.runtime.files import replace_file
from lograft.runtime.rng import Rng
from lograft.storage.log.recovery import create_partition


def places_of_a_crash_in(call: int, directory: str | None) -> list[str]:
    files, places = VirtualFiles(Rng(1)), []
    files.make_directory("/data")
    files.on_crash(lambda name: places.append(f"{calling_code()}: {without_numbers(name)}"))
    files.crash_at(files.calls + call)
    try:
        if directory is None:
            replace_file(files, "/data/17.index", b"")
        else:
            create_partition(files, directory)
    except SimulatedCrash:
        return places
    raise AssertionError("no crash came")


def test_a_crash_is_told_by_who_works() -> None:
    assert places_of_a_crash_in(1, None) == ["runtime.files.replace_file: create *.index.tmp"]
    directory = "/data/topic1-0.0123456789abcdef0123456789abcdef"
    assert places_of_a_crash_in(1, directory) == ["storage.log.recovery.create_partition: make_directory topic*-**"]
