"""Failures of a simulated run. Pure."""


class InvariantBroken(Exception):
    """A node or a client broke an invariant. `rule` names it."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


class NotLive(Exception):
    """The cluster does not settle, or does not serve requests, after all faults have ended."""
