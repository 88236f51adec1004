"""How a simulated run fails. Pure."""


class InvariantBroken(Exception):
    """A node or a client broke a promise. `rule` names the promise."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


class NotLive(Exception):
    """All faults are over, and still the cluster does not come to rest, or work."""
