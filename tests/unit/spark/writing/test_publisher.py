"""What is known of what was published already."""

from lograft.spark.common.range_reader import RangePart
from lograft.spark.writing.publisher import stored_of
from lograft.storage.batch.codec import encode_batch
from lograft.storage.batch.header import renumber

LAST_NUMBER = 2**31 - 1


def part(*batches: tuple[int, int]) -> RangePart:
    """Of batches of two records, of a producer and by its numbers."""
    encoded = [
        renumber(encode_batch([b"a", b"b"], timestamps=0), producer, 0, sequence) for producer, sequence in batches
    ]
    return RangePart(b"".join(encoded), 0, 2 * len(batches))


def test_what_is_stored_is_counted_up_to_the_last_batch_of_the_producer() -> None:
    assert stored_of(7, []) == 0
    assert stored_of(7, [part((8, 0), (8, 2))]) == 0
    assert stored_of(7, [part((7, 0), (8, 0)), part((7, 2), (8, 2))]) == 4
    assert stored_of(7, [part((7, 100))]) == 102  # what was before it is deleted already


def test_numbers_that_begin_anew_are_counted_on() -> None:
    assert stored_of(7, [part((7, LAST_NUMBER - 3), (7, LAST_NUMBER - 1))]) == 2**31
    assert stored_of(7, [part((7, LAST_NUMBER - 3), (7, LAST_NUMBER - 1), (7, 0))]) == 2**31 + 2
    assert stored_of(7, [part((7, LAST_NUMBER - 2), (7, LAST_NUMBER))]) == 2**31 + 1
