"""What a writer does waits for a descriptor; a disk that fails has failed all the same."""

import errno
from collections.abc import Callable

import pytest

from lograft.chaos.world.files import VirtualFiles
from lograft.runtime.disk.patient_files import PatientFiles
from lograft.runtime.files import Files, read_whole, replace_file
from lograft.runtime.rng import Rng

CALLS: list[Callable[[Files], object]] = [
    lambda files: files.open("/data/there"),
    lambda files: files.create("/data/new"),
    lambda files: files.list_directory("/data"),
    lambda files: files.sync_directory("/data"),
    lambda files: files.lock("/data/lock"),
]


def disk() -> VirtualFiles:
    files = VirtualFiles(Rng(1))
    files.make_directory("/data")
    files.create("/data/there").close()
    return files


@pytest.mark.parametrize("call", CALLS)
def test_whatever_needs_a_descriptor_waits_for_one(call: Callable[[Files], object]) -> None:
    files, pauses = disk(), list[None]()
    files.run_short(1)
    with pytest.raises(OSError, match="Too many open files"):
        call(files)
    files.run_short(3)
    call(PatientFiles(files, lambda: pauses.append(None)))
    assert (files.shortages, len(pauses)) == (0, 3)


def test_a_change_in_many_steps_is_whole() -> None:
    files = disk()
    files.run_short(2)
    patient = PatientFiles(files, lambda: None)
    replace_file(patient, "/data/there", b"new")
    assert read_whole(files, "/data/there") == b"new"


def test_what_is_the_disks_own_fault_is_told_at_once() -> None:
    files = disk()
    patient = PatientFiles(files, lambda: pytest.fail("waited"))
    files.fail_next_sync("/data")
    with pytest.raises(OSError, match="Input/output") as failed:
        patient.sync_directory("/data")
    assert failed.value.errno == errno.EIO
    with pytest.raises(FileNotFoundError):
        patient.open("/data/gone")
