"""Errors a Raft node raises, one class per cause.

`retriable`: the same request may succeed later, perhaps on another node. `outcome_unknown`: the node may have carried
the request out, or may yet do so, so a retry must be recognisable. Where it is False, the request changed nothing and
never will. Pure.
"""


class RaftError(Exception):
    """Base class: the node refuses a request or could not finish it."""

    retriable = False
    outcome_unknown = False


class NotLeader(RaftError):
    """This node does not lead, or is handing over; `leader` is the node that does, if known. Nothing was appended."""

    retriable = True

    def __init__(self, leader: int | None) -> None:
        super().__init__("no leader is known" if leader is None else f"node {leader} leads")
        self.leader = leader


class Overloaded(RaftError):
    """Too many requests wait already. Nothing was appended."""

    retriable = True


class EntryTooLarge(RaftError):
    """A command over `max_entry_bytes`."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a command of {size_bytes} bytes is over the limit of {limit_bytes}")


class ProposalLost(RaftError):
    """Leadership was lost, or the node stopped, after the entry was appended: the next leader may commit it or not."""

    retriable = True
    outcome_unknown = True


class ProposalReplaced(RaftError):
    """Another leader's entry is committed where this one was, so this one never will be."""

    retriable = True


class ChangeRefused(RaftError):
    """The configuration cannot change now: an earlier change or this term's first entry is not committed yet, or the
    learner to promote lags behind. Nothing was appended."""

    retriable = True


class TransferFailed(RaftError):
    """Leadership did not move to the requested node."""

    retriable = True


class ReadLost(RaftError):
    """The leader changed before it answered the read; ask again."""

    retriable = True


class NodeStopped(RaftError):
    """The node has stopped, or failed. Nothing was done."""

    retriable = True

    def __init__(self) -> None:
        super().__init__("the node has stopped")
