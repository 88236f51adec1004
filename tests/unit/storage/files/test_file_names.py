"""What the files of a partition are called."""

from uuid import UUID

import pytest

from lograft.storage.files.file_names import PartitionName, numbered, parse_numbered, parse_swap, swap_name

TOPIC_ID = UUID("0123456789abcdef0123456789abcdef")
HEX = TOPIC_ID.hex


@pytest.mark.parametrize("offset", [0, 42, 2**63 - 1])
def test_a_numbered_name_says_its_offset(offset: int) -> None:
    assert parse_numbered(numbered(offset, ".log")) == (offset, ".log")


def test_numbered_names_sort_as_their_offsets_do() -> None:
    offsets = [0, 9, 10, 99, 10**18]
    assert sorted(numbered(offset, ".log") for offset in offsets) == [numbered(offset, ".log") for offset in offsets]


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint",
        "1.log",
        "0" * 19 + ".log",
        "0" * 21 + ".log",
        "0" * 20,
        "0" * 20 + ".log.tmp",
        "x" + "0" * 20 + ".log",
        "\N{ARABIC-INDIC DIGIT THREE}" * 20 + ".log",
    ],
)
def test_other_names_have_no_number(name: str) -> None:
    assert parse_numbered(name) is None


def test_a_swap_name_says_what_it_replaces() -> None:
    assert parse_swap(swap_name(5, 2**62)) == (5, 2**62)
    assert parse_swap(numbered(5, ".log")) is None
    assert parse_numbered(swap_name(5, 6)) is None


@pytest.mark.parametrize("topic", ["orders", "a-1.b_c", "__consumer_offsets", "t-0." + "0" * 32, "x" * 180, "."])
@pytest.mark.parametrize("partition", [0, 7, 999_999_999])
def test_a_directory_name_says_whose_it_is(topic: str, partition: int) -> None:
    name = PartitionName(topic, partition, TOPIC_ID)
    assert PartitionName.parse(str(name)) == name
    assert len(str(name)) < 230


@pytest.mark.parametrize(
    "name",
    [
        "lock",
        "orders-0",
        f"orders.{HEX}",
        f"-0.{HEX}",
        f"orders-x.{HEX}",
        f"orders-0.{HEX.upper()}",
        f"orders-0.{HEX}0",
        f"orders-0.{HEX}.deleted",
        f"{'x' * 181}-0.{HEX}",
        f"or/ders-0.{HEX}",
        f"orders-0000000000.{HEX}",
    ],
)
def test_other_directories_are_nobodys(name: str) -> None:
    assert PartitionName.parse(name) is None


@pytest.mark.parametrize("number", ["00", "007", "\N{ARABIC-INDIC DIGIT SEVEN}"])
def test_a_partition_has_one_directory_name(number: str) -> None:
    """Else two directories would be the same partition."""
    assert PartitionName.parse(f"orders-{number}.{HEX}") is None
