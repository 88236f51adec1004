"""The admin client, for ordinary functions: the same as for asyncio, on a loop in another thread."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from lograft.clients.admin import aio_admin
from lograft.clients.admin.aio_admin import DEFAULT_TIMEOUT_MS
from lograft.clients.admin.model.types import (
    BrokerLoad,
    ClusterDescription,
    ConfigEntry,
    ConfigKind,
    CreatedTopic,
    Election,
    ElectionKind,
    NewTopic,
    PartitionVerification,
    QuorumDescription,
    QuorumMember,
    Reassignment,
    ReplicaDescription,
    TopicDescription,
)
from lograft.clients.admin.sync_group_admin import GroupAdmin
from lograft.clients.errors import LograftError

__all__ = ["Admin"]


class Admin(GroupAdmin):
    """Looks at the cluster, and changes it. Whatever can be tried again is, within `timeout_ms`.

    with Admin("localhost:9092") as admin:
        admin.create_topic("orders", partitions=6, replicas=3)
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        first_contact_ms: int | None = None,
    ) -> None:
        super().__init__(aio_admin.Admin(bootstrap, timeout_ms=timeout_ms, first_contact_ms=first_contact_ms))
        self._wait(self._inner.start)

    def close(self) -> None:
        self._wait(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- looking

    def describe_cluster(self, topics: Iterable[str] = (), *, include_internal: bool = False) -> ClusterDescription:
        """Brokers, and these topics; all, if none are named. `UnknownTopic` for one that there is none of."""
        return self._wait(self._inner.describe_cluster, topics, include_internal=include_internal)

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        return self._wait(self._inner.list_topics, include_internal=include_internal)

    def describe_topic(self, name: str) -> TopicDescription:
        return self._wait(self._inner.describe_topic, name)

    def describe_replicas(
        self, topics: Iterable[str] = (), *, include_internal: bool = False
    ) -> list[ReplicaDescription]:
        """What brokers have of the partitions of these topics, or of all. Brokers that do not answer in a few seconds
        are left out."""
        return self._wait(self._inner.describe_replicas, topics, include_internal=include_internal)

    def describe_load(self, topics: Iterable[str] = (), *, include_partitions: bool = True) -> list[BrokerLoad]:
        """What each live broker has had to do since it started: two answers make rates. Of its partitions, those of
        these topics, or all that had any traffic. Brokers that do not answer in a few seconds are left out."""
        return self._wait(self._inner.describe_load, topics, include_partitions=include_partitions)

    def verify_replicas(
        self, topics: Iterable[str] = (), *, include_internal: bool = False
    ) -> list[PartitionVerification]:
        """Each partition of these topics, or of all, as `verify_partition` does."""
        return self._wait(self._inner.verify_replicas, topics, include_internal=include_internal)

    def verify_partition(self, topic: str, number: int) -> PartitionVerification:
        """Compare what the brokers in sync have of the partition on their disks. A damaged copy that is met is made
        anew by its broker."""
        return self._wait(self._inner.verify_partition, topic, number)

    # -- topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replicas: int | None = None,
        config: Mapping[str, str] | None = None,
        assignments: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> CreatedTopic:
        """`validate_only`: check all, change nothing."""
        return self._wait(
            self._inner.create_topic,
            name,
            partitions=partitions,
            replicas=replicas,
            config=config,
            assignments=assignments,
            validate_only=validate_only,
        )

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> list[CreatedTopic | LograftError]:
        """What came of each, in order. One that fails changes nothing, and does not keep the others from it."""
        return self._wait(self._inner.create_topics, topics, validate_only=validate_only)

    def delete_topic(self, name: str) -> None:
        self._wait(self._inner.delete_topic, name)

    def delete_topics(self, names: Iterable[str]) -> list[str | LograftError]:
        """What came of each, in order: its name, or why it is still there."""
        return self._wait(self._inner.delete_topics, names)

    def create_partitions(self, topic: str, total: int, *, validate_only: bool = False) -> int:
        """See to it that the topic has `total` partitions; how many it has. A topic cannot lose partitions.

        If `outcome_unknown` of an error is true, it may have been done: look, before you ask again. It is not done
        again by itself, because the topic may be another one by then, or somebody else may have given it more."""
        return self._wait(self._inner.create_partitions, topic, total, validate_only=validate_only)

    def wait_for_topic(self, name: str, *, in_sync: bool = True, timeout_ms: int | None = None) -> TopicDescription:
        """Return once the topic is there, and each partition has a leader and, if `in_sync`, all its replicas in
        sync."""
        return self._wait(self._inner.wait_for_topic, name, in_sync=in_sync, timeout_ms=timeout_ms)

    def wait_for_no_topic(self, name: str, *, timeout_ms: int | None = None) -> None:
        """Return once there is none of that name."""
        self._wait(self._inner.wait_for_no_topic, name, timeout_ms=timeout_ms)

    # -- configuration

    def describe_config(self, kind: ConfigKind, name: str = "", keys: Iterable[str] = ()) -> list[ConfigEntry]:
        """What is in force for a topic, a broker (its id) or the cluster, and where it comes from."""
        return self._wait(self._inner.describe_config, kind, name, keys)

    def alter_config(
        self, kind: ConfigKind, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> dict[str, str | None]:
        """Set keys, all or none of them; None unsets one. Others stay as they are. What is another now, or would be
        with `validate_only`: values as they are stored.

        An error whose `outcome_unknown` is true says that it may have been done: look, before you do it again. It is
        not done again by itself, because that could undo what somebody else has set since."""
        return self._wait(self._inner.alter_config, kind, name, changes, validate_only=validate_only)

    # -- partitions

    def reassign(
        self, targets: Mapping[tuple[str, int], Sequence[int] | None], *, validate_only: bool = False
    ) -> dict[tuple[str, int], LograftError | None]:
        """Move partitions to these brokers, the preferred leader first; None: go back to the ones before. What was
        refused, by partition; the others have begun.

        If `outcome_unknown` of an error is true, it may have begun: look (`list_reassignments`), before you ask again.
        It is not done again by itself, because that could undo what somebody else has asked for since."""
        return self._wait(self._inner.reassign, targets, validate_only=validate_only)

    def list_reassignments(self, topics: Iterable[str] = ()) -> list[Reassignment]:
        """Those under way; of all topics, if none are named."""
        return self._wait(self._inner.list_reassignments, topics)

    def elect_leaders(
        self, kind: ElectionKind = ElectionKind.PREFERRED, partitions: Iterable[tuple[str, int]] | None = None
    ) -> list[Election]:
        """Of these partitions, or of all that need it. An unclean election whose answer is lost is not held again by
        itself: records may be lost by each."""
        return self._wait(self._inner.elect_leaders, kind, partitions)

    # -- brokers and the quorum

    def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker for good. It must be stopped, and have no replicas."""
        self._wait(self._inner.unregister_broker, broker_id)

    def describe_quorum(self) -> QuorumDescription:
        return self._wait(self._inner.describe_quorum)

    def add_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        """Make a controller, which is running, a voter. The quorum as it is then."""
        return self._wait(self._inner.add_voter, node_id)

    def remove_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        return self._wait(self._inner.remove_voter, node_id)

    def replace_voter(self, node_id: int) -> tuple[QuorumMember, ...]:
        """For a controller that lost its disk: its old self is removed, and the new one added."""
        return self._wait(self._inner.replace_voter, node_id)

    def transfer_leadership(self, node_id: int) -> int:
        """Make another voter the active controller; who is."""
        return self._wait(self._inner.transfer_leadership, node_id)
