"""Groups and their offsets, for the admin client for ordinary functions."""

from collections.abc import Iterable

from lograft.clients.admin import aio_admin
from lograft.clients.admin.model.group_types import GroupDescription, GroupListing, GroupOffset, GroupState
from lograft.clients.cluster.sync_client import SyncClient
from lograft.clients.consumer.group.offset_commits import GivenOffsets
from lograft.clients.errors import LograftError
from lograft.clients.types import TopicPartition


class GroupAdmin(SyncClient):
    """The admin client is this, and more."""

    def __init__(self, inner: aio_admin.Admin) -> None:
        super().__init__()
        self._inner = inner

    # -- groups

    def list_groups(self) -> list[GroupListing]:
        """All there are, by name. A coordinator that is still reading is waited for."""
        return self._wait(self._inner.list_groups)

    def describe_group(self, name: str) -> GroupDescription:
        return self._wait(self._inner.describe_group, name)

    def describe_groups(self, names: Iterable[str]) -> list[GroupDescription | LograftError]:
        """Each, in order, or why it cannot be."""
        return self._wait(self._inner.describe_groups, names)

    def delete_group(self, name: str) -> None:
        """A group without members, and all that it has committed."""
        self._wait(self._inner.delete_group, name)

    def delete_groups(self, names: Iterable[str]) -> list[str | LograftError]:
        """What came of each, in order: its name, or why it is still there."""
        return self._wait(self._inner.delete_groups, names)

    def remove_members(self, group: str, members: Iterable[str] | None = None) -> list[str]:
        """Put these out of the group, or all; who was. One that lives on joins again."""
        return self._wait(self._inner.remove_members, group, members)

    def wait_for_group(
        self,
        name: str,
        state: GroupState = GroupState.STABLE,
        *,
        members: int | None = None,
        timeout_ms: int | None = None,
    ) -> GroupDescription:
        """Return once the group is in that state, with so many members if that is said."""
        return self._wait(self._inner.wait_for_group, name, state, members=members, timeout_ms=timeout_ms)

    # -- offsets

    def group_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        """How far the group has come: in these partitions, or in all of which anything is committed. Those of topics
        that are gone are left out."""
        return self._wait(self._inner.group_offsets, group, partitions)

    def alter_group_offsets(self, group: str, offsets: GivenOffsets) -> dict[TopicPartition, LograftError | None]:
        """Have a group without members go on elsewhere; one that is not there is made. What was refused, by partition;
        the others are committed."""
        return self._wait(self._inner.alter_group_offsets, group, offsets)

    def reset_group_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], to: str | int, *, validate_only: bool = False
    ) -> dict[TopicPartition, int]:
        """Have a group without members go on at the `earliest` or `latest` offset, or at the first record of a time (in
        milliseconds). Where that is, by partition. `validate_only`: find out, change nothing."""
        return self._wait(self._inner.reset_group_offsets, group, partitions, to, validate_only=validate_only)

    def list_offsets(self, partitions: Iterable[tuple[str, int]], at: str | int) -> dict[TopicPartition, int | None]:
        """The `earliest` or `latest` offset of partitions, or that of the first record of a time (in milliseconds) or
        later: None where there is none."""
        return self._wait(self._inner.list_offsets, partitions, at)

    def delete_group_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, LograftError | None]:
        """Forget how far a group has come in these partitions. Refused for topics that its members are subscribed to:
        what was, by partition."""
        return self._wait(self._inner.delete_group_offsets, group, partitions)
