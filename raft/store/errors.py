"""What can be wrong with a store."""


class StoreError(Exception):
    """Anything a store refuses or reports."""


class StoreRefused(StoreError):
    """A store that must not be used as it is: `cause` says why, `remedy` what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}: {remedy}")
        self.cause = cause
        self.remedy = remedy


class StoreNotEmpty(StoreError):
    """The first voters are for an empty store: this one knows something already, and keeps to that."""


class StoreFailed(StoreError):
    """A transaction failed, and the store has ended with it: what the disk holds is not known. The node must die."""

    def __init__(self, path: str, cause: object) -> None:
        super().__init__(f"the store at {path} failed, and takes nothing more: {cause}")
        self.path = path
        self.cause = cause
