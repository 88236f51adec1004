"""Offsets to be committed, as users give them. Pure."""

from collections.abc import Mapping
from typing import TypeAlias

from lograft.clients.errors import InvalidArgument
from lograft.clients.option_checks import MAX_INT32
from lograft.clients.types import MAX_INTEGER, OffsetAndMetadata, TopicPartition, is_text, partition_name

GivenOffsets: TypeAlias = (
    Mapping[TopicPartition, int | OffsetAndMetadata] | Mapping[tuple[str, int], int | OffsetAndMetadata]
)
"""By partition: the offset of the next record to read."""

_MAX_METADATA = 4096


def checked_offsets(offsets: GivenOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """`InvalidArgument` for what cannot be committed."""
    return {partition_name(partition): _checked(given) for partition, given in offsets.items()}


def _checked(given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    offset = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    if not isinstance(offset.offset, int) or not 0 <= offset.offset <= MAX_INTEGER:
        raise InvalidArgument(f"there is no offset {offset.offset!r}: give that of the next record to read")
    epoch = offset.leader_epoch
    if epoch is not None and (not isinstance(epoch, int) or not 0 <= epoch <= MAX_INT32):
        raise InvalidArgument(f"there is no leader epoch {epoch!r}: give None if it is not known")
    metadata = offset.metadata
    if not isinstance(metadata, str) or len(metadata) > _MAX_METADATA or not is_text(metadata):
        raise InvalidArgument(f"the metadata is {metadata!r:.100}: give a text of at most {_MAX_METADATA} characters")
    return offset
