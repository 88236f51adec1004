"""The sealed small files: what is written is what is read, and nothing else is."""

import pytest

from lograft.storage.files.sealed_file import BrokenSeal, seal, unseal
from lograft.storage.state.checkpoint import Checkpoint, decode_epochs, encode_epochs
from lograft.storage.state.epoch_cache import EpochCache, EpochEntry

CHECKPOINT = Checkpoint(log_start=3, recovery_point=70, first_dirty=20, tombstones_removed_below=15, cleaned_below=18)
EPOCHS = EpochCache([EpochEntry(1, 0), EpochEntry(5, 2**40)])


def test_a_checkpoint_survives_its_file() -> None:
    assert Checkpoint.decode(CHECKPOINT.encode()) == CHECKPOINT


def test_a_checkpoint_can_be_read_by_people() -> None:
    lines = CHECKPOINT.encode().decode().splitlines()
    assert lines[:4] == ["log_start 3", "recovery_point 70", "first_dirty 20", "tombstones_removed_below 15"]


def test_epochs_survive_their_file() -> None:
    assert decode_epochs(encode_epochs(EPOCHS)) == list(EPOCHS)
    assert decode_epochs(encode_epochs(EpochCache())) == []


@pytest.mark.parametrize("sealed", [CHECKPOINT.encode(), encode_epochs(EPOCHS)], ids=["checkpoint", "epochs"])
def test_any_change_to_a_sealed_file_is_noticed(sealed: bytes) -> None:
    kind = sealed.split()[-1].decode()
    assert unseal(kind, sealed)
    for at in range(len(sealed)):
        for bit in range(8):
            damaged = bytearray(sealed)
            damaged[at] ^= 1 << bit
            with pytest.raises(BrokenSeal):
                unseal(kind, bytes(damaged))
    for size in range(len(sealed)):
        with pytest.raises(BrokenSeal):
            unseal(kind, sealed[:size])
    with pytest.raises(BrokenSeal):
        unseal(kind, sealed + b"\n")


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        Checkpoint.decode(encode_epochs(EPOCHS))


@pytest.mark.parametrize("content", [b"", b"a", b"\x00\xff\n", b"crc32c 00000000 k\n"])
def test_any_content_can_be_sealed(content: bytes) -> None:
    assert unseal("k", seal("k", content)) == content
