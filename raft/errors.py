"""What a node may answer instead of doing as it was asked, each cause a class of its own.

`retriable`: the same request can succeed later, perhaps elsewhere. `outcome_unknown`: it may have been, or may yet be,
carried out, so a retry must be recognisable. Where it is False, nothing was done and nothing will be. Pure.
"""


class RaftError(Exception):
    """Anything a node refuses or could not finish."""

    retriable = False
    outcome_unknown = False


class NotLeader(RaftError):
    """This node does not lead, or is handing over; `leader` is the node that does, if known. Nothing was appended."""

    retriable = True

    def __init__(self, leader: int | None) -> None:
        super().__init__("no leader is known" if leader is None else f"node {leader} leads")
        self.leader = leader


class Overloaded(RaftError):
    """Too much is waiting already. Nothing was appended."""

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
    """The configuration cannot change at the moment: an earlier change, or this term's first commit, is not through, or
    the learner to promote is behind. Nothing was appended."""

    retriable = True


class TransferFailed(RaftError):
    """Leadership did not go where it was to go."""

    retriable = True


class ReadLost(RaftError):
    """The leader that was asked changed before it answered; ask again."""

    retriable = True


class NodeStopped(RaftError):
    """The node has stopped, or failed. Nothing was done."""

    retriable = True

    def __init__(self) -> None:
        super().__init__("the node has stopped")
