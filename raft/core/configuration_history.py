"""The configurations in a log. Pure."""

from collections.abc import Iterable

from lograft.raft.core.configuration import Configuration, Member
from lograft.raft.core.entries import Entry, NewConfiguration
from lograft.raft.core.raft_log import RaftLog


class ConfigurationHistory:
    """Each configuration since the snapshot, with the index it came at. The last is in force, committed or not."""

    def __init__(self, log: RaftLog) -> None:
        self._known = log.configurations()

    @property
    def latest(self) -> Configuration:
        return self._known[-1][1]

    @property
    def latest_index(self) -> int:
        return self._known[-1][0]

    def at(self, index: int) -> Configuration:
        """The one in force when the log ended at `index`, which is not before the snapshot."""
        return [configuration for at, configuration in self._known if at <= index][-1]

    def is_lately_voter(self, member: Member) -> bool:
        """Does the latest configuration, or the one before it, have `member` as a voter?"""
        return any(member in configuration.voters for _, configuration in self._known[-2:])

    def replace_from(self, index: int, entries: Iterable[Entry]) -> None:
        """The log is another from `index` on: it goes on with these entries there."""
        self._known = [known for known in self._known if known[0] < index]
        for entry in entries:
            if entry.index >= index and isinstance(entry.payload, NewConfiguration):
                self._known.append((entry.index, entry.payload.configuration))
